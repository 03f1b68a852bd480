"""Meters what models are asked in the background.

Runs count what they ask themselves; `meter_client` is for what nobody waits for: summaries, reviews, judging
contradictions. It waits when the day's budget is used up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openvibe.engines.llm.errors import BudgetExceeded
from openvibe.engines.llm.protocol import ModelClient, ModelStream
from openvibe.engines.llm.tokens import count_prompt_tokens, counter_for
from openvibe.engines.llm.values import NO_OPTIONS, CallOptions, ChatMessage, Completion, StreamEnd, ToolSpec, Usage
from openvibe.engines.registers import Register
from openvibe.workspaces.models import Spending

TOKENS_LEFT: Register[Callable[[int, int | None, int | None], int]] = Register(
    "openvibe.workspaces.services.spending.TOKENS_LEFT"
)
"""Tokens that may still be used today, never below 0, of a workspace (its id) and, where one is named, of an agent (a
participant's id) and of a channel (its id)."""


def meter_client(
    client: ModelClient,
    *,
    workspace_id: int,
    purpose: Spending.Purpose,
    agent_id: int | None = None,
    channel_id: int | None = None,
) -> ModelClient:
    """The same client, each call of it recorded and held against the budgets of the workspace and, where one is named,
    of the agent (a participant's id) and of the channel whose conversation it is about. One that costs nothing stays as
    it is."""
    if client.is_free:
        return client
    return _MeteredClient(client, workspace_id, purpose, agent_id, channel_id)


@dataclass(frozen=True)
class _MeteredClient:
    """Raises BudgetExceeded, before anything is sent, where the prompt alone would go over the budget."""

    client: ModelClient
    workspace_id: int
    purpose: Spending.Purpose
    agent_id: int | None
    channel_id: int | None
    is_free = False

    @property
    def model(self) -> str:
        return self.client.model

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        spending = self._start_spending(messages, tools)
        completion = self.client.complete(messages, tools=tools, max_output_tokens=max_output_tokens, options=options)
        _record_usage(spending, completion.usage)
        return completion

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        spending = self._start_spending(messages, tools)
        for event in self.client.stream(messages, tools=tools, max_output_tokens=max_output_tokens, options=options):
            if isinstance(event, StreamEnd):
                _record_usage(spending, event.completion.usage)
            yield event

    def _start_spending(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Spending:
        """What is about to be sent counts however it ends; what the provider says takes its place."""
        estimated_tokens = count_prompt_tokens(messages, tools, counter_for(self.model))
        if estimated_tokens > TOKENS_LEFT.only()(self.workspace_id, self.agent_id, self.channel_id):
            owners = [
                *(["agent's"] if self.agent_id else []),
                *(["channel's"] if self.channel_id else []),
                "workspace's",
            ]
            owner = " or the ".join(owners)
            raise BudgetExceeded(f"The {owner} token budget for today is used up, so no model was asked.")
        return Spending.objects.create(
            workspace_id=self.workspace_id,
            agent_id=self.agent_id,
            channel_id=self.channel_id,
            purpose=self.purpose,
            model=self.model[:120],
            input_tokens=estimated_tokens,
        )


def _record_usage(spending: Spending, usage: Usage) -> None:
    spending.input_tokens = usage.input_tokens or spending.input_tokens
    spending.output_tokens, spending.cached_tokens = usage.output_tokens, usage.cached_tokens
    spending.save(update_fields=["input_tokens", "output_tokens", "cached_tokens"])

"""What models are asked in the background counts, and waits when the day's budget is used up.

Runs count what they ask themselves; this is for what nobody waits for: summaries, reviews, judging contradictions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.conf import settings
from django.utils.module_loading import import_string

from openvibe.llm.errors import BudgetSpent
from openvibe.llm.offline import OfflineModel
from openvibe.llm.protocol import ModelClient, ModelStream
from openvibe.llm.tokens import counter_for, prompt_tokens
from openvibe.llm.values import ChatMessage, Completion, Finished, ToolSpec, Usage
from openvibe.workspaces.models import Spending


def metered(
    client: ModelClient, *, workspace_id: int, purpose: Spending.Purpose, agent_id: int | None = None
) -> ModelClient:
    """The same client, each call of it recorded and held against the budgets of the workspace and, where one is named,
    of the agent (a participant's id). The offline model costs nothing and stays as it is."""
    if client.model == OfflineModel.model:
        return client
    return Metered(client, workspace_id, purpose, agent_id)


def tokens_left(workspace_id: int, agent_id: int | None = None) -> int:
    """Tokens that may still be used today, never below 0."""
    ask: Callable[[int, int | None], int] = import_string(settings.TOKENS_LEFT)
    return ask(workspace_id, agent_id)


class Metered:
    """Raises BudgetSpent, before anything is sent, where the prompt alone would go over the budget."""

    def __init__(
        self, client: ModelClient, workspace_id: int, purpose: Spending.Purpose, agent_id: int | None = None
    ) -> None:
        self._client = client
        self._workspace_id = workspace_id
        self._purpose = purpose
        self._agent_id = agent_id

    @property
    def model(self) -> str:
        return self._client.model

    def complete(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> Completion:
        spending = self._begun(messages, tools)
        completion = self._client.complete(messages, tools=tools, max_output_tokens=max_output_tokens)
        _told(spending, completion.usage)
        return completion

    def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> ModelStream:
        spending = self._begun(messages, tools)
        for said in self._client.stream(messages, tools=tools, max_output_tokens=max_output_tokens):
            if isinstance(said, Finished):
                _told(spending, said.completion.usage)
            yield said

    def _begun(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Spending:
        """What is about to be sent counts however it ends; what the provider says takes its place."""
        planned = prompt_tokens(messages, tools, counter_for(self.model))
        if planned > tokens_left(self._workspace_id, self._agent_id):
            whose = "workspace's" if self._agent_id is None else "agent's or the workspace's"
            raise BudgetSpent(f"The {whose} token budget for today is used up, so no model was asked.")
        return Spending.objects.create(
            workspace_id=self._workspace_id, agent_id=self._agent_id, purpose=self._purpose, model=self.model[:120],
            input_tokens=planned,
        )  # fmt: skip


def _told(spending: Spending, usage: Usage) -> None:
    spending.input_tokens = usage.input_tokens or spending.input_tokens
    spending.output_tokens, spending.cached_tokens = usage.output_tokens, usage.cached_tokens
    spending.save(update_fields=["input_tokens", "output_tokens", "cached_tokens"])

"""What the clients of all protocols over HTTP have in common: one request at a time, its answer read as it comes in.

A client decides when to try again (only before the first piece of text), how long a call may take, and where it may
connect. Endpoints differ in what they leave out, so answers are read leniently: what is missing is taken as absent,
and only what cannot be an answer at all is refused. Some stream though they were not asked to, some do not though
they were: there is one way to read both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Protocol

from openvibe.engines.llm import tokens
from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.adaptations.adapted_calls import (
    AdaptationMemory,
    AdaptedCall,
    last_completion,
    stream_adapted,
)
from openvibe.engines.llm.answers.special_tokens import break_in_messages, break_in_tools, may_read_special_tokens
from openvibe.engines.llm.answers.thoughts import AnswerEvent
from openvibe.engines.llm.endpoint_errors.endpoint_errors import empty_answer_error, read_error
from openvibe.engines.llm.errors import LimitReached
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.json_post import post_json
from openvibe.engines.llm.protocol import ModelStream
from openvibe.engines.llm.retries import Retries, RetryPolicy
from openvibe.engines.llm.values import NO_OPTIONS, CallOptions, ChatMessage, Completion, StreamEnd, ToolSpec
from openvibe.engines.network.event_stream import Event, EventStream

Fields = Mapping[str, Any]


class Accumulator(Protocol):
    """An answer in one protocol as it grows."""

    def read(self, event: Event) -> Fields:
        """The event as `add` takes it in; an error, in whatever form it came, at `error`."""

    def add(self, event: Fields) -> Iterable[AnswerEvent]:
        """Takes in one event; returns what it brings to the answer, which may be nothing."""

    def end(self) -> Iterable[AnswerEvent]:
        """What is known of the answer once all of it has come; to be read to its end."""

    def completion(self, events: EventStream) -> Completion:
        """The whole. Raises ModelUnavailable if the stream ended before the answer did, BadAnswer if it held none."""


class HttpModel(ABC):
    """A ModelClient for one endpoint. Opens a connection per call and keeps none. `adaptations`: what the endpoint is
    known to want otherwise; `hands_back_tools`: raises ToolsRefused where it takes no tools, in place of asking again.
    """

    path: ClassVar[str]
    is_anthropic: ClassVar[bool] = False
    streams_whole_answers: ClassVar[bool] = False

    def __init__(
        self,
        connection: Connection,
        *,
        model: str,
        retry_policy: RetryPolicy | None = None,
        is_free: bool = False,
        adaptations: AdaptationMemory | None = None,
        hands_back_tools: bool = False,
    ) -> None:
        self.model, self.is_free = model, is_free
        self.adaptations = AdaptationMemory() if adaptations is None else adaptations
        self._connection = connection
        self._retry_policy = retry_policy or RetryPolicy()
        self._hands_back_tools = hands_back_tools

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        plan = self._plan_call(messages, tools, max_output_tokens, options)
        return last_completion(self._ask(replace(plan, streams=self.streams_whole_answers))).completion

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        yield from self._ask(self._plan_call(messages, tools, max_output_tokens, options))

    def _plan_call(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec],
        max_output_tokens: int | None,
        options: CallOptions,
    ) -> CallPlan:
        if may_read_special_tokens(self._connection.base_url):
            messages, tools = break_in_messages(messages), break_in_tools(tools)
        return self._plan(CallPlan(tuple(messages), tuple(tools), max_output_tokens, options))

    def _ask(self, plan: CallPlan) -> ModelStream:
        retries, lacks = Retries(self._retry_policy), self._protocol_lacks(plan)
        call = AdaptedCall(plan, self.adaptations, hands_back_tools=self._hands_back_tools, protocol_lacks=lacks)
        read, key = partial(self._read, retries), self._connection.api_key
        yield from stream_adapted(call, retries, read, key=key, is_whole=not plan.streams)

    def _read(self, retries: Retries, plan: CallPlan) -> ModelStream:
        """One request: the pieces of its answer, then the whole."""
        events, accumulator = EventStream(), self._accumulator(plan)
        total_seconds = retries.remaining_seconds()
        read_timeout = retries.first_answer_seconds() if plan.streams else total_seconds
        try:
            with post_json(
                self._connection,
                self.path,
                self._request(plan),
                read_timeout=read_timeout,
                total_seconds=total_seconds,
                is_anthropic=self.is_anthropic,
            ) as response:
                for event in events.read(response.iter_raw()):
                    fields = accumulator.read(event)
                    if error := fields.get("error"):
                        raise read_error(error).to_model_error(self._connection.api_key)
                    yield from accumulator.add(fields)
                yield from accumulator.end()
                completion = accumulator.completion(events)
        except LimitReached as limit:
            raise retries.with_limit(limit) from None
        yield self._end(completion, plan)

    def _end(self, completion: Completion, plan: CallPlan) -> StreamEnd:
        """The completion with its usage counted here where the endpoint reported none. Raises EmptyAnswer if empty."""
        has_thought = bool(completion.reasoning)
        empty = empty_answer_error(completion.text, completion.stop_reason, has_thought=has_thought)
        if empty and not completion.tool_calls:
            raise empty
        return StreamEnd(tokens.with_usage(completion, self.model, plan.messages, plan.tools))

    @abstractmethod
    def _plan(self, plan: CallPlan) -> CallPlan:
        """The plan with what the protocol calls otherwise."""

    def _protocol_lacks(self, plan: CallPlan) -> Mapping[str, str]:
        """The adaptations that every call in the protocol needs."""
        return {}

    @abstractmethod
    def _request(self, plan: CallPlan) -> dict[str, Any]:
        """The body of a request."""

    @abstractmethod
    def _accumulator(self, plan: CallPlan) -> Accumulator:
        """An empty answer."""

"""Any endpoint that speaks the chat-completions protocol, through the official `openai` package.

The package's own retries, environment variables and redirects are off: this module decides when to try again
(only before the first piece of text), how long a call may take, and where it may connect. What a server says that
its model said, and refused to pass on (Groq), is read as an answer. Endpoints differ in what
they leave out, so answers are read leniently: what is missing is taken as absent, and only what cannot be an answer
at all is refused. Some stream though they were not asked to, some do not though they were: there is one way to read
both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

import openai

from openvibe.engines.llm import tokens
from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.adaptations.adapted_calls import (
    AdaptationMemory,
    AdaptedCall,
    last_completion,
    stream_adapted,
)
from openvibe.engines.llm.answers.special_tokens import break_in_messages, break_in_tools, may_read_special_tokens
from openvibe.engines.llm.answers.thoughts import AnswerText, read_answer
from openvibe.engines.llm.answers.tool_calls import merge_calls, resolve_name
from openvibe.engines.llm.answers.written_calls import read_calls
from openvibe.engines.llm.endpoint_errors.endpoint_errors import empty_answer_error, no_answer_error
from openvibe.engines.llm.errors import BadAnswer, EmptyAnswer, ModelError
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.http_client import Connection, ResponseHead
from openvibe.engines.llm.openai.answers import ChatAccumulator, adapt_event
from openvibe.engines.llm.openai.requests import encode_request
from openvibe.engines.llm.openai.sdk import SDK_ERRORS, open_client, to_model_error
from openvibe.engines.llm.protocol import ModelStream
from openvibe.engines.llm.retries import Retries, RetryPolicy
from openvibe.engines.llm.values import (
    NO_OPTIONS,
    CallOptions,
    ChatMessage,
    Completion,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    TextReset,
    ToolSpec,
    Usage,
)
from openvibe.engines.network.event_stream import EventStream
from openvibe.engines.text.cleaning import has_visible_character

MAX_CHARACTERS = 100_000
_CODES = ("tool_use_failed", "output_parse_failed")
_END = re.compile(r"\s*(?:</function>|<\|[a-z_]{1,20}\|>)\s*\Z")
_MARKUP = re.compile(r"[{<\[]")


def read_failed_generation(error: ModelError, tools: Sequence[ToolSpec]) -> Completion | None:
    """The completion, without usage; None where the error is another, or what was said is no answer. The latter may be
    otherwise the next time, so the error then says that it may pass."""
    if (text := _text_in(error)) is None:
        return None
    text = clean_text(text[:MAX_CHARACTERS])
    answer = read_answer(text, tools)
    try:
        calls = answer.all_calls(())
    except EmptyAnswer:
        calls = ()
    said = answer.text
    if not calls:
        written = read_calls(_END.sub("", text)) or []
        if written and all(resolve_name(call.name, tools) for call in written):
            calls, said = tuple(merge_calls((), written, tools)), ""
    if not calls and (not has_visible_character(said) or _MARKUP.search(said)):
        error.may_pass = True
        return None
    return Completion(said, calls, Usage(0, 0), "tool_calls" if calls else "stop", {}, answer.reasoning)


def _text_in(error: ModelError) -> str | None:
    body: Any = error.report.body if error.report else None
    inner = body.get("error") if isinstance(body, Mapping) else None
    for place in (inner, body):
        if isinstance(place, Mapping) and place.get("code") in _CODES:
            text = place.get("failed_generation", "")
            return text if isinstance(text, str) else ""
    return None


class OpenAIModel:
    """A ModelClient for one endpoint. Opens a connection per call and keeps none. `adaptations`: what the endpoint is
    known to want otherwise; `hands_back_tools`: raises ToolsRefused where it takes no tools, in place of asking again.
    """

    protocol_lacks: ClassVar[Mapping[str, str]] = {}
    """The adaptations that every call in the protocol needs."""

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
        official = (urlsplit(connection.base_url).hostname or "").endswith("openai.com")
        self._limit_name = "max_completion_tokens" if official else "max_tokens"
        self._breaks_special_tokens = may_read_special_tokens(connection.base_url)

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        plan = replace(self._plan(messages, tools, max_output_tokens, options), streams=False)
        return last_completion(self._ask(plan, is_whole=True)).completion

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        yield from self._ask(self._plan(messages, tools, max_output_tokens, options))

    def _plan(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec],
        max_output_tokens: int | None,
        options: CallOptions,
    ) -> CallPlan:
        if self._breaks_special_tokens:
            messages, tools = break_in_messages(messages), break_in_tools(tools)
        return CallPlan(tuple(messages), tuple(tools), max_output_tokens, options, limit_name=self._limit_name)

    def _ask(self, plan: CallPlan, *, is_whole: bool = False) -> ModelStream:
        retries = Retries(self._retry_policy)
        call = AdaptedCall(
            plan, self.adaptations, hands_back_tools=self._hands_back_tools, protocol_lacks=self.protocol_lacks
        )
        read = partial(self._read_or_recover, retries)
        yield from stream_adapted(call, retries, read, key=self._connection.api_key, is_whole=is_whole)

    def _read_or_recover(self, retries: Retries, plan: CallPlan) -> ModelStream:
        """The same as `_read`, and what the model said where its server put that into an error."""
        try:
            yield from self._read(retries, plan)
        except ModelError as error:
            completion = read_failed_generation(error, plan.tools)
            if completion is None:
                raise
            yield TextReset()
            if completion.reasoning:
                yield ReasoningDelta(completion.reasoning)
            if completion.text:
                yield TextDelta(completion.text)
            yield StreamEnd(self._with_usage(completion, plan.messages, plan.tools))

    def _read(self, retries: Retries, plan: CallPlan) -> ModelStream:
        """One request: the pieces of its answer, then the whole."""
        events, accumulator = EventStream(adapt_event), ChatAccumulator(AnswerText(plan.tools))
        read_timeout = retries.first_answer_seconds() if plan.streams else retries.remaining_seconds()
        with self._connect(retries, read_timeout, events) as sdk:
            for chunk in sdk.chat.completions.create(**encode_request(self.model, plan), stream=True):
                yield from accumulator.add(chunk)
            yield from accumulator.end()
            completion = accumulator.completion(events)
        yield StreamEnd(self._with_usage(completion, plan.messages, plan.tools))

    @contextmanager
    def _connect(
        self, retries: Retries, read_timeout: float, events: EventStream | None = None
    ) -> Iterator[openai.OpenAI]:
        """The official client over a guarded connection; whatever goes wrong inside leaves as a ModelError."""
        head, key = ResponseHead(), self._connection.api_key
        try:
            with open_client(
                self._connection, read_timeout=read_timeout, total_seconds=retries.remaining_seconds(), events=events
            ) as (sdk, head):
                yield sdk
        except SDK_ERRORS as error:
            raise retries.with_limit(to_model_error(error, key=key, head=head)) from None
        except EmptyAnswer:
            raise
        except BadAnswer as error:
            raise no_answer_error(head, key, error) from None

    def _with_usage(
        self, completion: Completion, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> Completion:
        """The completion with its usage counted here where the endpoint reported none. Raises EmptyAnswer if empty."""
        has_thought = bool(completion.reasoning)
        empty = empty_answer_error(completion.text, completion.stop_reason, has_thought=has_thought)
        if empty and not completion.tool_calls:
            raise empty
        return tokens.with_usage(completion, self.model, messages, tools)

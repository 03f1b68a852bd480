"""Anthropic's Messages protocol, through the official `anthropic` package.

As in `openai`: the package's own retries and redirects are off, nothing is tried again after the first piece of text,
and answers are read leniently. Every answer is streamed, whole ones too: there is one way to read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import anthropic

from openvibe.llm import tokens
from openvibe.llm.adaptations import CallPlan
from openvibe.llm.adapted_calls import AdaptationMemory, AdaptedCall, last_completion, stream_adapted
from openvibe.llm.endpoint_errors import (
    DECODE_ERRORS,
    connection_error,
    content_filter_error,
    empty_answer_error,
    no_answer_error,
    read_error,
    read_response,
)
from openvibe.llm.errors import BadAnswer, ContextTooLong, EmptyAnswer, ModelError, ModelUnavailable
from openvibe.llm.event_stream import Event, EventStream
from openvibe.llm.fences import IncrementalCleaner, clean_text
from openvibe.llm.http_client import Connection, ResponseHead, open_http_client
from openvibe.llm.protocol import ModelStream
from openvibe.llm.request_options import MESSAGES_LACKS, THINKING_LACKS, messages_options
from openvibe.llm.retries import Retries, RetryPolicy
from openvibe.llm.special_tokens import break_in_messages, break_in_tools, may_read_special_tokens
from openvibe.llm.thoughts import AnswerText
from openvibe.llm.tool_calls import arguments_object, check_arguments, clean_identifier
from openvibe.llm.values import (
    NO_OPTIONS,
    CallOptions,
    ChatMessage,
    Completion,
    StreamEnd,
    TextDelta,
    TextReset,
    ToolCallRequest,
    ToolSpec,
    Usage,
)

MAX_BREAKPOINTS = 4
"""Cache breakpoints of one request, by the protocol."""

MIN_CACHED_CHARACTERS = 2_000
"""Of a prefix: about 512 tokens, the least that any model caches. A breakpoint in a shorter one does nothing."""

DEFAULT_OUTPUT_TOKENS = 4_096
"""Where nobody says how long an answer may be: the protocol wants a number."""

_CACHE_CONTROL = {"type": "ephemeral"}
_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "pause_turn": "pause",
}
_THINKING_BLOCKS = ("thinking", "redacted_thinking")


class AnthropicModel:
    """A ModelClient for one endpoint. Opens a connection per call and keeps none. `adaptations` and `hands_back_tools`
    as in `openai`."""

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
        base_url = connection.base_url.rstrip("/").removesuffix("/v1")  # the package adds it
        self.model, self.is_free = model, is_free
        self.adaptations = AdaptationMemory() if adaptations is None else adaptations
        self._connection = replace(connection, base_url=base_url)
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
        stream = self.stream(messages, tools=tools, max_output_tokens=max_output_tokens, options=options)
        return last_completion(stream).completion

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        if may_read_special_tokens(self._connection.base_url):
            messages, tools = break_in_messages(messages), break_in_tools(tools)
        limit = max_output_tokens or DEFAULT_OUTPUT_TOKENS
        plan = CallPlan(
            tuple(messages), tuple(tools), limit, options, limit_names=(), asks_for_usage=False, thinks_adaptively=True
        )
        lacks = MESSAGES_LACKS
        if options.effort not in (None, "off") and "no_effort" not in self.adaptations.values():
            lacks = lacks | THINKING_LACKS
        retries = Retries(self._retry_policy)
        call = AdaptedCall(plan, self.adaptations, hands_back_tools=self._hands_back_tools, protocol_lacks=lacks)
        yield from stream_adapted(call, retries, partial(self._read, retries), key=self._connection.api_key)

    def _read(self, retries: Retries, plan: CallPlan) -> ModelStream:
        """One request: the pieces of its answer, then the whole."""
        events, accumulator = EventStream(_adapt_event), _StreamAccumulator()
        request = build_request(self.model, plan.messages, plan.tools, plan.max_output_tokens)
        more = messages_options(  # the package knows not all of them
            plan.options,
            has_tools=bool(plan.tools),
            max_output_tokens=plan.max_output_tokens or DEFAULT_OUTPUT_TOKENS,
            is_adaptive=plan.thinks_adaptively,
        )
        request["extra_body"] = more if plan.streams else more | {"stream": False}
        read_timeout = retries.first_answer_seconds() if plan.streams else retries.remaining_seconds()
        with self._connect(retries, read_timeout, events) as sdk:
            with sdk.messages.create(**request, stream=True) as stream:
                for event in stream:
                    yield from accumulator.add(event)
            yield from accumulator.answer.end()
            completion = tokens.with_usage(accumulator.completion(events), self.model, plan.messages, plan.tools)
        yield StreamEnd(completion)

    def list_models(self) -> list[str]:
        """The names of the models that the endpoint offers. Raises ModelError."""
        retries = Retries(self._retry_policy)
        with self._connect(retries, retries.first_answer_seconds()) as sdk:
            return [_decode_text(model.id) for model in sdk.models.list(limit=1_000).data]

    @contextmanager
    def _connect(
        self, retries: Retries, read_timeout: float, events: EventStream | None = None
    ) -> Iterator[anthropic.Anthropic]:
        """The official client over a guarded connection; whatever goes wrong inside leaves as a ModelError.

        The key stands in `x-api-key`, as the API documents it for keys; the package itself sends it as a bearer token.
        """
        head, key = ResponseHead(), self._connection.api_key
        headers: dict[str, Any] = {"X-Api-Key": key or "none", "Authorization": anthropic.Omit()}
        try:
            with open_http_client(
                self._connection, read_timeout=read_timeout, total_seconds=retries.remaining_seconds(), events=events
            ) as (http, head):
                yield anthropic.Anthropic(
                    base_url=self._connection.base_url,
                    api_key=key or "none",
                    default_headers=headers,
                    max_retries=0,
                    timeout=http.timeout,
                    http_client=http,
                    open_telemetry=False,
                )
        except (anthropic.AnthropicError, *DECODE_ERRORS) as error:
            raise _to_model_error(error, key, head) from None
        except EmptyAnswer:
            raise
        except BadAnswer as error:
            raise no_answer_error(head, key, error) from None


def _to_model_error(error: Exception, key: str, head: ResponseHead) -> ModelError:
    if isinstance(error, anthropic.APIStatusError):
        if error.status_code != 200:
            return read_response(error.response).to_model_error(key)
        failure = read_error(error.body).to_model_error(key)
        return failure if error.type is not None else no_answer_error(head, key, failure)  # a form of somebody's own
    if connection_failure := connection_error(error):
        return connection_failure
    if isinstance(error, anthropic.APIConnectionError):
        return ModelUnavailable("The model endpoint cannot be reached, or it broke off its answer.")
    return no_answer_error(head, key, BadAnswer("The endpoint did not answer in the format of the Messages API."))


def build_request(
    model: str, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], max_output_tokens: int | None
) -> dict[str, Any]:
    """The body of a request: the system's text by itself, neighbours of one role as one message, cache breakpoints."""
    breakpoints = choose_breakpoints(messages, tools)
    numbered_messages = list(enumerate(messages))
    system = [
        _with_breakpoint([{"type": "text", "text": clean_text(message.content)}], number in breakpoints)[0]
        for number, message in numbered_messages
        if message.role == "system" and message.content.strip()
    ]
    turns = [(number, message) for number, message in numbered_messages if message.role != "system"]
    encoded_messages = []
    for role, group in groupby(turns, key=lambda turn: "assistant" if turn[1].role == "assistant" else "user"):
        parts = [_with_breakpoint(_encode_blocks(message), number in breakpoints) for number, message in group]
        if blocks := [block for part in parts for block in part]:
            encoded_messages.append({"role": role, "content": blocks})
    if not encoded_messages or encoded_messages[0]["role"] == "assistant":
        encoded_messages.insert(0, {"role": "user", "content": [{"type": "text", "text": "(It begins here.)"}]})
    request: dict[str, Any] = {"model": model, "messages": encoded_messages}
    request["max_tokens"] = max_output_tokens or DEFAULT_OUTPUT_TOKENS
    if system:
        request["system"] = system
    if tools:
        request["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
    return request


def choose_breakpoints(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> frozenset[int]:
    """The numbers of the messages after which the prompt is cached, tools and system before all.

    At most MAX_BREAKPOINTS: of more, the first, which the most prompts share, and the last. A cache is looked for at a
    breakpoint and up to 20 blocks before it, so one far from the end of the last round finds nothing.
    """
    numbers = []
    characters = sum(len(tool.description) + len(json.dumps(tool.parameters)) for tool in tools)
    for number, message in enumerate(messages):
        characters += len(message.content)
        if message.ends_stable_part and characters >= MIN_CACHED_CHARACTERS:
            numbers.append(number)
    return frozenset([*numbers[:1], *numbers[1:][1 - MAX_BREAKPOINTS :]])


def _with_breakpoint(blocks: list[dict[str, Any]], is_breakpoint: bool) -> list[dict[str, Any]]:
    if is_breakpoint and blocks and blocks[-1]["type"] not in _THINKING_BLOCKS:
        blocks[-1]["cache_control"] = _CACHE_CONTROL
    return blocks


def _encode_blocks(message: ChatMessage) -> list[dict[str, Any]]:
    """One message as the protocol writes it; a text without a visible character is none to it."""
    text = clean_text(message.content)
    if message.role == "tool":
        call_id = clean_identifier(message.tool_call_id or "")
        return [{"type": "tool_result", "tool_use_id": call_id, "content": text if text.strip() else "(empty)"}]
    return [
        *(dict(block) for block in message.provider_fields.get("thinking", ())),
        *([{"type": "text", "text": text}] if text.strip() else ()),
        *(
            {
                "type": "tool_use",
                "id": clean_identifier(call.id),
                "name": clean_identifier(call.name),
                "input": arguments_object(call.arguments),
            }
            for call in message.tool_calls
        ),
    ]


def _adapt_event(event: Event) -> Event:
    """An event by the name of its type, which the official package goes by; a whole message as one that has begun."""
    if event.name:
        return event
    try:
        value = json.loads(event.data)
    except (ValueError, RecursionError):
        return event
    if not isinstance(value, dict):
        return event
    if value.get("type") == "message":
        return Event(json.dumps({"type": "message_start", "message": value}), "message_start")
    return Event(event.data, "error" if value.get("error") else str(value.get("type") or ""))


@dataclass
class _Block:
    """One block of an answer as it grows: text, thinking or a call."""

    type: str
    start: Any
    pieces: list[str] = field(default_factory=list)
    signature: str = ""
    cleaner: IncrementalCleaner = field(default_factory=IncrementalCleaner)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass
class _StreamAccumulator:
    """A streamed answer as it grows."""

    answer: AnswerText = field(default_factory=AnswerText)
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _usage: dict[str, int] = field(default_factory=dict)
    _has_begun: bool = False
    _stop_reason: str | None = None
    _explanation: str = ""

    def add(self, event: Any) -> Iterator[TextDelta | TextReset]:
        """Take in one event; what it brings to the text, which may be nothing."""
        return self.answer.add(self._read_text(event))

    def _read_text(self, event: Any) -> str:
        match getattr(event, "type", None):
            case "message_start":
                self._has_begun = True
                self._add_usage(event.message.usage)
                self._add_end(event.message)
                blocks = enumerate(event.message.content or ())  # an endpoint that does not stream has them all
                return "".join([self._start_block(index, block) for index, block in blocks])
            case "content_block_start":
                return self._start_block(event.index, event.content_block)
            case "content_block_delta":
                return self._add_delta(event.index, event.delta)
            case "message_delta":
                self._add_end(event.delta)
                self._add_usage(event.usage)
        return ""

    def completion(self, events: EventStream) -> Completion:
        """The whole. Raises ModelUnavailable if the stream ended before the answer did, BadAnswer if it held none."""
        if self._stop_reason is None:
            if self._has_begun or events.is_silent:
                raise ModelUnavailable("The model broke off in the middle of its answer.")
            raise BadAnswer("The endpoint did not answer in the format of the Messages API.")
        reason = _STOP_REASONS.get(str(self._stop_reason), clean_text(str(self._stop_reason))[:40])
        blocks = [block for _, block in sorted(self._blocks.items())]
        calls = tuple(
            _tool_call(number, block) for number, block in enumerate(b for b in blocks if b.type == "tool_use")
        )
        if reason == "content_filter":
            raise content_filter_error(self._explanation)
        empty = empty_answer_error(self.answer.text, reason)
        if empty and not calls:
            if self._stop_reason == "model_context_window_exceeded":
                raise ContextTooLong("The prompt leaves the model no room for an answer.")
            raise empty
        thinking = tuple(_thinking(blocks))
        fields = {"thinking": thinking} if thinking else {}
        return Completion(self.answer.text, calls, self._total_usage(), reason, fields)

    def _add_end(self, end: Any) -> None:
        self._stop_reason = getattr(end, "stop_reason", None) or self._stop_reason
        details = getattr(end, "stop_details", None)
        self._explanation = getattr(details, "explanation", None) or self._explanation

    def _start_block(self, index: int, start: Any) -> str:
        block = self._blocks[int(index)] = _Block(
            str(start.type), start, signature=str(getattr(start, "signature", ""))
        )
        text = _decode_text(getattr(start, "text" if block.type == "text" else "thinking", None), block.cleaner.clean)
        block.pieces.append(text)
        return text if block.type == "text" else ""

    def _add_delta(self, index: int, delta: Any) -> str:
        block = self._blocks[int(index)]
        if delta is None:
            return ""
        if delta.type == "signature_delta":
            block.signature = str(delta.signature)
            return ""
        name = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}.get(delta.type)
        text = _decode_text(getattr(delta, name, None), block.cleaner.clean) if name else ""
        block.pieces.append(text)
        return text if block.type == "text" else ""

    def _add_usage(self, usage: Any) -> None:
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            if (count := tokens.read_count(getattr(usage, name, None))) is not None:
                self._usage[name] = count

    def _total_usage(self) -> Usage:
        """The protocol counts what is read from the cache and what is written to it apart from the rest."""
        cache_reads, cache_writes = (
            self._usage.get("cache_read_input_tokens"),
            self._usage.get("cache_creation_input_tokens"),
        )
        total = self._usage.get("input_tokens", 0) + (cache_reads or 0) + (cache_writes or 0)
        return Usage(total, self._usage.get("output_tokens", 0), cache_reads, cache_writes)


def _thinking(blocks: Iterable[_Block]) -> Iterator[dict[str, Any]]:
    """What the model thought, as it wants it back: signed, or sealed."""
    for block in blocks:
        if block.type == "thinking":
            yield {"type": "thinking", "thinking": block.text, "signature": block.signature}
        elif block.type == "redacted_thinking":
            yield {"type": "redacted_thinking", "data": str(block.start.data)}


def _tool_call(number: int, block: _Block) -> ToolCallRequest:
    """Without an id it gets one, without arguments none. Raises BadAnswer for a call without a name."""
    name, tool_input = block.start.name, getattr(block.start, "input", None)
    if not isinstance(name, str) or not name:
        raise BadAnswer("The model called a tool without naming it.")
    arguments = block.text.strip() or (json.dumps(tool_input) if isinstance(tool_input, dict) else "{}")
    return ToolCallRequest(str(block.start.id or f"call_{number}"), clean_text(name)[:200], check_arguments(arguments))


def _decode_text(text: Any, clean: Callable[[str], str] = clean_text) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise BadAnswer("The endpoint answered with something that is not text.")
    return clean(text)

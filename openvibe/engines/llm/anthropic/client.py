"""Anthropic's Messages protocol, through the official `anthropic` package.

As in `openai`: the package's own retries and redirects are off, nothing is tried again after the first piece of text,
and answers are read leniently. Every answer is streamed, whole ones too: there is one way to read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import anthropic

from openvibe.engines.llm import tokens
from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.adaptations.adapted_calls import (
    AdaptationMemory,
    AdaptedCall,
    last_completion,
    stream_adapted,
)
from openvibe.engines.llm.adaptations.request_options import MESSAGES_LACKS, THINKING_LACKS, messages_options
from openvibe.engines.llm.answers.special_tokens import break_in_messages, break_in_tools, may_read_special_tokens
from openvibe.engines.llm.answers.thoughts import AnswerText
from openvibe.engines.llm.answers.tool_calls import arguments_object, clean_identifier
from openvibe.engines.llm.anthropic.answers import THINKING_BLOCKS, MessageAccumulator, adapt_event
from openvibe.engines.llm.endpoint_errors.cold_starts import loading_error
from openvibe.engines.llm.endpoint_errors.endpoint_errors import (
    DECODE_ERRORS,
    connection_error,
    no_answer_error,
    read_error,
    read_response,
)
from openvibe.engines.llm.errors import BadAnswer, EmptyAnswer, ModelError, ModelUnavailable
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.http_client import Connection, ResponseHead, open_http_client
from openvibe.engines.llm.images import messages_blocks
from openvibe.engines.llm.protocol import ModelStream
from openvibe.engines.llm.retries import Retries, RetryPolicy
from openvibe.engines.llm.values import NO_OPTIONS, CallOptions, ChatMessage, Completion, StreamEnd, ToolSpec
from openvibe.engines.network.event_stream import EventStream

MAX_BREAKPOINTS = 4
"""Cache breakpoints of one request, by the protocol."""

MIN_CACHED_CHARACTERS = 2_000
"""The least length of a prefix: about 512 tokens, the least that any model caches. A breakpoint in a shorter one does
nothing."""

DEFAULT_OUTPUT_TOKENS = 4_096
"""The output limit where nobody says how long an answer may be: the protocol wants a number."""

_CACHE_CONTROL = {"type": "ephemeral"}


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
            tuple(messages),
            tuple(tools),
            limit,
            options,
            limit_names=(),
            asks_for_usage=False,
            thinks_adaptively=True,
            marks_cache=True,
        )
        lacks = MESSAGES_LACKS
        if options.effort not in (None, "off") and "no_effort" not in self.adaptations.values():
            lacks = lacks | THINKING_LACKS
        retries = Retries(self._retry_policy)
        call = AdaptedCall(plan, self.adaptations, hands_back_tools=self._hands_back_tools, protocol_lacks=lacks)
        yield from stream_adapted(call, retries, partial(self._read, retries), key=self._connection.api_key)

    def _read(self, retries: Retries, plan: CallPlan) -> ModelStream:
        """One request: the pieces of its answer, then the whole."""
        events, accumulator = EventStream(adapt_event), MessageAccumulator(AnswerText(plan.tools))
        request = build_request(
            self.model, plan.messages, plan.tools, plan.max_output_tokens, marks_cache=plan.marks_cache
        )
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
            yield from accumulator.end()
            completion = tokens.with_usage(accumulator.completion(events), self.model, plan.messages, plan.tools)
        yield StreamEnd(completion)

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
            raise retries.with_limit(_to_model_error(error, key, head)) from None
        except EmptyAnswer:
            raise
        except BadAnswer as error:
            raise no_answer_error(head, key, error) from None


def _to_model_error(error: Exception, key: str, head: ResponseHead) -> ModelError:
    if isinstance(error, anthropic.APIStatusError):
        if loading := loading_error(error.status_code, head.text):
            return loading
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
    model: str,
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec],
    max_output_tokens: int | None,
    *,
    marks_cache: bool = True,
) -> dict[str, Any]:
    """The body of a request: the system's text by itself, neighbours of one role as one message, cache breakpoints."""
    breakpoints = choose_breakpoints(messages, tools) if marks_cache else frozenset()
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
    if is_breakpoint and blocks and blocks[-1]["type"] not in THINKING_BLOCKS:
        blocks[-1]["cache_control"] = _CACHE_CONTROL
    return blocks


def _encode_blocks(message: ChatMessage) -> list[dict[str, Any]]:
    """One message as the protocol writes it; a text without a visible character is none to it."""
    text = clean_text(message.content)
    if message.role == "tool":
        call_id = clean_identifier(message.tool_call_id or "")
        return [{"type": "tool_result", "tool_use_id": call_id, "content": text if text.strip() else "(empty)"}]
    thinking = [dict(block) for block in message.provider_fields.get("thinking", ())]
    texts = [*messages_blocks(message.images), *([{"type": "text", "text": text}] if text.strip() else ())]
    calls = [
        {
            **call.provider_fields,
            "type": "tool_use",
            "id": clean_identifier(call.id),
            "name": clean_identifier(call.name),
            "input": arguments_object(call.arguments),
        }
        for call in message.tool_calls
    ]
    ordered: list[dict[str, Any]] = []
    for kind in message.provider_fields.get("layout", ()):  # the text stands where it began
        source = thinking if kind in THINKING_BLOCKS else texts if kind == "text" else calls
        ordered += [source.pop(0)] if source else []
    return [*ordered, *thinking, *texts, *calls]

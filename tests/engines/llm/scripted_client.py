"""A fake ModelClient that gives the answers of a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event

from openvibe.engines.llm import tokens
from openvibe.engines.llm.errors import BadAnswer, EmptyAnswer, ModelError
from openvibe.engines.llm.protocol import ModelStream
from openvibe.engines.llm.values import (
    NO_OPTIONS,
    CallOptions,
    ChatMessage,
    Completion,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    ToolCallRequest,
    ToolSpec,
    Usage,
)


@dataclass(frozen=True)
class ScriptedAnswer:
    """An answer. Before the delta numbered `hold_before`, `reached` is set and `go_on` is waited for.

    `thoughts` are streamed before the text. `then` is raised in place of finishing, after the whole text was streamed.
    """

    text: str = ""
    tool_calls: tuple[ToolCallRequest, ...] = ()
    reached: Event | None = None
    go_on: Event | None = None
    hold_before: int = 0
    then: ModelError | None = None
    thoughts: tuple[str, ...] = ()
    reasoning_tokens: int | None = None


ScriptedReply = ScriptedAnswer | str | ModelError | Callable[[Sequence[ChatMessage]], "ScriptedAnswer | str"]


@dataclass(frozen=True)
class RecordedCall:
    """What the model was asked."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    max_output_tokens: int | None


@dataclass
class ScriptedModel:
    """Gives the replies in order, the last one again and again. `calls` holds what it was asked.

    A reply is a text, a `ScriptedAnswer`, an error to raise, or a function of the messages that gives a text or a
    `ScriptedAnswer`. An empty text is an empty answer, which is a BadAnswer, as from any model.
    """

    replies: Iterable[ScriptedReply] = ("All right.",)
    model: str = "scripted"
    is_free: bool = False
    calls: list[RecordedCall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._replies: Iterator[ScriptedReply] = iter(self.replies)
        self._last: ScriptedReply = BadAnswer("The scripted model has no reply.")

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        for event in self.stream(messages, tools=tools, max_output_tokens=max_output_tokens):
            if isinstance(event, StreamEnd):
                return event.completion
        raise BadAnswer("The scripted model did not finish.")

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        self.calls.append(RecordedCall(tuple(messages), tuple(tools), max_output_tokens))
        answer = self._next(messages)
        counter = tokens.counter_for(self.model)
        text = answer.text
        if max_output_tokens is not None:
            text = tokens.truncate_to_tokens(text, max_output_tokens, counter)
        yield from map(ReasoningDelta, answer.thoughts)
        for position, word in enumerate(text.split(" ")):
            if position == answer.hold_before:
                _wait_until_released(answer)
            if piece := (f" {word}" if position else word):
                yield TextDelta(piece)
        if answer.then is not None:
            raise answer.then
        if not text and not answer.tool_calls:
            raise EmptyAnswer("The model answered nothing.")
        sizes = (tokens.count_prompt_tokens(messages, tools, counter), counter.count(text))
        usage = Usage(*sizes, reasoning_tokens=answer.reasoning_tokens)
        reason = "tool_calls" if answer.tool_calls else "length" if text != answer.text else "stop"
        yield StreamEnd(Completion(text, answer.tool_calls, usage, reason, reasoning="".join(answer.thoughts)))

    def _next(self, messages: Sequence[ChatMessage]) -> ScriptedAnswer:
        self._last = reply = next(self._replies, self._last)
        if isinstance(reply, ModelError):
            raise reply
        answer = reply if isinstance(reply, ScriptedAnswer | str) else reply(messages)
        return answer if isinstance(answer, ScriptedAnswer) else ScriptedAnswer(answer)


def _wait_until_released(answer: ScriptedAnswer) -> None:
    if answer.reached is not None:
        answer.reached.set()
    if answer.go_on is not None:
        answer.go_on.wait(timeout=60)

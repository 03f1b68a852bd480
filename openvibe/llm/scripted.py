"""A model client that says what it was told to say: for tests and demonstrations, never for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event

from openvibe.llm import tokens
from openvibe.llm.errors import BadAnswer, EmptyAnswer, ModelError
from openvibe.llm.protocol import ModelStream
from openvibe.llm.values import ChatMessage, Completion, Finished, TextDelta, ToolCall, ToolSpec, Usage


@dataclass(frozen=True)
class Say:
    """An answer. Before the delta numbered `hold_before`, `reached` is set and `go_on` is waited for.

    `then` is raised in place of finishing, after the whole text was streamed.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reached: Event | None = None
    go_on: Event | None = None
    hold_before: int = 0
    then: ModelError | None = None


Reply = Say | str | ModelError | Callable[[Sequence[ChatMessage]], "Say | str"]


@dataclass(frozen=True)
class Call:
    """What the model was asked."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    max_output_tokens: int | None


@dataclass
class ScriptedModel:
    """Gives the replies in order, the last one again and again. `calls` holds what it was asked.

    A reply is a text, a `Say`, an error to raise, or a function of the messages that gives a text or a `Say`. An
    empty text is an empty answer, which is a BadAnswer, as from any model.
    """

    replies: Iterable[Reply] = ("All right.",)
    model: str = "scripted"
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._replies: Iterator[Reply] = iter(self.replies)
        self._last: Reply = BadAnswer("The scripted model has no reply.")

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
    ) -> Completion:
        for event in self.stream(messages, tools=tools, max_output_tokens=max_output_tokens):
            if isinstance(event, Finished):
                return event.completion
        raise BadAnswer("The scripted model did not finish.")

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
    ) -> ModelStream:
        self.calls.append(Call(tuple(messages), tuple(tools), max_output_tokens))
        said = self._next(messages)
        counter = tokens.counter_for(self.model)
        text = said.text
        if max_output_tokens is not None:
            text = tokens.cut_to_tokens(text, max_output_tokens, counter)
        for position, word in enumerate(text.split(" ")):
            if position == said.hold_before:
                _wait(said)
            if piece := (f" {word}" if position else word):
                yield TextDelta(piece)
        if said.then is not None:
            raise said.then
        if not text and not said.tool_calls:
            raise EmptyAnswer("The model answered nothing.")
        usage = Usage(tokens.prompt_tokens(messages, tools, counter), counter.count(text))
        reason = "tool_calls" if said.tool_calls else "length" if text != said.text else "stop"
        yield Finished(Completion(text, said.tool_calls, usage, reason))

    def _next(self, messages: Sequence[ChatMessage]) -> Say:
        self._last = reply = next(self._replies, self._last)
        if isinstance(reply, ModelError):
            raise reply
        said = reply if isinstance(reply, Say | str) else reply(messages)
        return said if isinstance(said, Say) else Say(said)


def _wait(said: Say) -> None:
    if said.reached is not None:
        said.reached.set()
    if said.go_on is not None:
        said.go_on.wait(timeout=60)

"""What a model thinks before it speaks, where an endpoint sends it as text: it is no part of the answer. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from openvibe.llm.values import ReasoningDelta, TextDelta, TextReset, ToolCallRequest, ToolSpec

_OPENING = ("<think>", "<thinking>", "<thought>", "<reasoning>")
_TAG = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)\s*>", re.IGNORECASE)
_CLOSING = re.compile(r"</(?:think|thinking|thought|reasoning)\s*>", re.IGNORECASE)
_MAX_CLOSING = 20  # characters of a closing tag that may have come in part
_PART_OF_TAG = re.compile(r"</?[a-z]{0,9}\s{0,9}\Z", re.IGNORECASE)
_QUOTES = ("`", '"', "'", "“", "‘", "«")


AnswerEvent = TextDelta | ReasoningDelta | TextReset


@dataclass
class AnswerText:
    """The text of an answer that comes in pieces, without thoughts and calls of `tools`: what it gains, and what it
    takes back. A TextReset takes back all text and all reasoning so far, and whatever of it still holds is said anew.

    Both the text and the reasoning are all pieces since the last TextReset joined. An accumulator feeds it `add` with
    each piece of text, `add_reasoning` with each piece that the provider itself tells apart as thought, calls `end`
    once, and then takes `text`, `reasoning` and `all_calls(calls of the protocol)`.
    """

    tools: Sequence[ToolSpec] = ()
    _reasoning: list[str] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _thoughts: "_IncrementalThoughts" = field(default_factory=lambda: _IncrementalThoughts())

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def reasoning(self) -> str:
        """What was thought, whether the provider told it apart or it stood in the text."""
        return "".join(self._reasoning)

    def all_calls(self, calls: Sequence[ToolCallRequest]) -> tuple[ToolCallRequest, ...]:
        """The calls of the protocol and, after `end`, those written in the text, all by the names and the schemas of
        `tools`."""
        return tuple(calls)

    def add_reasoning(self, piece: str) -> Iterator[AnswerEvent]:
        """Take in the next piece that the provider told apart as thought; to be read to its end."""
        if piece:
            self._reasoning.append(piece)
            yield ReasoningDelta(piece)

    def add(self, piece: str) -> Iterator[AnswerEvent]:
        """Take in the next piece; to be read to its end."""
        return self._events(self._thoughts.remove(piece))

    def end(self) -> Iterator[AnswerEvent]:
        """What was held back until everything had come."""
        return self._events(self._thoughts.rest())

    def _events(self, text: str) -> Iterator[AnswerEvent]:
        if self._thoughts.take_reset():
            self._pieces.clear()
            yield TextReset()
        if text:
            self._pieces.append(text)
            yield TextDelta(text)


class _IncrementalThoughts:
    """Takes the thoughts out with which a text begins that comes in pieces. Tags further on are words like others.

    The prompts of some models open the thought, so that their text only ends it: what was taken for answer until then
    was none. Such an end that stands in code or in quotation marks is a word.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._given, self._last, self._backtick_count = False, "", 0  # of what may still turn out to be a thought
        self._is_thought = self._has_thought = self._is_answer = self._is_certain = self._is_reset = False

    def remove(self, piece: str) -> str:
        """What of the text is by now taken for answer."""
        if self._is_certain:
            return piece
        self._pending += piece
        while self._is_answer or self._begin_answer():
            if self._is_certain or not self._end_unopened_thought():
                return self._take_answer()
        return ""

    def take_reset(self) -> bool:
        """Whether what was given so far was a thought; once for each."""
        is_reset, self._is_reset = self._is_reset, False
        return is_reset

    def rest(self) -> str:
        """What is still held back, once all of the text has come: of a thought nothing."""
        text, self._pending = self._pending, ""
        return "" if self._is_thought else text.lstrip() if self._has_thought else text

    def _begin_answer(self) -> bool:
        """Pass over thoughts that are opened; False where more of the text has to come."""
        while not self._is_answer:
            if self._is_thought:
                closing = _CLOSING.search(self._pending)
                if closing is None:
                    self._pending = self._pending[-_MAX_CLOSING:]
                    return False
                self._pending, self._is_thought, self._has_thought = self._pending[closing.end() :], False, True
            start = self._pending.lstrip()
            tag = next((tag for tag in _OPENING if start.lower().startswith(tag)), "")
            if tag:
                self._pending, self._is_thought = start[len(tag) :], True
            elif any(tag.startswith(start.lower()) for tag in _OPENING):
                return False
            else:
                self._is_answer, self._is_certain = True, self._has_thought
        return True

    def _end_unopened_thought(self) -> bool:
        """Whether a thought ends here that nothing opened: all before it is taken back."""
        for tag in _TAG.finditer(self._pending):
            if not tag[1]:
                self._is_certain = True
                return False
            before = self._pending[tag.start() - 1 : tag.start()] if tag.start() else self._last
            backtick_count = self._backtick_count + self._pending.count("`", 0, tag.start())
            if before not in _QUOTES and backtick_count % 2 == 0:
                self._pending, self._is_answer, self._has_thought = self._pending[tag.end() :], False, True
                self._is_reset = self._given
                return True
        return False

    def _take_answer(self) -> str:
        """What is pending, but for what may be part of a tag."""
        if self._is_certain:
            return self.rest()
        part = _PART_OF_TAG.search(self._pending)
        end = part.start() if part else len(self._pending)
        text, self._pending = self._pending[:end], self._pending[end:]
        self._backtick_count += text.count("`")
        self._given, self._last = self._given or bool(text), text[-1:] or self._last
        return text

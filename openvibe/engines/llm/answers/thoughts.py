"""What a model thinks before it speaks, and what it calls, where an endpoint sends it as text: it is no part of the
answer. Pure.

One reader for every protocol and every use of a model. It decides by the text alone, never by how that was cut into
pieces, and holds back no more than what may be the beginning of a mark. What stands in code or in quotation marks is
words; so is a call whose tool was not offered, unless it is all there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from openvibe.engines.llm.answers.markup import (
    MAX_LABEL_CHARACTERS,
    MAX_MARK_CHARACTERS,
    THOUGHT_LABEL,
    Mark,
    mark_at,
    may_become_mark,
    next_sign,
    normalize,
)
from openvibe.engines.llm.answers.tool_calls import merge_calls, resolve_name
from openvibe.engines.llm.answers.written_calls import (
    ARGUMENT_KEYS,
    NAME_KEYS,
    OTHER_KEYS,
    WrittenCall,
    read_calls,
    read_pieces,
    read_unended_calls,
    read_whole_answer,
)
from openvibe.engines.llm.errors import EmptyAnswer
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.values import ReasoningDelta, TextDelta, TextReset, ToolCallRequest, ToolSpec
from openvibe.engines.text.cleaning import has_visible_character

AnswerEvent = TextDelta | ReasoningDelta | TextReset

MAX_HELD_CHARACTERS = 200_000
"""The most characters that are held of what may turn out to be a call or a thought: longer ones are words."""

MAX_ATTEMPTS = 20
"""Closing marks that may stand within calls; marks in a thought that are tried for a call that it ends with."""

MAX_HEAD_CHARACTERS = 2_000
"""The most characters of what may be a call as JSON, within which it says so."""

_QUOTES = ("`", '"', "'", "“", "‘", "«", "„", "「")
_FENCE = re.compile(r"[ \t>]*(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?(`{3,}|~{3,})([^\n]*)\Z")
_BODY_START = re.compile(r"\s*(?:[\[{<`\"']|[\w.:/-]{1,200}\s*(?:[<{(\[]|\n|\Z)|\Z)")
_CALL_LINE = re.compile(r"(?:\A|\n) {0,3}(?=\{)")
_COMPACT_START = re.compile(r"analysis(?=[A-Z0-9\"'“(*\[])")
_COMPACT_FINAL = "assistantfinal"
_COMPACT_CALL = re.compile(r"assistantcommentary to=(?P<name>[\w.:/-]{1,200}?)(?:\s*(?:json|code))?\s*(?=\{)")
_COMPACT_CHANNEL = re.compile(r"assistant(?:analysis|commentary(?: to=[\w.:/-]+)?)(?: ?json(?=\{))?")
_ONLY_ENDS = re.compile(r"(?:\s|</[\w:]{4,24}>)*")
_CODE_LABELS = ("json", "tool_code", "tool_call", "tool_calls", "")
_FIRST_KEY = re.compile(r"[\[\s{]*[\"']([^\"'\n]{0,40})([\"'])?")
_FIRST_NAME = re.compile(
    r"[\[\s{]*[\"'](?:name|tool|tool_name|function|function_name|action)[\"']\s*:\s*[\"']([^\"'\n]{1,200})[\"']"
)
_PYTHON_START = re.compile(r"\[?\s*(?:print\(\s*)?([\w.]{0,200})(\()?")


@dataclass
class AnswerText:
    """The text of an answer that comes in pieces, without thoughts and calls of `tools`: what it gains, and what it
    takes back. A TextReset takes back all text and all reasoning so far, and whatever of it still holds is said anew.

    Both the text and the reasoning are all pieces since the last TextReset joined. An accumulator feeds it `add` with
    each piece of text, `add_reasoning` with each piece that the provider itself tells apart as thought, calls `end`
    once, and then takes `text`, `reasoning` and `all_calls(calls of the protocol)`.
    """

    tools: Sequence[ToolSpec] = ()
    is_strict: bool = False
    """Whether it reads an answer that is kept, not talked with: calls are no words, whatever tool they name, nor are
    thoughts, wherever they stand. Only in code and quotation marks they are spoken of."""
    is_broken_off: bool = False
    """Whether the answer ended in the midst of a thought; known after `end`."""
    foreign_call: str = ""
    """The tool's name, known after `end`, where the answer was nothing but a call, and no tools were offered."""
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _calls: list[WrittenCall] = field(default_factory=list)
    _thought_calls: list[WrittenCall] = field(default_factory=list)
    _events: list[AnswerEvent] = field(default_factory=list)
    _buffer: str = ""
    _plain: str = ""  # the same, normalized
    _mode: str = "start"
    _mark: Mark | None = None  # of a thought or a call that has begun
    _searched: int = 0  # so far, its end was looked for
    _line_attempts: int = 0  # at lines that might have been a call
    _attempts: int = 0  # at calls whose closing mark did not end them
    _context: _Context = field(default_factory=lambda: _Context())
    _gap: str = ""  # blanks at the text's end, which belong to it once there is more
    _unsaid: str = ""  # calls of tools that were not offered, while there is nothing else
    _foreign: list[WrittenCall] = field(default_factory=list)
    _skips_blanks: bool = False
    _is_certain: bool = False  # no thought ends any more that did not begin
    _has_header: bool = False
    _thinks_anew: bool = True
    _label: str | None = None  # of a thought: what may say that it is one
    _blanks: str = ""  # at the end of what was thought
    _may_hold: bool = True
    _may_be_whole: bool = True
    _has_thought: bool = False

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """What was thought, whether the provider told it apart or it stood in the text."""
        return "".join(self._reasoning)

    @property
    def calls(self) -> tuple[WrittenCall, ...]:
        """The calls written in the text, as the model wrote them; known after `end`."""
        return tuple(self._calls or self._thought_calls)

    def all_calls(self, calls: Sequence[ToolCallRequest]) -> tuple[ToolCallRequest, ...]:
        """The calls of the protocol and, after `end`, those written in the text, all by the names and the schemas of
        `tools`. Raises EmptyAnswer where the answer is a call and no tools were offered."""
        if self.foreign_call and not calls and not has_visible_character(self.text):
            name = clean_text(self.foreign_call)[:100]
            raise EmptyAnswer(f"The model wrote a call of the tool “{name}” in place of an answer, and had no tools.")
        written = self._calls or (() if calls else self._thought_calls)
        return tuple(merge_calls(calls, written, self.tools))

    def add_reasoning(self, piece: str) -> Iterator[AnswerEvent]:
        """Takes in the next piece that the provider told apart as thought; to be read to its end."""
        if piece:
            self._give_thought(piece)
            self._thinks_anew = True
        return self._take_events()

    def add(self, piece: str) -> Iterator[AnswerEvent]:
        """Takes in the next piece; to be read to its end."""
        self._buffer += piece
        self._plain += normalize(piece)
        self._read(is_end=False)
        return self._take_events()

    def end(self) -> Iterator[AnswerEvent]:
        """What was held back until everything had come."""
        self._read(is_end=True)
        if self._gap and not self._calls:
            self._give(self._gap)
        self._gap = ""
        self._end_unsaid()
        if not self._calls and not has_visible_character(self.text):
            self._read_calls_in_thought()
        return self._take_events()

    def _take_events(self) -> Iterator[AnswerEvent]:
        events, self._events = self._events, []
        return iter(events)

    # What is said, thought and taken back.

    def _say(self, text: str) -> None:
        """Words of the answer. Line breaks at the end wait for more words."""
        if self._skips_blanks:
            text = text.lstrip()
            self._skips_blanks = not text
        if not text:
            return
        self._context.feed(text)
        if self._unsaid:
            if not text.strip():
                self._unsaid += text
                return
            text, self._unsaid = self._unsaid + text, ""
            self._foreign.clear()
        text = self._gap + text
        words = text.rstrip()
        line_end = text.find("\n", len(words))
        end = line_end if line_end >= 0 else len(text)
        self._gap = text[end:]
        self._give(text[:end])

    def _give(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._events.append(TextDelta(text))

    def _think(self, text: str) -> None:
        """Words of a thought. Blanks at its beginning and its end are no part of it."""
        if self._label is not None:
            self._label += text
            if len(self._label) < MAX_LABEL_CHARACTERS and "\n" not in self._label:
                return
            self._end_label()
            return
        if self._thinks_anew:
            text = text.lstrip()
        if not text:
            return
        if self._thinks_anew and self._reasoning:
            self._give_thought("\n\n")
        self._thinks_anew = False
        text = self._blanks + text
        words = text.rstrip()
        self._blanks = text[len(words) :]
        self._give_thought(words)

    def _end_label(self) -> None:
        if self._label is not None:
            text, self._label = self._label, None
            self._think(THOUGHT_LABEL.sub("", text, count=1) if THOUGHT_LABEL.match(text) else text)

    def _end_thought(self) -> None:
        self._end_label()
        self._blanks, self._thinks_anew = "", True
        self._has_thought = self._is_certain = True

    def _give_thought(self, text: str) -> None:
        if text:
            self._reasoning.append(text)
            self._events.append(ReasoningDelta(text))

    def _turn_into_thought(self) -> None:
        """All that was said was thought: a model whose prompt opens the thought only ends it."""
        text, reasoning = self.text + self._unsaid, self.reasoning
        if self._text:
            self._events.append(TextReset())
            self._text.clear()
            self._reasoning.clear()
            self._give_thought(reasoning)
        self._gap = self._unsaid = ""
        self._calls.clear()
        self._foreign.clear()
        self._context = _Context()
        self._thinks_anew = True
        self._think(text)
        self._end_thought()

    def _end_unsaid(self) -> None:
        """Calls of tools that were not offered, and nothing else: refused where others were, else no answer."""
        if not self._foreign:
            return
        if self.tools:
            self._calls += self._foreign
        elif not self._calls:
            self.foreign_call = self._foreign[0].name
        self._foreign, self._unsaid = [], ""

    def _read_calls_in_thought(self) -> None:
        """A call with which a thought ends that nothing follows was to be made: the model forgot to end the thought."""
        start, calls = find_last_calls(self.reasoning)
        if calls and all(resolve_name(call.name, self.tools) for call in calls):
            reasoning = self.reasoning[:start].rstrip()
            self._thought_calls = calls
            self._events.append(TextReset())
            self._reasoning.clear()
            self._text.clear()
            self._give_thought(reasoning)

    # How the text is read: each step takes in what is decided, until more of the text has to come.

    def _read(self, *, is_end: bool) -> None:
        steps = {
            "start": self._step_start,
            "text": self._step_text,
            "thought": self._step_thought,
            "held": self._step_held,
            "whole": self._step_whole,
            "rest": self._step_rest,
            "compact": self._step_compact,
        }
        while steps[self._mode](is_end):
            pass

    def _drop(self, count: int) -> str:
        """What stands at the beginning of the buffer, which is taken out."""
        text = self._buffer[:count]
        self._buffer, self._plain = self._buffer[count:], self._plain[count:]
        return text

    def _say_next(self, count: int) -> None:
        self._say(self._drop(count))

    def _step_start(self, is_end: bool) -> bool:
        """Does the step before the first word: thoughts, what only begins a turn, and answers that are a call as a
        whole."""
        blanks = len(self._plain) - len(self._plain.lstrip())
        rest = self._plain[blanks:]
        if not rest:
            if is_end and not self._has_thought:
                self._say_next(blanks)
            return False
        mark = mark_at(rest, 0)
        if mark and mark.kind in ("thought", "turn", "frame"):
            self._drop(blanks + mark.end)
            self._skips_blanks = True
            if mark.kind == "thought":
                self._begin_thought(mark)
            return True
        if not is_end and not mark and (may_become_mark(rest) or "analysis".startswith(rest)):
            return False
        if self._has_thought and not mark and rest.lower().startswith("<answer>"):
            self._drop(blanks + len("<answer>"))
            return True
        if not is_end and self._has_thought and "<answer>".startswith(rest.lower()):
            return False
        self._mode = "text"
        if _COMPACT_START.match(rest) and self._may_hold:
            self._mode = "compact"
        elif self.tools and self._may_be_whole and _may_become_call(self._buffer, self.tools):
            self._mode = "whole"
        return True

    def _begin_thought(self, mark: Mark) -> None:
        self._mode, self._mark, self._searched = "thought", mark, 0
        self._thinks_anew = True
        self._label = "" if mark.has_label else None

    def _step_thought(self, is_end: bool) -> bool:
        mark = self._mark
        assert mark is not None
        closing = mark.closing.search(self._plain)
        if closing:
            self._think(self._drop(closing.start()))
            self._end_thought()
            self._drop(closing.end() - closing.start())
            self._skips_blanks, self._mode = True, "start"
            return True
        end = len(self._plain) if is_end else _end_of_certain(self._plain)
        self._think(self._drop(end))
        if is_end:
            self._end_thought()
            self.is_broken_off = True
        return False

    def _step_text(self, is_end: bool) -> bool:
        """Words up to the next mark, or to a line that may begin a call that the rest of the answer is."""
        position = next_sign(self._plain, 0)
        mark, is_open = None, False
        while position >= 0:
            mark = mark_at(self._plain, position)
            is_open = not is_end and may_become_mark(self._plain[position : position + MAX_MARK_CHARACTERS + 1])
            if mark or is_open:
                break
            position = next_sign(self._plain, position + 1)
        end = position if position >= 0 else len(self._plain)
        if (line := self._find_call_line(end)) is not None:
            self._say_next(line)
            self._mode = "rest"
            return True
        self._say_next(end)
        return self._meet(mark.moved(-position), is_end) if mark else False

    def _find_call_line(self, end: int) -> int | None:
        """The position, before `end`, at which the first line begins that may be a call as JSON."""
        if not self.tools or not self._may_hold or self._line_attempts >= MAX_ATTEMPTS:
            return None
        for match in _CALL_LINE.finditer(self._plain, 0, end):
            is_line = self._plain.startswith("\n", match.start()) or self._context.is_at_line_start
            start = match.end()
            if is_line and _may_become_call(self._buffer[start : start + MAX_HEAD_CHARACTERS], self.tools):
                return start
        return None

    def _step_rest(self, is_end: bool) -> bool:
        """What may be a call as JSON up to the end of the answer, until it cannot be one."""
        is_spoken_of = self._context.is_code or self._context.is_quoted
        if not is_spoken_of and self._may_be_call(is_end):
            return False
        self._mode, self._line_attempts = "text", self._line_attempts + is_end
        self._say_next(1)
        return True

    def _meet(self, mark: Mark, is_end: bool) -> bool:
        """What a mark at the beginning of the buffer means; True where the reading goes on."""
        if self._context.is_code or self._context.is_quoted:
            if mark.kind == "thought":
                self._is_certain = True
            is_quoted = mark.kind == "call" and not self._context.is_code
            self._say_next(mark.end)
            self._context.quotes_marks = self._context.quotes_marks or is_quoted
            return True
        match mark.kind:
            case "thought":
                return self._meet_thought(mark)
            case "thought_end" if self.is_strict or not self._is_certain:
                self._drop(mark.end)
                self._turn_into_thought()
                self._skips_blanks, self._mode = True, "start"
                return True
            case "header":
                return self._meet_header(mark)
            case "call" if self._may_hold:
                self._mode, self._mark, self._searched, self._attempts = "held", mark, mark.end, 0
                return True
            case "frame":
                self._drop(mark.end)
                return True
            case "call_end" if (self._calls or self._unsaid) and not self._context.has_text:
                closing = self._drop(mark.end)
                self._unsaid += closing if self._unsaid else ""
                self._skips_blanks = not self._unsaid
                return True
            case "end" | "turn":
                return self._meet_end(mark, is_end)
        self._say_next(mark.end)
        return True

    def _meet_thought(self, mark: Mark) -> bool:
        """One that begins a line of its own within an answer, and ends."""
        self._is_certain = True
        if self.is_strict:
            self._drop(mark.end)
            self._begin_thought(mark)
        elif self._may_hold and not self._context.has_text:
            self._mode, self._mark, self._searched = "held", mark, mark.end
        else:
            self._say_next(mark.end)
        return True

    def _meet_end(self, mark: Mark, is_end: bool) -> bool:
        """A sign that the turn ends is dropped where nothing but marks follows, and it is not spoken of."""
        rest = self._plain[mark.end :].lstrip()
        if not rest and not is_end:
            return False
        is_word = self._context.last in (" ", "\t") or (self._plain.startswith("</s>") and "<s>" in self.text)
        if is_word or (rest and mark_at(rest, 0) is None and (is_end or not may_become_mark(rest))):
            self._say_next(mark.end)
            return True
        if rest and mark_at(rest, 0) is None:
            return False
        self._drop(len(self._plain) - len(rest))
        self._skips_blanks = bool(rest)
        return True

    def _meet_header(self, mark: Mark) -> bool:
        """A message of a turn begins (Harmony): thought, a call, or words."""
        self._drop(mark.end)
        if mark.recipient:
            self._mode, self._mark, self._searched, self._attempts = "held", mark, 0, 0
            self._has_header = True
            return True
        is_first, self._has_header = not self._has_header, True
        if mark.channel == "analysis" or mark.speaker not in ("assistant",):
            self._begin_thought(mark)
            return True
        if mark.channel == "final" and is_first and self._text:
            self._turn_into_thought()
        self._skips_blanks = not self._text
        if self._text and not self._gap:
            self._gap = "\n\n"
        self._mode, self._is_certain = "start" if not self._text else "text", True
        return True

    def _step_held(self, is_end: bool) -> bool:
        """A call or a thought that has begun: up to its end, or to the text's."""
        mark = self._mark
        assert mark is not None
        if mark.kind == "thought":
            return self._step_aside(mark, is_end)
        if mark.kind == "call" and not mark.is_part and not _BODY_START.match(self._plain, mark.end):
            self._mode = "text"
            self._say_next(mark.end)
            return True
        while closing := mark.closing.search(self._plain, self._searched):
            calls = self._held_calls(mark, closing.start(), closing.end())
            if calls is None:
                self._searched, self._attempts = closing.end(), self._attempts + 1
                if self._attempts >= MAX_ATTEMPTS:
                    break
                continue
            if (is_alone := self._is_alone(closing.end(), is_end)) is None:
                return False
            self._mode = "text"
            self._settle(calls, closing.end(), is_alone)
            return True
        if is_end or len(self._plain) > MAX_HELD_CHARACTERS or self._attempts >= MAX_ATTEMPTS:
            self._give_up_call(mark)
            return True
        self._searched = max(self._searched, len(self._plain) - MAX_MARK_CHARACTERS)
        return False

    def _step_aside(self, mark: Mark, is_end: bool) -> bool:
        """A thought in the midst of an answer; words where it does not end."""
        closing = mark.closing.search(self._plain, self._searched)
        if closing is None and not is_end and len(self._plain) <= MAX_HELD_CHARACTERS:
            self._searched = max(self._searched, len(self._plain) - MAX_MARK_CHARACTERS)
            return False
        self._mode = "text"
        if closing is None:
            self._may_hold = False
            self._say_next(mark.end)
            return True
        self._drop(mark.end)
        self._thinks_anew = True
        self._label = "" if mark.has_label else None
        self._think(self._drop(closing.start() - mark.end))
        self._end_thought()
        self._drop(closing.end() - closing.start())
        self._skips_blanks = True
        return True

    def _held_calls(self, mark: Mark, start: int, end: int) -> list[WrittenCall] | None:
        """The calls of what is held, whose closing mark stands from `start` to `end`; None where it is no call."""
        if mark.kind == "header":
            return [WrittenCall(mark.recipient, self._buffer[:start].strip() or "{}")]
        calls = read_calls(self._buffer[:end] if mark.is_part else self._buffer[mark.end : start])
        if calls and mark.is_common:
            is_call = all(resolve_name(call.name, self.tools) for call in calls)
            return calls if is_call or (not self.tools and read_whole_answer(self._buffer[mark.end : start])) else None
        return calls

    def _is_alone(self, end: int, is_end: bool) -> bool | None:
        """Whether what ends there is no part of a sentence; None where more has to come to tell."""
        if not self._context.has_text:
            return True
        rest = self._plain[end:].lstrip(" \t")
        if not rest and not is_end:
            return None
        return not rest or rest[0] in "\n<["

    def _settle(self, calls: list[WrittenCall], end: int, is_alone: bool) -> None:
        """The calls that end there are made, or are words."""
        is_offered = any(resolve_name(call.name, self.tools) for call in calls)
        if is_alone and (is_offered or self.is_strict or (self._calls and self.tools)):
            self._drop(end)
            self._calls += calls
            self._skips_blanks = True
            self._gap = self._gap or ("\n\n" if self._context.has_text else "")
            self._context.begin_line()
        elif not self._text and is_alone and not self._gap.strip():
            self._unsaid += self._drop(end)
            self._foreign += calls
            self._context.begin_line()
        else:
            self._say_next(end)

    def _give_up_call(self, mark: Mark) -> None:
        """The text ended in the midst of a call: it is made as far as that can be read, or is words."""
        self._mode, self._may_hold = "text", False
        if mark.kind == "header":
            calls = self._held_calls(mark, len(self._plain), len(self._plain))
        else:
            body = self._buffer[0 if mark.is_part else mark.end :]
            calls = read_unended_calls(body) or [
                call for call in read_pieces(body) or () if resolve_name(call.name, self.tools)
            ]
        if calls:
            self._settle(calls, len(self._plain), True)
        else:
            self._say_next(mark.end)

    def _step_whole(self, is_end: bool) -> bool:
        """What may be a call as a whole, until it cannot be one."""
        if self._may_be_call(is_end):
            return False
        self._mode, self._may_be_whole = "text", False
        return True

    def _may_be_call(self, is_end: bool) -> bool:
        """Whether all that is held may be a call; at the end, it is made."""
        if len(self._plain) > MAX_HELD_CHARACTERS or not _may_become_call(self._buffer, self.tools):
            return False
        if not is_end:
            return True
        calls = read_whole_answer(_without_end_marks(self._buffer))
        if not calls or not all(resolve_name(call.name, self.tools) for call in calls):
            return False
        self._drop(len(self._buffer))
        self._calls += calls
        return True

    def _step_compact(self, is_end: bool) -> bool:
        """Channels whose marks a server left out: `analysis…assistantfinal…`."""
        blanks = len(self._plain) - len(self._plain.lstrip())
        final = self._plain.find(_COMPACT_FINAL, blanks)
        if final >= 0:
            self._think_compact(self._drop(final)[blanks:])
            self._drop(len(_COMPACT_FINAL))
            self._skips_blanks, self._mode = True, "start"
            return True
        if not is_end and len(self._plain) <= MAX_HELD_CHARACTERS:
            return False
        self._mode, self._may_hold = "text", False
        calls = list(_COMPACT_CALL.finditer(self._plain))
        if calls and self.tools:
            body = self._buffer[calls[-1].end() :].strip()
            name = resolve_name(calls[-1]["name"], self.tools)
            if name:
                self._think_compact(self._drop(calls[-1].start())[blanks:])
                self._drop(len(self._buffer))
                self._calls.append(WrittenCall(name, body))
        return True

    def _think_compact(self, text: str) -> None:
        self._think(_COMPACT_CHANNEL.sub("\n", text.removeprefix("analysis")))
        self._end_thought()


class _Context:
    """The place of a text that is written in Markdown: in code, in a quotation, at a line's beginning."""

    def __init__(self) -> None:
        self._fence = ""
        self._line = ""  # its beginning, which is all that tells
        self._ticks = 0
        self.last = ""
        self.has_text = False
        self.quotes_marks = False  # to the line's end: what belongs to a mark in quotation marks is quoted, too

    @property
    def is_at_line_start(self) -> bool:
        return not self.has_text and len(self._line) < 4

    @property
    def is_code(self) -> bool:
        is_indented = not self.has_text and (self._line.startswith("\t") or self._line.startswith("    "))
        return bool(self._fence) or self._ticks % 2 == 1 or is_indented

    @property
    def is_quoted(self) -> bool:
        is_after_sign = self.quotes_marks or (self.has_text and self.last in _QUOTES)
        return is_after_sign or self._line.lstrip().startswith(">")

    def feed(self, text: str) -> None:
        first, *lines = text.split("\n")
        self._feed_line(first)
        for line in lines:
            self._end_line()
            self._feed_line(line)
        self.last = text[-1:] or self.last

    def begin_line(self) -> None:
        """What follows stands by itself, as after a call."""
        self._line, self._ticks, self.has_text, self.last = "", 0, False, ""
        self.quotes_marks = False

    def _feed_line(self, text: str) -> None:
        self._line += text[: max(0, 200 - len(self._line))]
        self._ticks += text.count("`")
        self.has_text = self.has_text or bool(text.strip())

    def _end_line(self) -> None:
        match = _FENCE.match(self._line)
        if match and not self._fence and not (match[1][0] == "`" and "`" in match[2]):
            self._fence = match[1]
        elif match and self._fence and match[1].startswith(self._fence) and not match[2].strip():
            self._fence = ""
        self.begin_line()


def read_answer(text: str, tools: Sequence[ToolSpec] = ()) -> AnswerText:
    """A whole answer that was read to its end."""
    answer = AnswerText(tools)
    for _ in (*answer.add(text), *answer.end()):
        pass
    return answer


def find_last_calls(text: str) -> tuple[int, list[WrittenCall]]:
    """The position at which the calls begin with which a text ends, and these; the text's length and none where it ends
    otherwise."""
    text = _without_end_marks(text)
    plain = normalize(text)
    position = next_sign(plain, max(0, len(plain) - MAX_HELD_CHARACTERS))
    attempts = 0
    while position >= 0 and attempts < MAX_ATTEMPTS:
        mark = mark_at(plain, position)
        if mark and mark.kind == "call":
            attempts += 1
            if calls := _calls_to_the_end(text, plain, mark):
                return position, calls
        position = next_sign(plain, position + 1)
    return len(text), []


def _calls_to_the_end(text: str, plain: str, mark: Mark) -> list[WrittenCall] | None:
    start = mark.start if mark.is_part else mark.end
    end = max(mark.closing.finditer(plain, mark.end), key=lambda match: match.end(), default=None)
    if end is None:
        return read_unended_calls(text[start:])
    if _ONLY_ENDS.fullmatch(plain, end.end()) is None:
        return None
    return read_calls(text[start : end.end() if mark.is_part else end.start()])


def _end_of_certain(text: str) -> int:
    """The end of the text, without what may be the beginning of a mark."""
    position = max(text.rfind(sign, max(0, len(text) - MAX_MARK_CHARACTERS)) for sign in "<[◁")
    return position if position >= 0 and may_become_mark(text[position:]) else len(text)


def _without_end_marks(text: str) -> str:
    """The text without signs at its end that the turn ends."""
    while True:
        plain = normalize(text.rstrip())
        position = max(plain.rfind(sign, max(0, len(plain) - 60)) for sign in "<[")
        mark = mark_at(plain, position) if position >= 0 else None
        if mark is None or mark.kind != "end" or mark.end != len(plain):
            return text
        text = text[:position]


def _may_become_call(text: str, tools: Sequence[ToolSpec]) -> bool:
    """Whether an answer that begins so may be a call as a whole."""
    text = text.lstrip()[:MAX_HEAD_CHARACTERS]
    if text in ("`", "``"):
        return True
    is_python = False
    if text.startswith("```"):
        label, line_end, text = text[3:].partition("\n")
        label = label.strip().lower()
        if not line_end:
            return any(each.startswith(label) for each in _CODE_LABELS)
        if label not in _CODE_LABELS:
            return False
        text, is_python = text.lstrip(), label.startswith("tool")
    elif "functools[".startswith(text) or text.startswith("functools["):
        text = text.removeprefix("functools")
        if not text.startswith("["):
            return True
    if not text:
        return True
    if text[0] not in "[{" and not is_python:
        return False
    return _may_be_json_call(text, tools) or _may_be_python_call(text, tools)


def _may_be_json_call(text: str, tools: Sequence[ToolSpec]) -> bool:
    if re.fullmatch(r"[\[\s{]*", text):
        return True
    match = _FIRST_KEY.match(text)
    if match is None or "{" not in match[0]:
        return False
    keys = (*NAME_KEYS, *ARGUMENT_KEYS, *OTHER_KEYS)
    if not (match[1] in keys if match[2] else any(key.startswith(match[1]) for key in keys)):
        return False
    name = _FIRST_NAME.match(text)
    return name is None or resolve_name(name[1], tools) is not None


def _may_be_python_call(text: str, tools: Sequence[ToolSpec]) -> bool:
    match = _PYTHON_START.match(text)
    if match is None or (not match[2] and match.end() < len(text)):
        return False
    return not match[2] or match[1] == "print" or resolve_name(match[1].removesuffix(".call"), tools) is not None


def read_kept(text: str) -> AnswerText:
    """A whole answer that is to be kept, read strictly."""
    answer = AnswerText(is_strict=True)
    for _ in (*answer.add(text), *answer.end()):
        pass
    return answer


def spoken_text(text: str) -> str:
    """What an answer says that is to be kept: without thoughts and without calls. "" where it is nothing but those, or
    ends in the midst of a thought. What is left says the same when it is read again."""
    for _ in range(MAX_ATTEMPTS):
        answer = read_kept(text)
        if answer.is_broken_off or read_whole_answer(answer.text):
            return ""
        if answer.text == text:
            return text
        text = answer.text
    return ""

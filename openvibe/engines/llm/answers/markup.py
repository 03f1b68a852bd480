"""The marks of chat templates as they come through in answers: around thoughts, around calls of tools, between the
messages of a turn, and at its end. Tables, and how one is told at a place of a text that may have come in part. Pure.

They are looked for in a text whose look-alikes were made one (`normalize`), letter by letter, so that places stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import regex as re

Kind = Literal["thought", "thought_end", "call", "call_end", "header", "frame", "turn", "end"]

MAX_MARK_CHARACTERS = 500
"""The length of the longest mark: what is longer is words."""

_THOUGHT_WORDS = "think|thinking|thought|thoughts|reasoning|reasoning_scratchpad"
_THOUGHTS: tuple[tuple[str, str], ...] = (
    (
        rf"<(?:seed:|mm:|antml:)?(?:{_THOUGHT_WORDS})(?:\s(?:[^<>]{{0,200}}[^<>/])?)?>",
        rf"</(?:seed:|mm:|antml:)?(?:{_THOUGHT_WORDS})\s{{0,9}}>",
    ),
    (r"\[THINK\]", r"\[/THINK\]"),
    (r"◁think▷", r"◁/think▷"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    (r"<\|channel>", r"<channel\|>"),
    (r"<unused94>", r"<unused95>"),
)
"""Marks of the thoughts of most models; Magistral; Kimi-VL; OpenThinker and Sky-T1; Command A; Apertus; Gemma 4;
MedGemma."""

_FIRST_LABELLED = len(_THOUGHTS) - 2
THOUGHT_LABEL = re.compile(r"(?:thought|analysis)\s")
"""How a thought of Gemma begins: it says what it is."""
MAX_LABEL_CHARACTERS = 9

_DSML = r"\|{1,2}\s?DSML\s?\|{1,2}"
_TO_THE_END = r"<\|(?:eom_id|eot_id|im_end)\|>|</s>"
_RESPONSE = r"<response>(?=\s{0,9}(?:```\w{0,10}\s{0,9})?[\[{])"
_CALLS: tuple[tuple[str, str, bool], ...] = (
    (r"<tool_calls?>", r"</tool_calls?>", False),
    (
        r"<\|tool_calls?\|>",
        r"<\|/tool_calls?\|>|</\|tool_calls?\|>|<\|(?:end|im_end|endoftext)\|>|<\|end_of_text\|>",
        False,
    ),
    (r"<\|tool_call>", r"<tool_call\|>", False),
    (r"<function_?calls?>", r"</function_?calls?>", False),
    (r"<tools>", r"</tools>", False),
    (_RESPONSE, r"</response>", False),
    (r"<TOOLCALL>", r"</TOOLCALL>", False),
    (r"<(?:longcat_|seed:|minimax:)tool_call>", r"</(?:longcat_|seed:|minimax:)tool_call>", False),
    (rf"<{_DSML}(?:function|tool)_calls>", rf"</{_DSML}(?:function|tool)_calls>", False),
    (r"<\|tool_calls_begin\|>", r"<\|tool_calls_end\|>", False),
    (r"<\|tool_calls?_section_begin\|>", r"<\|tool_calls?_section_end\|>", False),
    (r"<\|tool_call_begin\|>", r"<\|tool_call_end\|>", True),
    (r"<\|tool_call_start\|>", r"<\|tool_call_end\|>", False),
    (r"<\|tools_prefix\|>", r"<\|tools_suffix\|>", False),
    (r"<\|START_ACTION\|>", r"<\|END_ACTION\|>", False),
    (r"<\|action_start\|>", r"<\|action_end\|>", False),
    (r"<start_function_call>", r"<end_function_call>", False),
    (r"\[TOOL_CALLS\]", _TO_THE_END, False),
    (r"<\|python_tag\|>", _TO_THE_END, False),
    (r"<function=[\"']?[\w.:/-]{1,200}[\"']?\s{0,9}(?=[>{(\[]|=\{)", r"</?function>", True),
    (r"<function\s+name\s*=\s*[\"'][\w.:/-]{1,200}[\"']\s{0,9}>", r"</function>", True),
    (
        rf"<(?:{_DSML}|antml:|minimax:|steptml:)?invoke\s+name\s*=\s*[\"'][\w.:/-]{{1,200}}[\"']\s{{0,9}}>",
        rf"</(?:{_DSML}|antml:|minimax:|steptml:)?invoke>",
        True,
    ),
)
"""What opens and what ends calls, and whether the opening mark is a part of the call itself."""

_HEADER = (
    r"(?:<\|start\|>(?P<role>[^<\n]{0,150}?))?<\|channel\|>\s{0,9}(?P<channel>[a-z]{1,20})(?P<more>[^<{\n]{0,150}?)"
    r"(?:<\|constrain\|>\s?\w{0,20}\s?)?(?:<\|message\|>|(?=\{))"
    r"|<\|start\|>assistant(?P<flat>analysis|commentary|final)(?P<rest>[^<{\n]{0,150}?)"
    r"(?:<\|constrain\|>\s?\w{0,20}\s?)?(?:<\|message\|>|(?=\{))"
    r"|<\|start\|>(?P<speaker>[^<\n]{0,150})<\|message\|>"
)
"""A pattern of the header of a message of gpt-oss (Harmony): who speaks, in which channel, to whom."""
MESSAGE_END = r"<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)"

_FRAME = r"<\|(?:begin|end)_of_solution\|>|<\|(?:START|END)_(?:RESPONSE|TEXT)\|>|<\|message\|>"
_TURN = (
    r"<\|im_start\|>\s?assistant|<\|start_header_id\|>\s?assistant\s?<\|end_header_id\|>|<\|assistant\|>"
    r"|<start_of_turn>model|<\|turn>model|<\|begin_of_text\|>|<bos>|<\|START_OF_TURN_TOKEN\|>"
    r"|<\|CHATBOT_TOKEN\|>"
)
_END = (
    r"<\|(?:im_end|eot_id|eom_id|end|return|call|endoftext|end_of_text|end_of_sentence|END_OF_TURN_TOKEN|user"
    r"|observation)\|>|<end_of_turn>|<turn\|>|<eos>|</s>|</answer>"
)


def _group(prefix: str, patterns: list[str]) -> str:
    return "|".join(f"(?P<{prefix}{number}>{pattern})" for number, pattern in enumerate(patterns))


_MARK = re.compile(
    "|".join(
        (
            _group("t", [opening for opening, _ in _THOUGHTS]),
            _group("c", [closing for _, closing in _THOUGHTS]),
            _group("o", [opening for opening, _, _ in _CALLS]),
            f"(?P<h>{_HEADER})",
            f"(?P<f>{_FRAME})",
            f"(?P<s>{_TURN})",
            f"(?P<x>{_END})",
            f"(?P<e>{'|'.join(closing for _, closing, _ in _CALLS if closing != _TO_THE_END)})",
        )
    ),
    re.IGNORECASE,
)
_KINDS: dict[str, Kind] = {
    "t": "thought",
    "c": "thought_end",
    "o": "call",
    "e": "call_end",
    "h": "header",
    "f": "frame",
    "s": "turn",
    "x": "end",
}
_THOUGHT_ENDS = [re.compile(closing, re.IGNORECASE) for _, closing in _THOUGHTS]
_CALL_ENDS = [re.compile(closing, re.IGNORECASE) for _, closing, _ in _CALLS]
MESSAGE_ENDS = re.compile(MESSAGE_END)

_SIGN = re.compile(r"[<\[◁]")
_LIKE = (("｜", "|"), ("￨", "|"), ("‖", "|"), ("▁", "_"))


@dataclass(frozen=True)
class Mark:
    """A mark as it stands in a text. `closing` is what ends what it opens; `is_part`: it belongs to the call itself;
    `is_common`: others than calls are written so, too."""

    kind: Kind
    start: int
    end: int
    closing: Any = None
    is_part: bool = False
    is_common: bool = False
    channel: str = ""
    recipient: str = ""
    speaker: str = ""
    has_label: bool = False

    def moved(self, by: int) -> Mark:
        return replace(self, start=self.start + by, end=self.end + by)


def normalize(text: str) -> str:
    """The text with the bars and blanks of DeepSeek's marks as plain ones, each letter in its place."""
    if text.isascii():
        return text
    for letter, plain in _LIKE:
        text = text.replace(letter, plain)
    return text


def next_sign(text: str, position: int) -> int:
    """The position at which the next letter stands that a mark may begin with; -1 where there is none."""
    match = _SIGN.search(text, position)
    return match.start() if match else -1


def mark_at(text: str, position: int) -> Mark | None:
    """The mark that begins there in a normalized text."""
    match = _MARK.match(text, position)
    if match is None:
        return None
    name = next(name for name, value in match.groupdict().items() if value is not None)
    number = int(name[1:] or 0)
    match kind := _KINDS[name[0]]:
        case "thought":
            return Mark(kind, position, match.end(), _THOUGHT_ENDS[number], has_label=number >= _FIRST_LABELLED)
        case "call":
            opening, _, is_part = _CALLS[number]
            return Mark(kind, position, match.end(), _CALL_ENDS[number], is_part, opening == _RESPONSE)
        case "header":
            return _header(match, position)
    return Mark(kind, position, match.end())


def _header(match: Any, position: int) -> Mark:
    channel = (match["channel"] or match["flat"] or "final").lower()
    speaker = (match["role"] or match["speaker"] or "assistant").split()[:1]
    words = f"{match['role'] or match['speaker'] or ''} {match['more'] or match['rest'] or ''}"
    recipient = re.search(r"\bto=([\w.:/-]+)", words)
    name = recipient[1] if recipient and recipient[1] not in ("assistant", "user", "all") else ""
    return Mark(
        "header", position, match.end(), MESSAGE_ENDS, channel=channel, recipient=name, speaker="".join(speaker)
    )


def may_become_mark(rest: str) -> bool:
    """Whether a normalized text, from a sign to its end, may turn out to be the beginning of a mark."""
    if len(rest) > MAX_MARK_CHARACTERS:
        return False
    match = _MARK.match(rest, partial=True)
    return match is not None and match.partial

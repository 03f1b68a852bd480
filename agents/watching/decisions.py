"""What a model decides that was asked whether to speak up: its answer read, strictly. Pure.

Whatever is not plainly a decision to speak, for a trigger that there is, is silence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openvibe.engines.llm.answers.lenient_json import UnreadableJson, load_lenient
from openvibe.engines.llm.answers.thoughts import read_answer
from openvibe.engines.llm.fences import clean_text

MAX_WHY_CHARACTERS = 300
_QUOTES = "\"'“”‘’«»„`"
_FRAME = re.compile(r"\A(?:[-*•]|\d{1,3}[.)])\s+|[.…]+\Z")


@dataclass(frozen=True)
class Decision:
    """`trigger` as the SOUL has it; empty: it stays silent. `sure` in percent, None where it did not say. `why` in the
    model's words, or what kept an answer from being a decision to speak."""

    trigger: str = ""
    sure: int | None = None
    why: str = ""


def read_decision(answer: str, triggers: Sequence[str]) -> Decision:
    """The decision of a model's answer, which thoughts may precede and code may fence."""
    try:
        value = load_lenient(read_answer(answer).text.strip())
    except UnreadableJson:
        return Decision(why="The model's answer was no decision that could be read.")
    if not isinstance(value, dict):
        return Decision(why="The model's answer was no decision that could be read.")
    why = _one_line(value.get("why"))
    sure = _percent(value.get("sure"))
    if value.get("speak") is not True:
        return Decision(sure=sure, why=why)
    named = _key(_one_line(value.get("trigger")))
    trigger = next((each for each in triggers if named and _key(each) == named), "")
    if not trigger:
        return Decision(sure=sure, why="It wanted to speak for something that is none of its triggers.")
    return Decision(trigger, sure, why)


def _key(trigger: str) -> str:
    """The words of a trigger, however they are quoted."""
    text = " ".join(clean_text(trigger).split()).strip(_QUOTES)
    return _FRAME.sub("", _FRAME.sub("", text)).strip(_QUOTES + " ").casefold()


def _one_line(value: Any) -> str:
    return " ".join(clean_text(value).split())[:10_000] if isinstance(value, str) else ""


def _percent(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        return None
    return int(value * 100) if isinstance(value, float) and value <= 1 else int(value)

"""Structured output: a model's answer that was asked to be one JSON object. Pure."""

from __future__ import annotations

from typing import Any

from openvibe.engines.llm.answers.lenient_json import UnreadableJson, load_lenient
from openvibe.engines.llm.answers.thoughts import read_answer


class UnparsableAnswer(ValueError):
    """The answer as a whole is not what was asked for."""


def parse_json_list(name: str, answer: str) -> list[Any]:
    """The list of that name in the object, which thoughts may precede; the answer may be fenced as code. Raises
    UnparsableAnswer."""
    try:
        value = load_lenient(read_answer(answer).text.strip())
    except UnreadableJson:
        raise UnparsableAnswer("The answer is not JSON.") from None
    rows = value.get(name) if isinstance(value, dict) else None
    if not isinstance(rows, list):
        raise UnparsableAnswer(f"The answer has no list of {name}.")
    return rows

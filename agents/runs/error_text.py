"""What is shown of a run's error: a sentence, and behind *Details* what programs said of it. Pure.

A program elsewhere may send whatever its vendor's tool wrote: a stack trace, the JSON of a refusal, a page of output.
It is stored whole (`Run.error`); pages show the sentence first."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_SUMMARY_CHARACTERS = 240
MAX_JSON_DEPTH = 6
NO_SENTENCE = "Its program failed, and said it in no sentence."

_TRACE_LINE = re.compile(
    r"\s*(?:at .+[:(].*|File \".*\", line \d+.*|\.\.\. \d+ more|goroutine \d+.*|thread '.*' panicked.*)"
)
_TRACE_HEAD = re.compile(r"(.*?)\s*Traceback \(most recent call last\):?\s*$", re.IGNORECASE)
_ERROR_LINE = re.compile(
    r"\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Refused|Timeout|Interrupt)\b\s*(?:\[[\w-]+\])?:\s*\S.*"
)
_SENTENCE_END = re.compile(r"[.!?…](?=\s)")
_KEYS = ("message", "detail", "error_description", "error", "reason", "title", "description")


class ErrorText(NamedTuple):
    """`details` is all of it, where the summary leaves something out; else empty."""

    summary: str
    details: str


def read_error(text: str) -> ErrorText:
    """The error as pages show it."""
    text = text.strip()
    summary = _summary(text)
    return ErrorText(summary, "" if summary == text else text)


def _summary(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    first, told = _without_json(lines[0], text)
    if not told:
        first, told = _without_trace(lines)
    first = first.strip()
    words = f"{first.rstrip(' :.')}: {told}" if first.rstrip(" :.") and told else first or told
    return _first_sentences(words or NO_SENTENCE)


def _without_json(first: str, text: str) -> tuple[str, str]:
    """What stands before JSON in the first line, and the message that it holds; both empty where there is none."""
    start = min((at for at in (text.find("{"), text.find('["'), text.find("[{")) if at >= 0), default=-1)
    if start < 0 or start > len(first):
        return "", ""
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        return (first[:start], NO_SENTENCE) if re.match(r"[\[{]\s*[\[{\"']", text[start:]) else ("", "")
    message = next(_messages(value), "")
    return first[:start], " ".join(message.split()) or NO_SENTENCE


def _messages(value: Any, depth: int = 0) -> Iterator[str]:
    """Sentences of a refusal, those under the best known names first."""
    if depth > MAX_JSON_DEPTH:
        return
    if isinstance(value, list):
        for inner in value:
            yield from _messages(inner, depth + 1)
    if not isinstance(value, dict):
        return
    for key in _KEYS:
        inner = value.get(key)
        if isinstance(inner, str) and inner.strip():
            yield inner
        elif isinstance(inner, dict | list):
            yield from _messages(inner, depth + 1)


def _without_trace(lines: list[str]) -> tuple[str, str]:
    """The first line, and the line of the error where a stack trace follows it or begins with it."""
    heads = [match for line in lines if (match := _TRACE_HEAD.match(line))]
    if not heads and not any(map(_TRACE_LINE.fullmatch, lines)):
        return lines[0], ""
    errors = [line for line in lines if _ERROR_LINE.fullmatch(line)]
    error = (errors[-1] if heads else errors[0]) if errors else ""
    head = _TRACE_HEAD.match(lines[0])
    before = head[1] if head else lines[0]
    is_of_trace = bool(_TRACE_LINE.fullmatch(lines[0]) or _ERROR_LINE.fullmatch(lines[0]))
    return "Its program failed" if is_of_trace or not before.rstrip(" :") else before, error


def _first_sentences(words: str) -> str:
    """Cuts the words to the sentences that MAX_SUMMARY_CHARACTERS hold, or to that much of the first."""
    if len(words) <= MAX_SUMMARY_CHARACTERS:
        return words
    ends = [match.end() for match in _SENTENCE_END.finditer(words, 0, MAX_SUMMARY_CHARACTERS)]
    return words[: ends[-1]] if ends else words[: MAX_SUMMARY_CHARACTERS - 1].rstrip() + "…"

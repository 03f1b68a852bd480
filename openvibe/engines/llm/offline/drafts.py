"""The result of a dive as plain values: what an agent is asked to write, read leniently, and written as Markdown. Pure.

A draft is a proposal for a form: parts may be missing. What a published result must be is checked where it is
published. Source of the limits: the product specification, "Dives".
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openvibe.engines.llm.offline.extractive_summary import extractive_summary, key_sentences

MAX_HEADLINE_CHARACTERS = 120
MIN_BULLETS, MAX_BULLETS = 3, 5
MAX_DEFERRED = MAX_QUESTIONS = 2
MAX_FULL_CHARACTERS = 100_000
MAX_BULLET_CHARACTERS = 1_000

DRAFT_FORMAT = """\
Draft the result of this dive for the people of the thread it started in.
- Use only what was said in the dive and the message it started from; leave out everything else these blocks hold.
- Write it in the language of the dive, not of the request; the headings stay as they are here.
- Answer in this form, with nothing before or after it, whatever form other answers of yours have:
```
## Headline
one line of at most 120 characters
## Key points
3 to 5 list items, a sentence each
## Full text
what was found, decided and why, with who said it
## Deferred
at most 2 list items: what was put off; leave the heading out when there is nothing
## Open questions
at most 2 list items: what nobody answered; leave the heading out when there is nothing
```"""
"""Stands as it is in the system message of a prompt for the task `publish`: the offline model knows it by this."""

OFFLINE_NOTE = "Drafted by the offline model: sentences picked from the dive, nothing rewritten."
EXTRACTED_NOTE = "The agent's draft did not have the parts of a result; these sentences were picked from it."

_FIELDS_BY_HEADING = {
    "headline": "headline",
    "title": "headline",
    "key points": "bullets",
    "bullets": "bullets",
    "key findings": "bullets",
    "full text": "full",
    "full": "full",
    "deferred": "deferred",
    "deferred items": "deferred",
    "open questions": "questions",
    "questions": "questions",
}
_HEADING = re.compile(
    r"^\s{0,3}(?:\d{1,2}[.)]\s+)?(?P<sign>#{1,6}|\*\*|__)?\s*(?P<name>[A-Za-z ]{4,20})(?P<rest>[*_#\s]*:?.*)$"
)
_ITEM = re.compile(r"^\s*(?:[-*+•–]|\d{1,3}[.)])\s+(.*)$")
_FENCE = re.compile(r"^\s{0,3}(```+|~~~+)")
_FENCED_TEXT = re.compile(r"(?m)^(```+|~~~+)[^\n`]*\n((?s:.*))\n\1\s*$")
_MARKUP = re.compile(r"(?m)^[ \t]*(?:[>#]+|[-*+]|\d{1,3}[.)])[ \t]+|[`*_~|]{1,3}")
_EMPTY_ITEMS = frozenset({"none", "nothing", "n/a", "na", "no", "-", "–", "—", "none.", "nothing.", "(none)"})
_MAX_KEY_SENTENCES = 200  # of the most telling, looked through for what stays open
_DEFERRAL = re.compile(r"(?i)\b(?:defer\w*|postpon\w*|later|next (?:week|month|year|season|time)|put off|not now)\b")
_OPEN_QUESTION = re.compile(r"(?i)\b(?:open question|unclear|undecided|nobody knows|do(?:es)? not know|don't know)\b")


@dataclass(frozen=True)
class ResultDraft:
    """Headline (one line), key points, full text (Markdown), what was put off, what stays open."""

    headline: str = ""
    bullets: tuple[str, ...] = ()
    full: str = ""
    deferred: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


def parse_draft(text: str) -> ResultDraft | None:
    """A model's answer as a draft within the limits; None without a headline or a key point.

    Takes headings in any order and of any depth or in bold, `Headline: …` on one line, numbered lists, an answer
    that is fenced, and a JSON object with these names.
    """
    text = text[: 2 * MAX_FULL_CHARACTERS]
    fence = _FENCED_TEXT.search(text)
    for candidate in (text, fence[2] if fence else ""):
        draft = _parse_json(candidate) or _parse_markdown(candidate)
        if draft.headline and draft.bullets:
            return draft
    return None


def render_draft(draft: ResultDraft) -> str:
    """The draft under the headings of DRAFT_FORMAT; empty parts are left out. `parse_draft` reads it back."""
    parts = [("Headline", draft.headline), ("Key points", _render_list(draft.bullets)), ("Full text", draft.full)]
    parts += [("Deferred", _render_list(draft.deferred)), ("Open questions", _render_list(draft.questions))]
    return "\n\n".join(f"## {heading}\n{text}" for heading, text in parts if text)


def render_card(draft: ResultDraft) -> str:
    """Headline and key points, as the message of a published result holds them."""
    return f"**{draft.headline}**\n\n{_render_list(draft.bullets)}"


def extract_draft(
    transcript: Sequence[tuple[str, str]], *, note: str = OFFLINE_NOTE, max_tokens: int = 600
) -> ResultDraft:
    """A draft without a model, from (who, text) in the order it was said: sentences are picked, none is rewritten.

    `note` says so, first thing in the full text, which takes about `max_tokens`. Too little said gives too few key
    points.
    """
    prose = [
        (" ".join(re.sub(r"[\[\]|]", " ", speaker).split()), strip_markdown(text[:MAX_FULL_CHARACTERS]))
        for speaker, text in transcript
    ]
    lines = [(speaker, line) for speaker, text in prose for line in text.split("\n") if line]
    all_lines = "\n".join(line for _, line in lines)
    sentences = key_sentences(all_lines, _MAX_KEY_SENTENCES)
    statements = [sentence for sentence in sentences if not sentence.endswith("?")] or sentences
    if not statements:
        return ResultDraft(full=note)
    key_points = statements[1 : MAX_BULLETS + 1]
    _, last_message = prose[-1]
    open_questions = (
        sentence
        for sentence in sentences
        if _OPEN_QUESTION.search(sentence) or (sentence.endswith("?") and sentence in last_message)
    )
    summary = extractive_summary("\n".join(f"[ | said | {speaker}] {line}" for speaker, line in lines), max_tokens)
    return truncate_draft(
        ResultDraft(
            headline=statements[0],
            bullets=tuple(sorted(key_points if len(key_points) >= MIN_BULLETS else statements, key=all_lines.find)),
            full=f"{note}\n\n{summary}",
            deferred=tuple(sentence for sentence in sentences if _DEFERRAL.search(sentence)),
            questions=tuple(open_questions),
        )
    )


def truncate_draft(draft: ResultDraft) -> ResultDraft:
    """The draft cut to the limits, so that it can stand in the form."""
    return ResultDraft(
        headline=_truncate(draft.headline, MAX_HEADLINE_CHARACTERS),
        bullets=_clean_items(draft.bullets, MAX_BULLETS),
        full=draft.full.strip()[:MAX_FULL_CHARACTERS],
        deferred=_clean_items(draft.deferred, MAX_DEFERRED),
        questions=_clean_items(draft.questions, MAX_QUESTIONS),
    )


def _parse_markdown(text: str) -> ResultDraft:
    parts: defaultdict[str, list[str]] = defaultdict(list)
    part, is_code = "", False
    for line in text.split("\n"):
        is_code ^= bool(_FENCE.match(line))
        heading, rest = ("", "") if is_code else _parse_heading(line, part)
        part = heading or part
        if rest or (part and not heading):
            parts[part].append(rest or line)
    return truncate_draft(
        ResultDraft(
            headline=next(filter(None, map(_clean_headline, parts["headline"])), ""),
            bullets=_parse_list(parts["bullets"]),
            full="\n".join(parts["full"]),
            deferred=_parse_list(parts["deferred"]),
            questions=_parse_list(parts["questions"]),
        )
    )


def _parse_heading(line: str, part: str) -> tuple[str, str]:
    """The part a line begins, and what else stands on it. In the full text only a heading ends it."""
    match = _HEADING.match(line) if len(line) <= 4 * MAX_BULLET_CHARACTERS else None
    if match is None:
        return "", ""
    rest = match["rest"].strip("*_#: \t")
    is_named = ":" in match["rest"][: len(match["rest"]) - len(rest)] or not rest
    sign = match["sign"] or (":" in match["rest"] and part != "full")
    name = _FIELDS_BY_HEADING.get(" ".join(match["name"].lower().split()), "")
    if not (name and is_named and sign) or (part == "full" and rest):
        return "", ""
    return name, rest


def _parse_list(lines: Iterable[str]) -> tuple[str, ...]:
    """Items of lists, each with the lines that go on with it; without any sign of a list, every line is one."""
    items: list[str] = []
    filled_lines = [line for line in lines if line.strip()]
    is_list = any(_ITEM.match(line) for line in filled_lines)
    for line in filled_lines:
        match = _ITEM.match(line)
        if match or not is_list:
            items.append(match[1] if match else line)
        elif items:
            items[-1] += f" {line}"
    return tuple(items)


def _parse_json(text: str) -> ResultDraft | None:
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end or text[:start].strip(" \n`json"):
        return None
    try:
        json_value = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return None
    if not isinstance(json_value, dict):
        return None
    fields = {
        _FIELDS_BY_HEADING.get(" ".join(str(key).lower().replace("_", " ").split()), ""): value
        for key, value in json_value.items()
    }
    headline, full = (value if isinstance(value := fields.get(name), str) else "" for name in ("headline", "full"))
    bullets, deferred, questions = (_as_texts(fields.get(name)) for name in ("bullets", "deferred", "questions"))
    return truncate_draft(ResultDraft(headline, bullets, full, deferred, questions))


def _as_texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return _parse_list(value.split("\n"))
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _render_list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _clean_items(items: Iterable[str], max_items: int) -> tuple[str, ...]:
    cleaned = (_truncate(item, MAX_BULLET_CHARACTERS) for item in items)
    return tuple(item for item in cleaned if item and item.lower() not in _EMPTY_ITEMS)[:max_items]


def _clean_headline(line: str) -> str:
    """A headline without the signs some models put around it."""
    line = _ITEM.sub(r"\1", line).strip().strip("#").strip()
    for mark in ("**", "__", '"', "“"):
        closing = "”" if mark == "“" else mark
        if line.startswith(mark) and line.endswith(closing) and len(line) > 2 * len(mark):
            line = line[len(mark) : -len(closing)].strip()
    return line


def _truncate(text: str, max_characters: int) -> str:
    """The text in one line, cut between words."""
    text = " ".join(text[: 4 * MAX_BULLET_CHARACTERS].split())
    if len(text) <= max_characters:
        return text
    beginning = text[: max_characters - 1]
    return (beginning.rpartition(" ")[0] or beginning).rstrip(" ,;:") + "…"


def strip_markdown(text: str) -> str:
    """Prose only: no headings, quote and list signs, or emphasis, and no empty lines."""
    return "\n".join(" ".join(line.split()) for line in _MARKUP.sub("", text).split("\n") if line.strip())

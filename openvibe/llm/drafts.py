"""The result of a dive as plain values: what an agent is asked to write, read leniently, and written as Markdown. Pure.

A draft is a proposal for a form: parts may be missing. What a published result must be is checked where it is
published. Source of the limits: the product specification, "Dives".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openvibe.llm.gist import gist, telling

HEADLINE_CHARACTERS = 120
FEWEST_BULLETS, MOST_BULLETS = 3, 5
MOST_DEFERRED = MOST_QUESTIONS = 2
FULL_CHARACTERS = 100_000
BULLET_CHARACTERS = 1_000

DRAFT_FORMAT = """\
Draft the result of this dive for the people of the thread it started in.
- Use only what was said in the dive and the message it started from; leave out everything else these blocks hold.
- Answer with these Markdown headings and nothing around them:
## Headline
one line of at most 120 characters
## Key points
3 to 5 list items, a sentence each
## Full text
what was found, decided and why, with who said it
## Deferred
at most 2 list items: what was put off; leave the heading out when there is nothing
## Open questions
at most 2 list items: what nobody answered; leave the heading out when there is nothing"""
"""Stands as it is in the system message of a prompt for the task `publish`: the offline model knows it by this."""

OFFLINE_NOTE = "Drafted by the offline model: sentences picked from the dive, nothing rewritten."
PICKED_NOTE = "The agent's draft did not have the parts of a result; these sentences were picked from it."

_NAMES = {
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
_FENCED = re.compile(r"(?m)^(```+|~~~+)[^\n`]*\n((?s:.*))\n\1\s*$")
_NOTHING = frozenset({"none", "nothing", "n/a", "na", "no", "-", "–", "—", "none.", "nothing.", "(none)"})
_SENTENCES = 200  # of the most telling, looked through for what stays open
_PUT_OFF = re.compile(r"(?i)\b(?:defer\w*|postpon\w*|later|next (?:week|month|year|season|time)|put off|not now)\b")
_UNANSWERED = re.compile(r"(?i)\b(?:open question|unclear|undecided|nobody knows|do(?:es)? not know|don't know)\b")


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
    text = text[: 2 * FULL_CHARACTERS]
    fenced = _FENCED.search(text)
    for shown in (text, fenced[2] if fenced else ""):
        draft = _from_json(shown) or _from_markdown(shown)
        if draft.headline and draft.bullets:
            return draft
    return None


def draft_markdown(draft: ResultDraft) -> str:
    """The draft under the headings of DRAFT_FORMAT; empty parts are left out. `parse_draft` reads it back."""
    parts = [("Headline", draft.headline), ("Key points", _list(draft.bullets)), ("Full text", draft.full)]
    parts += [("Deferred", _list(draft.deferred)), ("Open questions", _list(draft.questions))]
    return "\n\n".join(f"## {heading}\n{text}" for heading, text in parts if text)


def card_markdown(draft: ResultDraft) -> str:
    """Headline and key points, as the message of a published result holds them."""
    return f"**{draft.headline}**\n\n{_list(draft.bullets)}"


def extract_draft(said: Sequence[tuple[str, str]], *, note: str = OFFLINE_NOTE, tokens: int = 600) -> ResultDraft:
    """A draft without a model, from (who, text) in the order it was said: sentences are picked, none is rewritten.

    `note` says so, first thing in the full text, which takes about `tokens`. Too little said gives too few key points.
    """
    lines = [(who, line) for who, text in said for line in _plain(text).split("\n") if line]
    told = telling("\n".join(line for _, line in lines), _SENTENCES)
    statements = [sentence for sentence in told if not sentence.endswith("?")] or told
    if not statements:
        return ResultDraft(full=note)
    points = statements[1 : MOST_BULLETS + 1]
    last = _plain(said[-1][1])
    open_ends = (one for one in told if _UNANSWERED.search(one) or (one.endswith("?") and one in last))
    whole = gist("\n".join(f"[ | said | {_name(who)}] {line}" for who, line in lines), tokens)
    return fitting_draft(
        ResultDraft(
            headline=statements[0],
            bullets=tuple(_in_order(lines, points if len(points) >= FEWEST_BULLETS else statements)),
            full=f"{note}\n\n{whole}",
            deferred=tuple(one for one in told if _PUT_OFF.search(one)),
            questions=tuple(open_ends),
        )
    )


def fitting_draft(draft: ResultDraft) -> ResultDraft:
    """The draft cut to the limits, so that it can stand in the form."""
    return ResultDraft(
        headline=_cut(_one_line(draft.headline), HEADLINE_CHARACTERS),
        bullets=_items(draft.bullets, MOST_BULLETS),
        full=draft.full.strip()[:FULL_CHARACTERS],
        deferred=_items(draft.deferred, MOST_DEFERRED),
        questions=_items(draft.questions, MOST_QUESTIONS),
    )


# --- reading ------------------------------------------------------------------------------------------------


def _from_markdown(text: str) -> ResultDraft:
    parts: dict[str, list[str]] = {}
    part, is_code = "", False
    for line in text.split("\n"):
        is_code ^= bool(_FENCE.match(line))
        name, told = ("", "") if is_code else _heading(line, part)
        if name:
            part = name
            parts.setdefault(part, [])
        if told or (part and not name):
            parts[part].append(told or line)
    return fitting_draft(
        ResultDraft(
            headline=next((line for line in map(_bare, parts.get("headline", ())) if line), ""),
            bullets=tuple(_listed(parts.get("bullets", ()))),
            full="\n".join(parts.get("full", ())),
            deferred=tuple(_listed(parts.get("deferred", ()))),
            questions=tuple(_listed(parts.get("questions", ()))),
        )
    )


def _heading(line: str, part: str) -> tuple[str, str]:
    """The part a line begins, and what else stands on it. In the full text only a heading ends it."""
    found = _HEADING.match(line) if len(line) <= 4 * BULLET_CHARACTERS else None
    if found is None:
        return "", ""
    told = found["rest"].strip("*_#: \t")
    is_named = ":" in found["rest"][: len(found["rest"]) - len(told)] or not told
    sign = found["sign"] or (":" in found["rest"] and part != "full")
    name = _NAMES.get(" ".join(found["name"].lower().split()), "")
    if not (name and is_named and sign) or (part == "full" and told):
        return "", ""
    return name, told


def _listed(lines: Iterable[str]) -> list[str]:
    """List items, each with the lines that go on with it; without any sign of a list, every line is one."""
    items: list[str] = []
    kept = [line for line in lines if line.strip()]
    is_list = any(_ITEM.match(line) for line in kept)
    for line in kept:
        found = _ITEM.match(line)
        if found or not is_list:
            items.append(found[1] if found else line)
        elif items:
            items[-1] += f" {line}"
    return items


def _from_json(text: str) -> ResultDraft | None:
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end or text[:start].strip(" \n`json"):
        return None
    try:
        found = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    named = {_NAMES.get(" ".join(str(key).lower().replace("_", " ").split()), ""): one for key, one in found.items()}
    return fitting_draft(_named(named))


def _named(named: Mapping[str, Any]) -> ResultDraft:
    return ResultDraft(
        headline=_text(named.get("headline")),
        bullets=_texts(named.get("bullets")),
        full=_text(named.get("full")),
        deferred=_texts(named.get("deferred")),
        questions=_texts(named.get("questions")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(_listed(value.split("\n")))
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


# --- small things -------------------------------------------------------------------------------------------


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {one}" for one in items)


def _items(items: Iterable[str], most: int) -> tuple[str, ...]:
    bare = (_cut(_one_line(one), BULLET_CHARACTERS) for one in items)
    return tuple(one for one in bare if one and one.lower() not in _NOTHING)[:most]


def _bare(line: str) -> str:
    """A headline without the signs some models put around it."""
    found = _ITEM.match(line)
    line = (found[1] if found else line).strip().strip("#").strip()
    for sign in ("**", "__", '"', "“"):
        closing = "”" if sign == "“" else sign
        if line.startswith(sign) and line.endswith(closing) and len(line) > 2 * len(sign):
            line = line[len(sign) : -len(closing)].strip()
    return line


def _one_line(text: str) -> str:
    return " ".join(text[: 4 * BULLET_CHARACTERS].split())


def _cut(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    kept = text[: characters - 1]
    return (kept.rpartition(" ")[0] or kept).rstrip(" ,;:") + "…"


def _plain(text: str) -> str:
    """Prose only: no headings, quote and list signs, or emphasis."""
    bare = re.sub(r"(?m)^[ \t]*(?:[>#]+|[-*+]|\d{1,3}[.)])[ \t]+|[`*_~|]{1,3}", "", text[:FULL_CHARACTERS])
    return "\n".join(" ".join(line.split()) for line in bare.split("\n") if line.strip())


def _name(who: str) -> str:
    return " ".join(re.sub(r"[\[\]|]", " ", who).split())


def _in_order(lines: Sequence[tuple[str, str]], sentences: Iterable[str]) -> list[str]:
    """The sentences as they came in the talk."""
    whole = "\n".join(line for _, line in lines)
    return sorted(sentences, key=whole.find)

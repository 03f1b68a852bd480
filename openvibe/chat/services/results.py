"""What a published result must be: every part checked, the wrong field named."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from openvibe.base.problems import Problem
from openvibe.chat.text import TextRefused, clean_body
from openvibe.llm.drafts import (
    BULLET_CHARACTERS,
    FEWEST_BULLETS,
    FULL_CHARACTERS,
    HEADLINE_CHARACTERS,
    MOST_BULLETS,
    MOST_DEFERRED,
    MOST_QUESTIONS,
    ResultDraft,
)


class BadResult(Problem):
    """What is wrong with a result. `problems` holds one for each wrong field, in the order of the form; as a Problem
    it is the first of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        super().__init__(first.message, code=first.code, field=first.field)
        self.problems = tuple(problems)


def cleaned_result(result: ResultDraft) -> ResultDraft:
    """The result as it is stored: headline and items on one line each. Raises BadResult naming every wrong field."""
    kept: dict[str, Any] = {}
    wrong: list[Problem] = []
    for field, clean in _CLEANED.items():
        try:
            kept[field] = clean(result)
        except Problem as problem:
            wrong.append(problem)
    if wrong:
        raise BadResult(wrong)
    return ResultDraft(**kept)


def _headline(result: ResultDraft) -> str:
    return _line(result.headline, "headline", HEADLINE_CHARACTERS, "A result needs a headline.")


def _bullets(result: ResultDraft) -> tuple[str, ...]:
    bullets = _lines(result.bullets, "bullets")
    if not FEWEST_BULLETS <= len(bullets) <= MOST_BULLETS:
        raise Problem(
            f"A result has {FEWEST_BULLETS} to {MOST_BULLETS} key points; these are {len(bullets)}.",
            code="bad_bullets", field="bullets",
        )  # fmt: skip
    return bullets


def _full(result: ResultDraft) -> str:
    return _text(result.full, "full", FULL_CHARACTERS) if result.full.strip() else ""


def _deferred(result: ResultDraft) -> tuple[str, ...]:
    return _few(result.deferred, "deferred", MOST_DEFERRED, "deferred items")


def _questions(result: ResultDraft) -> tuple[str, ...]:
    return _few(result.questions, "questions", MOST_QUESTIONS, "open questions")


_CLEANED: Mapping[str, Callable[[ResultDraft], Any]] = {
    "headline": _headline, "bullets": _bullets, "full": _full, "deferred": _deferred, "questions": _questions,
}  # fmt: skip
"""In the order of the form."""


def _few(items: Iterable[str], field: str, most: int, what: str) -> tuple[str, ...]:
    kept = _lines(items, field)
    if len(kept) > most:
        raise Problem(f"A result has at most {most} {what}; these are {len(kept)}.", code="too_many", field=field)
    return kept


def _lines(items: Iterable[str], field: str) -> tuple[str, ...]:
    """The items that say something."""
    return tuple(_line(one, field, BULLET_CHARACTERS, "") for one in items if one.strip())


def _line(text: str, field: str, most: int, when_empty: str) -> str:
    if when_empty and not text.strip():
        raise Problem(when_empty, code="empty", field=field)
    return " ".join(_text(text, field, most).split())


def _text(text: str, field: str, most: int) -> str:
    try:
        return clean_body(text, max_characters=most)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field=field) from None

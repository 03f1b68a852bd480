"""What work may say: the limits of each kind of row, and the texts and data as they are kept."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Sum

from memory.work.models import WorkItem
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Thread
from openvibe.engines.llm.fences import escape_text
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import TextRefused, clean_body, has_visible_character
from openvibe.workspaces.access import Access

Kind, State = WorkItem.Kind, WorkItem.State

MAX_TOKENS_BY_KIND = {Kind.CONSTRAINT: 500, Kind.PLAN: 800, Kind.OBJECTIVE: 500, Kind.GOAL: 500}
DEFAULT_MAX_TOKENS = 300
"""The most tokens (o200k_base) the text of a row may have, so that the whole state of work fits every prompt."""

MAX_CONSTRAINT_TOKENS = 1_500
"""Tokens that a thread's open constraints may need in a prompt together: they are in every one, word for word."""

ROW_OVERHEAD_TOKENS = 50
"""Tokens a prompt needs around one row."""

PLAN_STAGES = ("planning", "approved", "executing", "verifying", "integrating")
"""A plan's way, in its `data.stage`. Entering any but the first is a milestone; only people approve."""

DATA_LIMITS: Mapping[str, Mapping[str, int]] = {
    Kind.GOAL: {"done_condition": 1_000, "budget": 200},
    Kind.PLAN: {"stage": 20},
    Kind.ARTIFACT: {"ref": 500},
}
"""What the kinds keep beside their text, and the most characters of each."""

MAX_TEXT_CHARACTERS = 8_000


EMPTY_TEXT = "There are no words in it yet. Nothing was saved: write something first."


def clean_text_field(text: str, *, field: str, max_characters: int, required: bool = True) -> str:
    """The text as it is kept, at most `max_characters`. Raises Problem that names the field."""
    if not required and not has_visible_character(text):
        return ""
    try:
        return clean_body(text, max_characters=max_characters).strip()
    except TextRefused as error:
        message = EMPTY_TEXT if error.code == "empty" else error.message
        raise Problem(message, code=error.code, field=field) from None


def clean_item_text(kind: str, text: str) -> tuple[str, int]:
    """The text, and the tokens it needs in a prompt: a constraint of `<<<…` must not crowd out everything else."""
    cleaned = clean_text_field(text, field="text", max_characters=MAX_TEXT_CHARACTERS)
    tokens, limit = count_tokens(escape_text(cleaned)), MAX_TOKENS_BY_KIND.get(Kind(kind), DEFAULT_MAX_TOKENS)
    if tokens > limit:
        label = str(Kind(kind).label).lower()
        raise Problem(
            f"This has {tokens:,} tokens; {limit:,} fit in one row ({label}). Shorten it, or keep the details in a "
            "message and say here what matters.",
            code="too_long",
            field="text",
        )
    return cleaned, tokens


def clean_data(kind: str, data: Mapping[str, Any], by: Access, before: Mapping[str, Any]) -> dict[str, Any]:
    """What stands, with what is given merged in; every value checked."""
    cleaned_data = dict(before)
    limits = DATA_LIMITS.get(kind, {})
    for key, value in data.items():
        if key not in limits:
            hint = f"It may have {', '.join(limits)}." if limits else "It has only its text."
            raise Problem(f"A row of this kind has no {str(key)[:40]!r}. {hint}", code="bad_data", field="data")
        if value is None or value == "":
            cleaned_data.pop(key, None)
            continue
        if not isinstance(value, str):
            raise Problem(f"{key} is a text.", code="bad_data", field=key)
        cleaned_data[key] = clean_text_field(value, field=key, max_characters=limits[key])
    if (stage := cleaned_data.get("stage")) is not None and stage not in PLAN_STAGES:
        raise Problem(f"A plan's stage is one of {', '.join(PLAN_STAGES)}.", code="bad_data", field="stage")
    if by.is_agent and cleaned_data.get("stage") == "approved" and before.get("stage") != "approved":
        raise Refused("Only people approve a plan. Ask for an approval instead.", code="people_only")
    return cleaned_data


def check_constraints_fit(thread: Thread, tokens: int, *, besides: WorkItem | None = None) -> None:
    """Raises Problem unless a constraint of so many tokens fits with those that are open `besides` it, proposed ones
    included: confirming one must not be refused for want of room."""
    rows = WorkItem.objects.filter(thread=thread, kind=Kind.CONSTRAINT, state=State.OPEN)
    others = rows.exclude(pk=besides.pk) if besides else rows
    totals = others.aggregate(tokens=Sum("tokens"), rows=Count("pk"))
    total = (totals["tokens"] or 0) + tokens + (totals["rows"] + 1) * ROW_OVERHEAD_TOKENS
    grows = besides is None or tokens > besides.tokens or besides.is_proposal
    if grows and total > MAX_CONSTRAINT_TOKENS:
        raise Problem(
            f"Constraints stand in every prompt, so together they may need {MAX_CONSTRAINT_TOKENS:,} tokens; "
            f"with this one it would be {total:,}. Shorten it, or drop one that no longer holds.",
            code="too_many",
            field="text",
        )

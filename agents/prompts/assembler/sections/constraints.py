"""Standing constraints (P1): what members set to bind agents, word for word in every prompt of a thread and its dives.

They are data of members, so they stand outside the system message, escaped as all text is; that they bind is said
there, by the policy, which names their tag. What nobody confirmed is a row of work (`sections.work`).

Beside them, preferences: what the person who asks once asked for, word for word. They bind nobody. Of two that
contradict each other the newer stands alone; one that contradicts what binds says so. Those of the one person of an
import stand here for everybody."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from agents.prompts.assembler.items import Item, SectionCandidates, format_minute, make_item, section_candidates
from agents.prompts.assembler.sections.request import PromptRequest, author_trust, read_once
from memory.models import WorkItem
from openvibe.engines.database.compiled_queries import CompiledQuery, row_columns
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.tokens import TokenCounter, truncate_middle
from openvibe.engines.text.masking import mask_secrets
from openvibe.engines.text.preferences import are_contradictory

MAX_CONSTRAINTS, MAX_STANDING_ROWS = 100, 200
"""Constraints looked at, of a thread and the one a dive started in; and with preferences."""

CONSTRAINTS_DIVISOR = 2
"""All constraints together take at most one in so many tokens of the ceiling. What may be written stays far below."""

MIN_CONSTRAINT_TOKENS = 80
"""Tokens of a constraint that is cut, its fence included; where not even so many are left, the newest ones go."""


class ConstraintRow(NamedTuple):
    """A constraint that binds."""

    pk: int
    text: str
    author: str
    confirmed_by: str


class StandingRow(NamedTuple):
    """A constraint that binds, or a preference."""

    pk: int
    kind: str
    text: str
    author: str
    author_id: int
    author_kind: str
    confirmed_by: str
    created_at: datetime


@read_once
def standing_rows(request: PromptRequest) -> list[StandingRow]:
    """What binds, then what the asker or somebody imported prefers: of the thread, and for a dive of the thread it
    started in, the oldest first."""
    rows = _standing_rows.rows(request.thread.thread_id, request.thread.parent_id or 0, request.asker_id)
    return list(map(StandingRow._make, rows))


@CompiledQuery
def _standing_rows(thread_id: int, parent_id: int, asker_id: int) -> QuerySet[Any, Any]:
    rows = WorkItem.objects.standing_for(asker_id).filter(Q(thread=thread_id) | Q(thread=parent_id))
    columns = row_columns(
        StandingRow, author="author__label", author_kind="author__kind", confirmed_by="confirmed_by__label"
    )
    return rows.order_by("kind", "id").values_list(*columns)[:MAX_STANDING_ROWS]


def standing_constraints(request: PromptRequest) -> list[ConstraintRow]:
    """Those of the thread, and for a dive those of the thread it started in, the oldest first."""
    rows = [row for row in standing_rows(request) if row.kind == WorkItem.Kind.CONSTRAINT][:MAX_CONSTRAINTS]
    return [ConstraintRow(row.pk, row.text, row.author, row.confirmed_by) for row in rows]


def constraint_candidates(request: PromptRequest, room: int) -> tuple[SectionCandidates, SectionCandidates]:
    """Every constraint, always, and what of them is left out where not even their beginnings fit.

    What may be written fits whole into every budget; only rows of before there was a limit, or a very small window of a
    model, ask for cuts: the longest ones first. `room` (tokens) is what other required parts leave.
    """
    room = min(room, request.budget.ceiling // CONSTRAINTS_DIVISOR)
    counter, rows = request.counter, standing_constraints(request)
    fitting = rows[: max(room, 0) // MIN_CONSTRAINT_TOKENS]
    limits = _fair_shares([_constraint_item(counter, row).tokens for row in fitting], room)
    items = [_constraint_item(counter, row, limit) for row, limit in zip(fitting, limits, strict=True)]
    left_out = [_constraint_item(counter, row) for row in rows[len(fitting) :]]
    return (section_candidates("constraints", items, required=True), section_candidates("constraints", left_out, cap=0))


def _fair_shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much of `room` each of these may take: the small ones all they need, the large ones equal parts."""
    shares = list(sizes)
    smallest_first = sorted(range(len(sizes)), key=lambda at: sizes[at])
    for position, at in enumerate(smallest_first):
        shares[at] = min(sizes[at], room // (len(sizes) - position))
        room -= shares[at]
    return shares


@lru_cache(maxsize=2_048)
def _constraint_item(counter: TokenCounter, row: ConstraintRow, limit: int | None = None) -> Item:
    """The constraint word for word; cut in the middle, and said so, where it takes more than `limit` tokens."""
    text = mask_secrets(row.text)
    item, length = _make_constraint_item(counter, row, text), limit or 0
    while limit is not None and item.tokens > limit and length > 0:
        length -= max(item.tokens - limit, 8) if length < limit else 60  # the fence first, then what is still too much
        item = _make_constraint_item(counter, row, _shorten(text, max(length, 0), counter, row.pk))
    return item


def _shorten(text: str, limit: int, counter: TokenCounter, number: int) -> str:
    return truncate_middle(text, limit, counter, f" [… cut here: work:{number} is stored whole …] ")


def _make_constraint_item(counter: TokenCounter, row: ConstraintRow, text: str) -> Item:
    return make_item(
        counter,
        section="constraints",
        key=f"work:{row.pk}",
        text=fence(
            "binding",
            text,
            source="constraint",
            ref=f"work:{row.pk}",
            author=row.author,
            confirmed_by=row.confirmed_by if row.confirmed_by != row.author else None,
            trust="semi_trusted",
        ),
        trust="semi_trusted",
        source="constraint",
        author=row.confirmed_by,
        ref=f"work:{row.pk}",
        order=row.pk,
    )


PREFERENCES_CAP = 700
"""Tokens that preferences take at most, the newest first."""


def preference_candidates(request: PromptRequest) -> tuple[SectionCandidates, SectionCandidates]:
    """Those that hold, and those in whose place a newer one stands."""
    constraints = standing_constraints(request)
    binding_texts = {each.text for each in constraints}
    rows = [
        row
        for row in reversed(standing_rows(request))
        if row.kind == WorkItem.Kind.PREFERENCE and row.text not in binding_texts
    ]
    holding: list[StandingRow] = []
    replaced: list[StandingRow] = []
    for row in rows:
        is_replaced = any(are_contradictory(row.text, newer.text) for newer in holding)
        (replaced if is_replaced else holding).append(row)
    items = []
    for row in holding:
        against = next((each.pk for each in constraints if are_contradictory(row.text, each.text)), 0)
        items.append(_preference_item(request.counter, row, against))
    replaced_items = [_preference_item(request.counter, row, 0) for row in replaced]
    return (
        section_candidates("preferences", items, cap=PREFERENCES_CAP),
        section_candidates("preferences", replaced_items, cap=0),
    )


@lru_cache(maxsize=2_048)
def _preference_item(counter: TokenCounter, row: StandingRow, against: int) -> Item:
    """`against`: the constraint that it contradicts, 0 for none."""
    ref, trust = f"work:{row.pk}", author_trust(row.author_kind, is_own=False)
    block = fence(
        "preference",
        mask_secrets(row.text),
        source="asked for once, for all later answers",
        ref=ref,
        author=row.author,
        time=format_minute(row.created_at),
        contradicts=f"work:{against}, which binds" if against else None,
        trust=trust,
    )
    return make_item(
        counter,
        section="preferences",
        key=ref,
        text=block,
        trust=trust,
        source="preference",
        author=row.author,
        ref=ref,
        order=row.pk,
    )

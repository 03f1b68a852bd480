"""Preferences (P1): what the person who asks once asked for, word for word, beside the constraints.

They are words of that person and data: they bind nobody. Of two that contradict each other the newer stands here alone;
one that contradicts what binds says so. Those of the one person of an import stand here for everybody."""

from __future__ import annotations

from functools import lru_cache

from agents.prompts.assembler.items import Item, SectionCandidates, format_minute, make_item, section_candidates
from agents.prompts.assembler.sections.constraints import StandingRow, standing_constraints, standing_rows
from agents.prompts.assembler.sections.request import PromptRequest, author_trust
from memory.models import WorkItem
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.tokens import TokenCounter
from openvibe.engines.text.masking import mask_secrets
from openvibe.engines.text.preferences import are_contradictory

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

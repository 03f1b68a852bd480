"""Knowledge (P3): what the workspace knows and the agent may read, for the request; and an index of what else there is.

Which entries bear on the request is decided by `knowledge.search`, the same for page, API and prompt. What would have
borne on it but may not stand here is named among what was left out, with its reason.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from django.db.models import OuterRef, QuerySet

from agents.assembler.items import format_minute, make_item, single_item_groups
from agents.assembler.sections.request import PromptRequest, QueryScope
from agents.assembler.values import DroppedItem, DropReason, Item, SectionCandidates, make_dropped, trust_drop_reason
from knowledge.models import Entry
from knowledge.queries import EntryScope, compute_freshness, find_entries, find_entry_ids, newest_topics, readable_ids
from openvibe.base.masking import mask_secrets
from openvibe.base.query_cache import JsonRows
from openvibe.llm.fences import fence
from openvibe.llm.tokens import TokenCounter, truncate_middle

MAX_ENTRIES = 12
"""Entries that may stand in one prompt, as far as they fit."""

MAX_LEFT_OUT = 3
"""Entries that are named as left out."""

MAX_ENTRY_SHARE = 0.6
"""The most one entry may take of the layer's cap; a longer one keeps head and tail."""

MAX_INDEX_TOPICS = 60
"""Entries whose topics the index names, the newest first."""

INDEX_CAP_DIVISOR = 5
"""The index takes at most one in so many tokens of the layer's cap."""

_CUT_MARKER = "\n[… cut here: knowledge_search gives the whole entry …]\n"


class AnyEntryRow(NamedTuple):
    """An entry of the workspace: it knows something."""

    pk: int


def _any_entry(_scope: QueryScope) -> QuerySet[Any, Any]:
    """One entry of the workspace. Its order is that of an index: without one, PostgreSQL expects to meet an entry soon
    and reads the entries of all others where this workspace has none."""
    return Entry.objects.filter(workspace_id=OuterRef("workspace_id")).order_by("status", "-id")[:1]


ANY_ENTRY = JsonRows("any_entry", AnyEntryRow, _any_entry)


def knowledge_candidates(
    request: PromptRequest, any_entry: AnyEntryRow | None, now: datetime
) -> tuple[SectionCandidates, SectionCandidates, list[DroppedItem]]:
    """The index, the entries for the request (the best first), and what bears on it but may not stand here.

    Entries that expired by `now` (UTC) are out, whether or not a job has marked them.
    """
    cap = request.budget.caps["P3"] or 0
    if cap == 0 or any_entry is None:
        return SectionCandidates("P3", "topics", ()), SectionCandidates("P3", "knowledge", ()), []
    limit = int(cap * MAX_ENTRY_SHARE)
    readable_entries, others, seen_ids = _search_entries(request, now)
    entries = [
        _entry_item(request.counter, _entry_text(entry, now), order, limit)
        for order, entry in enumerate(readable_entries)
    ]
    return (
        SectionCandidates(
            "P3", "topics", single_item_groups(_topic_index_items(request, now)), cap=cap // INDEX_CAP_DIVISOR
        ),
        SectionCandidates("P3", "knowledge", single_item_groups(entries)),
        _dropped_entries(request, others, seen_ids, now),
    )


def _search_entries(request: PromptRequest, now: datetime) -> tuple[list[Entry], list[Entry], set[int]]:
    """What may stand, the best of what else bears on the request, and which of that the agent may read.

    One search of everything, whoever may read it. Where all it found may stand it has answered; else what may stand
    is looked for by itself, so that nothing crowds it out. Only what is shown or named is read whole.
    """
    text, is_shut_out = request.message.text, request.access.knowledge == "none"
    everything = replace(request.access, is_agent=False, knowledge="restricted")
    hit_ids = find_entry_ids(
        everything, text, most=MAX_LEFT_OUT if is_shut_out else MAX_ENTRIES + MAX_LEFT_OUT, now=now
    )
    usable = EntryScope(request.access, now)
    if hit_ids and not is_shut_out and len(usable.matching_ids(hit_ids)) == len(hit_ids):
        entries_by_id = usable.load(hit_ids[:MAX_ENTRIES])
        return [entries_by_id[pk] for pk in hit_ids if pk in entries_by_id], [], set(hit_ids)
    readable_entries = (
        [hit.entry for hit in find_entries(request.access, text, most=MAX_ENTRIES, now=now).hits] if hit_ids else []
    )
    shown_ids = {entry.pk for entry in readable_entries}
    others = [pk for pk in hit_ids if pk not in shown_ids][:MAX_LEFT_OUT]
    entries_by_id = EntryScope(everything, now, include_expired=True).load(others) if others else {}
    return (
        readable_entries,
        [entries_by_id[pk] for pk in others if pk in entries_by_id],
        readable_ids(request.access, others),
    )


# --- what is left out, and why ------------------------------------------------------------------------------
def _dropped_entries(
    request: PromptRequest, others: Sequence[Entry], seen_ids: Collection[int], now: datetime
) -> list[DroppedItem]:
    """Those that the agent may not read, or that have expired."""
    limit = request.budget.caps["P3"] or 0
    return [
        make_dropped(_entry_item(request.counter, _entry_text(entry, now), order, limit), reason)
        for order, entry in enumerate(others)
        if (reason := _drop_reason(request, entry, entry.pk in seen_ids, now)) is not None
    ]


def _drop_reason(request: PromptRequest, entry: Entry, is_seen: bool, now: datetime) -> DropReason | None:
    if not is_seen:
        is_shut_out = request.access.knowledge == "none" or (
            entry.visibility == Entry.Visibility.RESTRICTED and request.access.knowledge != "restricted"
        )
        return trust_drop_reason(request.agent.level) if is_shut_out else "private"
    if entry.has_expired(now) or entry.reason == Entry.Reason.EXPIRED:
        return "expired"
    return None


# --- items --------------------------------------------------------------------------------------------------
class EntryText(NamedTuple):
    """What an entry says: topic and content, secrets masked; who decided it, when (UTC), how fresh it is."""

    ref: str
    topic: str
    text: str
    kind: str
    decided_by: str
    decided: str
    freshness: str

    def block(self, text: str) -> str:
        """The entry as data, with `text` of its own."""
        return fence(
            "data",
            text,
            source="knowledge",
            ref=self.ref,
            kind=self.kind,
            decided_by=self.decided_by,
            decided=self.decided,
            freshness=self.freshness,
            trust="semi_trusted",
        )


def entry_block(entry: Entry, now: datetime) -> str:
    """An entry as prompts and tools show it, whole."""
    shown = _entry_text(entry, now)
    return shown.block(shown.text)


def _entry_text(entry: Entry, now: datetime) -> EntryText:
    return EntryText(
        ref=f"knowledge:{entry.pk}",
        topic=entry.topic,
        text=mask_secrets(f"{entry.topic}\n\n{entry.content}"),
        kind=entry.kind,
        decided_by=(entry.decided_by or entry.author).name,
        decided=format_minute(entry.decided_at or entry.created_at),
        freshness=compute_freshness(entry, now).words,
    )


@lru_cache(maxsize=4_096)
def _entry_item(counter: TokenCounter, entry: EntryText, order: int, limit: int) -> Item:
    return make_item(
        counter,
        section="knowledge",
        key=entry.ref,
        text=entry.block(truncate_middle(entry.text, limit, counter, _CUT_MARKER)),
        trust="semi_trusted",
        source=f"knowledge: {entry.topic}",
        author=entry.decided_by,
        ref=entry.ref,
        order=order,
    )


def _topic_index_items(request: PromptRequest, now: datetime) -> list[Item]:
    """Topics by kind, for shared and for restricted entries apart: not everybody may look at both."""
    rows = sorted(set(newest_topics(request.access, MAX_INDEX_TOPICS, now=now)))
    limit = (request.budget.caps["P3"] or 0) // INDEX_CAP_DIVISOR - 50
    return [
        _topic_index_item(request.counter, visibility, tuple((kind, topic) for _, kind, topic in group), limit)
        for visibility, group in groupby(rows, key=lambda row: row[0])
    ]


@lru_cache(maxsize=1_024)
def _topic_index_item(counter: TokenCounter, visibility: str, topics: tuple[tuple[str, str], ...], limit: int) -> Item:
    ref = f"topics:{visibility}"
    lines = [
        f"{Entry.Kind(kind).label}: {'; '.join(mask_secrets(topic) for _, topic in group)}"
        for kind, group in groupby(topics, key=lambda row: row[0])
    ]
    block = fence(
        "data",
        truncate_middle("\n".join(lines), max(limit, 40), counter, "\n…\n"),
        source="index of the workspace's knowledge",
        ref=ref,
        trust="semi_trusted",
    )
    return make_item(
        counter,
        section="topics",
        key=ref,
        text=block,
        trust="semi_trusted",
        source=f"index of {visibility} knowledge",
        ref=ref,
        order=0 if visibility == Entry.Visibility.SHARED else 1,
    )

"""Knowledge (P3): what the workspace knows and the agent may read, for the request; and an index of what else there is.

Which entries bear on the request is decided by `knowledge.search`, the same for page, API and prompt. What would have
borne on it but may not stand here is named among what was left out, with its reason.
"""

from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from django.db.models import OuterRef, QuerySet

from agents.assembler.items import (
    DroppedItem,
    DropReason,
    Item,
    SectionCandidates,
    format_minute,
    make_dropped,
    make_item,
    section_candidates,
    trust_drop_reason,
)
from agents.assembler.sections.request import PromptRequest, QueryScope
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
    request: PromptRequest, now: datetime
) -> tuple[SectionCandidates, SectionCandidates, list[DroppedItem]]:
    """The index, the entries for the request (the best first), and what bears on it but may not stand here.

    Entries that expired by `now` (UTC) are out, whether or not a job has marked them.
    """
    cap = request.budget.caps["P3"] or 0
    if cap == 0 or ANY_ENTRY.first(request.rows) is None:
        return section_candidates("topics", ()), section_candidates("knowledge", ()), []
    limit = int(cap * MAX_ENTRY_SHARE)
    readable_entries, others, seen_ids = _search_entries(request, now)
    entries = [
        _entry_item(request.counter, _entry_text(entry, now), order, limit)
        for order, entry in enumerate(readable_entries)
    ]
    dropped = [
        make_dropped(_entry_item(request.counter, _entry_text(entry, now), order, cap), reason)
        for order, entry in enumerate(others)
        if (reason := _drop_reason(request, entry, entry.pk in seen_ids, now)) is not None
    ]
    topic_cap = cap // INDEX_CAP_DIVISOR
    return (
        section_candidates("topics", _topic_index_items(request, now, topic_cap - 50), cap=topic_cap),
        section_candidates("knowledge", entries),
        dropped,
    )


def _search_entries(request: PromptRequest, now: datetime) -> tuple[list[Entry], list[Entry], set[int]]:
    """What may stand, the best of what else bears on the request, and which of that the agent may read.

    One search of everything, whoever may read it. Where all it found may stand it has answered; else what may stand
    is looked for by itself, so that nothing crowds it out. Only what is shown or named is read whole.
    """
    text, is_shut_out = request.message.text, request.access.knowledge == "none"
    everything = replace(request.access, is_agent=False, knowledge="restricted")
    most = MAX_LEFT_OUT if is_shut_out else MAX_ENTRIES + MAX_LEFT_OUT
    hit_ids = find_entry_ids(everything, text, most=most, now=now)
    usable = EntryScope(request.access, now)
    if hit_ids and not is_shut_out and len(usable.matching_ids(hit_ids)) == len(hit_ids):
        entries_by_id = usable.load(hit_ids[:MAX_ENTRIES])
        return [entries_by_id[pk] for pk in hit_ids if pk in entries_by_id], [], set(hit_ids)
    hits = find_entries(request.access, text, most=MAX_ENTRIES, now=now).hits if hit_ids else []
    readable_entries = [hit.entry for hit in hits]
    shown_ids = {entry.pk for entry in readable_entries}
    others = [pk for pk in hit_ids if pk not in shown_ids][:MAX_LEFT_OUT]
    entries_by_id = EntryScope(everything, now, include_expired=True).load(others) if others else {}
    return (
        readable_entries,
        [entries_by_id[pk] for pk in others if pk in entries_by_id],
        readable_ids(request.access, others),
    )


def _drop_reason(request: PromptRequest, entry: Entry, is_seen: bool, now: datetime) -> DropReason | None:
    if not is_seen:
        is_shut_out = request.access.knowledge == "none" or (
            entry.visibility == Entry.Visibility.RESTRICTED and request.access.knowledge != "restricted"
        )
        return trust_drop_reason(request.agent.level) if is_shut_out else "private"
    if entry.has_expired(now) or entry.reason == Entry.Reason.EXPIRED:
        return "expired"
    return None


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
    text = _entry_text(entry, now)
    return text.block(text.text)


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


def _topic_index_items(request: PromptRequest, now: datetime, limit: int) -> list[Item]:
    """Topics by kind, for shared and for restricted entries apart: not everybody may look at both."""
    rows = sorted(set(newest_topics(request.access, MAX_INDEX_TOPICS, now=now)))
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
        source="index of knowledge",
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

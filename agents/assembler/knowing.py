"""P3: what the workspace knows and the agent may read, for the request; and an index of what else there is.

Which entries bear on the request is decided by `knowledge.finding`, the same for page, API and prompt. What would have
borne on it but may not stand here is named among what was left out, with its reason.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import groupby

from agents.assembler.found import Found
from agents.assembler.gather import Scene, one_each
from agents.assembler.items import item
from agents.assembler.values import Dropped, DropReason, Item, Offer, drop, trust_reason
from agents.assembler.wording import knowledge_block, minute
from knowledge.finding import entries_bearing, find_entries
from knowledge.freshness import freshness
from knowledge.models import Entry
from knowledge.usable import Usable, newest_topics, readable
from openvibe.base.secrets import mask_secrets
from openvibe.llm.fences import fence
from openvibe.llm.tokens import TokenCounter, head_and_tail

MOST = 12
"""Entries that may stand in one prompt, as far as they fit."""

LEFT_OUT = 3
"""Entries that are named as left out."""

SHARE = 0.6
"""The most one entry may take of the layer's cap; a longer one keeps head and tail."""

INDEXED = 60
"""Entries whose topics the index names, the newest first."""

INDEX_SHARE = 5
"""The index takes at most one in so many tokens of the layer's cap."""

_CUT = "\n[… cut here: knowledge_search gives the whole entry …]\n"


def knowledge(scene: Scene, found: Found, now: datetime) -> tuple[Offer, Offer, list[Dropped]]:
    """The index, the entries for the request (the best first), and what bears on it but may not stand here.

    Entries that expired by `now` (UTC) are out, whether or not a job has marked them.
    """
    cap = scene.budget.caps["P3"] or 0
    if cap == 0 or not found.knows_anything:
        return Offer("P3", "topics", ()), Offer("P3", "knowledge", ()), []
    limit = int(cap * SHARE)
    standing, others, seen = _found(scene, now)
    entries = [_entry_item(scene.counter, _said(entry, now), order, limit) for order, entry in enumerate(standing)]
    return (
        Offer("P3", "topics", one_each(_index(scene, now)), cap=cap // INDEX_SHARE),
        Offer("P3", "knowledge", one_each(entries)),
        _left_out(scene, others, seen, now),
    )


def _found(scene: Scene, now: datetime) -> tuple[list[Entry], list[Entry], set[int]]:
    """What may stand, the best of what else bears on the request, and which of that the agent may read.

    One search of everything, whoever may read it. Where all it found may stand it has answered; else what may stand
    is looked for by itself, so that nothing crowds it out. Only what is shown or named is read whole.
    """
    text, is_shut_out = scene.asked.text, scene.access.knowledge == "none"
    everything = replace(scene.access, is_agent=False, knowledge="restricted")
    found = entries_bearing(everything, text, most=LEFT_OUT if is_shut_out else MOST + LEFT_OUT, now=now)
    usable = Usable(scene.access, now)
    if found and not is_shut_out and len(usable.ids(found)) == len(found):
        read = usable.whole(found[:MOST])
        return [read[pk] for pk in found if pk in read], [], set(found)
    standing = [hit.entry for hit in find_entries(scene.access, text, most=MOST, now=now).hits] if found else []
    stand = {entry.pk for entry in standing}
    others = [pk for pk in found if pk not in stand][:LEFT_OUT]
    read = Usable(everything, now, lapsed=True).whole(others) if others else {}
    return standing, [read[pk] for pk in others if pk in read], readable(scene.access, others)


# --- what is left out, and why ------------------------------------------------------------------------------
def _left_out(scene: Scene, others: Sequence[Entry], seen: Collection[int], now: datetime) -> list[Dropped]:
    """Those that the agent may not read, or that have expired."""
    limit = scene.budget.caps["P3"] or 0
    return [
        drop(_entry_item(scene.counter, _said(entry, now), order, limit), reason)
        for order, entry in enumerate(others)
        if (reason := _reason(scene, entry, entry.pk in seen, now)) is not None
    ]


def _reason(scene: Scene, entry: Entry, is_seen: bool, now: datetime) -> DropReason | None:
    if not is_seen:
        is_shut_out = scene.access.knowledge == "none" or (
            entry.visibility == Entry.Visibility.RESTRICTED and scene.access.knowledge != "restricted"
        )
        return trust_reason(scene.agent.level) if is_shut_out else "private"
    if entry.has_expired(now) or entry.reason == Entry.Reason.EXPIRED:
        return "expired"
    return None


# --- items --------------------------------------------------------------------------------------------------
Said = tuple[int, str, str, str, str, str, str]
"""What an entry says in a prompt: id, topic, content, kind, who decided, when, how fresh."""


def _said(entry: Entry, now: datetime) -> Said:
    decider = entry.decided_by or entry.author
    decided = minute(entry.decided_at or entry.created_at)
    return entry.pk, entry.topic, entry.content, entry.kind, decider.name, decided, freshness(entry, now).words


@lru_cache(maxsize=4_096)
def _entry_item(counter: TokenCounter, said: Said, order: int, limit: int) -> Item:
    pk, topic, content, kind, decided_by, decided, fresh = said
    ref = f"knowledge:{pk}"
    text = head_and_tail(mask_secrets(f"{topic}\n\n{content}"), limit, counter, _CUT)
    block = knowledge_block(pk, text, kind=kind, decided_by=decided_by, decided=decided, fresh=fresh)
    return item(
        counter,
        section="knowledge",
        key=ref,
        text=block,
        trust="semi_trusted",
        source=f"knowledge: {topic}",
        author=decided_by,
        ref=ref,
        order=order,
    )


def _index(scene: Scene, now: datetime) -> list[Item]:
    """Topics by kind, for shared and for restricted entries apart: not everybody may look at both."""
    rows = sorted(set(newest_topics(scene.access, INDEXED, now=now)))
    limit = (scene.budget.caps["P3"] or 0) // INDEX_SHARE - 50
    return [
        _index_item(scene.counter, visibility, tuple((kind, topic) for _, kind, topic in group), limit)
        for visibility, group in groupby(rows, key=lambda row: row[0])
    ]


@lru_cache(maxsize=1_024)
def _index_item(counter: TokenCounter, visibility: str, topics: tuple[tuple[str, str], ...], limit: int) -> Item:
    ref = f"topics:{visibility}"
    lines = [
        f"{Entry.Kind(kind).label}: {'; '.join(mask_secrets(topic) for _, topic in group)}"
        for kind, group in groupby(topics, key=lambda row: row[0])
    ]
    block = fence(
        "data",
        head_and_tail("\n".join(lines), max(limit, 40), counter, "\n…\n"),
        source="index of the workspace's knowledge",
        ref=ref,
        trust="semi_trusted",
    )
    return item(
        counter,
        section="topics",
        key=ref,
        text=block,
        trust="semi_trusted",
        source=f"index of {visibility} knowledge",
        ref=ref,
        order=0 if visibility == Entry.Visibility.SHARED else 1,
    )

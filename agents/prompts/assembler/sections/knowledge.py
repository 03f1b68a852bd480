"""Knowledge (P3): what the workspace knows and the agent may read, for the request; and an index of what else there is.

Which entries bear on the request, in a thread about this, is decided by `knowledge.search`, the same for page, API and
prompt. What would have borne on it but may not stand here, or says the same as an entry that does, is named among what
was left out, with its reason.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.db.models.functions import Left

from agents.prompts.assembler.items import (
    DroppedItem,
    DropReason,
    Item,
    SectionCandidates,
    format_minute,
    make_dropped_item,
    make_item,
    section_candidates,
    trust_drop_reason,
)
from agents.prompts.assembler.sections.request import PromptRequest
from agents.prompts.assembler.sections.work import open_work
from knowledge.models import Entry
from knowledge.queries import (
    CandidateEntry,
    EntryTopic,
    Freshness,
    NearCopy,
    Subject,
    compute_freshness,
    find_usable_entries,
    newest_topics,
)
from memory.queries import messages_for_prompts
from openvibe.chat.models import Message
from openvibe.chat.queries import AccessQuery
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.tokens import TokenCounter, truncate_middle
from openvibe.engines.llm.transcripts import message_line, one_line
from openvibe.engines.text.cleaning import pluralize
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.access import Access

MAX_ENTRIES = 12
"""Entries that may stand in one prompt, as far as they fit."""

RECENT_MESSAGES, MAX_RECENT_CHARACTERS = 4, 400
"""Messages before the request whose words say what the thread is about, and what is read of each."""

SUBJECT_KINDS = (Message.Kind.TEXT, Message.Kind.DIVE_RESULT)

MAX_LEFT_OUT = 3
"""Entries that are named as left out."""

MAX_ENTRY_SHARE = 0.6
"""The most one entry may take of the layer's cap; a longer one keeps head and tail."""

MAX_INDEX_TOPICS = 60
"""Entries whose topics the index names, the newest first."""

INDEX_CAP_DIVISOR = 5
"""The index takes at most one in so many tokens of the layer's cap."""

RESTRICTED_INDEX = f"topics:{Entry.Visibility.RESTRICTED.value}"
"""The key of the index of restricted entries."""

_CUT_MARKER = "\n[… cut here: knowledge_search gives the whole entry …]\n"
_PLAIN_CUT_MARKER = "\n[… the middle was cut here …]\n"


@CompiledQuery
def _any_entry(workspace_id: int) -> QuerySet[Any, Any]:
    """One entry of the workspace. Its order is that of an index: without one, PostgreSQL expects to meet an entry soon
    and reads the entries of all others where this workspace has none."""
    return Entry.objects.filter(workspace=workspace_id).order_by("status", "-id").values_list("pk")[:1]


@AccessQuery
def _recent_messages(access: Access, thread_id: int, end_seq: int) -> QuerySet[Any, Any]:
    """The beginnings of the newest messages before the request."""
    recent_messages = messages_for_prompts(access, thread=thread_id, seq__lt=end_seq, kind__in=SUBJECT_KINDS)
    starts = recent_messages.annotate(start=Left("body", MAX_RECENT_CHARACTERS)).values_list("start")
    return starts.order_by("-seq")[:RECENT_MESSAGES]


def knowledge_candidates(
    request: PromptRequest, now: datetime
) -> tuple[SectionCandidates, SectionCandidates, list[DroppedItem]]:
    """The index, the entries for the request (the best first), and what bears on it but may not stand here.

    Entries that expired by `now` (UTC) are out, whether or not a job has marked them.
    """
    cap = request.budget.caps["P3"] or 0
    if cap == 0 or not _any_entry.rows(request.access.workspace_id):
        return section_candidates("topics", ()), section_candidates("knowledge", ()), []
    limit = int(cap * MAX_ENTRY_SHARE)
    hits, unusable = find_usable_entries(
        request.access,
        _request_text(request),
        subject=_subject(request),
        most=MAX_ENTRIES,
        most_unusable=MAX_LEFT_OUT,
        now=now,
    )
    cut_marker = _CUT_MARKER if request.thread.allows_tool("knowledge_search") else _PLAIN_CUT_MARKER
    entries = [
        _entry_item(request.counter, _entry_text(hit.entry, now), order, limit, cut_marker)
        for order, hit in enumerate(hits)
    ]
    dropped_items = [_dropped_entry(entry, _drop_reason(request, entry), entry.decided_by) for entry in unusable]
    dropped_items += [_dropped_entry(copy, "near copy") for hit in hits for copy in hit.copies]
    topic_cap = cap // INDEX_CAP_DIVISOR
    topics, left_out_topics = _topic_index_items(request, now, topic_cap - 50)
    return (
        section_candidates("topics", topics, cap=topic_cap),
        section_candidates("knowledge", entries),
        [*dropped_items, *left_out_topics],
    )


def _request_text(request: PromptRequest) -> str:
    """What is asked, without the name of who is asked."""
    return re.sub(rf"@{re.escape(request.agent.handle)}\b", " ", request.message.text, flags=re.IGNORECASE)


def _subject(request: PromptRequest) -> Subject:
    """What the thread is about: its title and objective, and what was said last."""
    objectives = [item.text for item in open_work(request) if item.kind == "objective"]
    recent_starts = _recent_messages.rows(request.access, request.thread.thread_id, request.end_seq)
    return Subject(
        about="\n".join([request.thread.title, *objectives]), recent="\n".join(start for (start,) in recent_starts)
    )


def _dropped_entry(entry: NearCopy | CandidateEntry, reason: DropReason, author: str = "") -> DroppedItem:
    key = f"knowledge:{entry.pk}"
    return DroppedItem(key, "P3", "knowledge", f"knowledge: {entry.topic}", author, entry.tokens, reason)


def _drop_reason(request: PromptRequest, entry: CandidateEntry) -> DropReason:
    if entry.is_known:
        return "not for everybody here" if entry.holds else "expired"
    is_shut_out = request.access.knowledge == "none" or not (
        entry.is_shared or request.access.knowledge == "restricted"
    )
    return trust_drop_reason(request.agent.level) if is_shut_out else "private"


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


def entry_line(entry: Entry, now: datetime, near_copies: int = 0) -> str:
    """An entry as tools show it, whole, as a line of a transcript, with how many others say the same."""
    text = _entry_text(entry, now)
    copies = pluralize(near_copies, "near copy", "near copies") if near_copies else ""
    note = ", ".join(filter(None, (text.kind, f"decided {text.decided}", text.freshness, copies)))
    return message_line(text.ref, text.decided_by, text.text, note=note)


def _entry_text(entry: Entry, now: datetime) -> EntryText:
    return EntryText(
        ref=f"knowledge:{entry.pk}",
        topic=entry.topic,
        text=mask_secrets(f"{one_line(entry.topic)}\n\n{entry.content}"),
        kind=entry.kind,
        decided_by=(entry.decided_by or entry.author).label,
        decided=format_minute(entry.decided_at or entry.created_at),
        freshness=_freshness_text(compute_freshness(entry, now)),
    )


def _freshness_text(freshness: Freshness) -> str:
    """The words of the freshness, with the day in place of a span that is another one tomorrow: dates have one form in
    prompts."""
    if freshness.at is None or freshness.state not in ("fresh", "expiring", "expired"):
        return freshness.words
    return f"{'expired' if freshness.state == 'expired' else 'expires'} {freshness.at:%Y-%m-%d}"


@lru_cache(maxsize=4_096)
def _entry_item(counter: TokenCounter, entry: EntryText, order: int, limit: int, cut_marker: str) -> Item:
    return make_item(
        counter,
        section="knowledge",
        key=entry.ref,
        text=entry.block(truncate_middle(entry.text, limit, counter, cut_marker)),
        trust="semi_trusted",
        source=f"knowledge: {entry.topic}",
        author=entry.decided_by,
        ref=entry.ref,
        order=order,
    )


def _topic_index_items(request: PromptRequest, now: datetime, limit: int) -> tuple[list[Item], list[DroppedItem]]:
    """Topics by kind, for shared and for restricted entries apart: not everybody may look at both. What of them is left
    out because of who reads the answer is one item."""
    rows = newest_topics(request.access, MAX_INDEX_TOPICS, now=now)
    known_rows = rows
    if request.access.shut_out:
        known_rows = newest_topics(request.access.shown_to(""), MAX_INDEX_TOPICS, now=now)
    lines = set(map(_index_line, rows))
    left_out = _index_items_of(request.counter, (row for row in known_rows if _index_line(row) not in lines), limit)
    return _index_items_of(request.counter, rows, limit), [
        make_dropped_item(item, "not for everybody here") for item in left_out if item.key == RESTRICTED_INDEX
    ]


def _index_line(row: EntryTopic) -> tuple[str, str, str]:
    """What stands there once, of however many entries."""
    return row.visibility, row.kind, row.topic


def _index_items_of(counter: TokenCounter, rows: Iterable[EntryTopic], limit: int) -> list[Item]:
    """An item for each visibility, which knows the entries that it names."""
    items = []
    for visibility, group in groupby(sorted(rows), key=lambda row: row.visibility):
        entries = list(group)
        topics = tuple(dict.fromkeys((row.kind, row.topic) for row in entries))
        origins = " ".join(f"knowledge:{row.entry_id}" for row in entries)
        items.append(replace(_topic_index_item(counter, visibility, topics, limit), origins=origins))
    return items


@lru_cache(maxsize=1_024)
def _topic_index_item(counter: TokenCounter, visibility: str, topics: tuple[tuple[str, str], ...], limit: int) -> Item:
    ref = f"topics:{visibility}"
    lines = [
        f"{Entry.Kind(kind).label}: {'; '.join(one_line(mask_secrets(topic)) for _, topic in group)}"
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

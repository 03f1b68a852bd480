"""Keeping what an answer cites: found when its run ends, taken away with what it tells of."""

from collections.abc import Collection

from django.db.models import Q

from agents.agent.models import Citation, Run
from agents.prompts.answer_sources import find_sources
from agents.prompts.citations.find import Citable, find_citations
from agents.prompts.citations.sources import RunSources, read_sources
from openvibe.chat.wiring import ErasedText
from openvibe.engines.database.compiled_queries import array_literal
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.text.html_links import linkable_texts
from openvibe.engines.text.markdown import render_markdown

MAX_UNNAMED = 5
"""What an answer repeats without naming it, at most."""


def save_citations(run: Run, body: str) -> int:
    """Finds what the run's answer cites of what the run was shown, and keeps it in place of what was found before; how
    many. In the transaction that ends the run."""
    Citation.objects.filter(run=run).delete()
    shown = read_sources(run) if body.strip() else RunSources()
    if not shown.citables:
        return 0
    texts = linkable_texts(render_markdown(body))
    rows = [
        _row(run, found.cited, found.item_key, found.words, found.occurrence)
        for found in find_citations(texts, shown.citables.values())
    ]
    rows = _with_targets([*rows, *_unnamed(run, body, shown, {(row.kind, row.ref) for row in rows})])
    for position, row in enumerate(rows):
        row.position = position
    Citation.objects.bulk_create(rows)
    return len(rows)


def _row(run: Run, cited: Citable, item_key: str, words: str = "", occurrence: int = 0) -> Citation:
    return Citation(
        run=run,
        words=words,
        occurrence=occurrence,
        kind=cited.kind,
        message_id=cited.ref if cited.kind == "message" else cited.message_id,
        entry_id=cited.ref if cited.kind == "knowledge" else None,
        ref=cited.ref,
        item_key=item_key if len(item_key) <= MAX_KEY_CHARACTERS else "",
    )


MAX_KEY_CHARACTERS = 100


def _unnamed(run: Run, body: str, shown: RunSources, named: Collection[tuple[str, int]]) -> list[Citation]:
    """What the answer repeats word for word and does not name, the longest passages first; not what the agent said
    itself."""
    passages = find_sources(body, [text for _, text, _ in shown.texts], shown.own_places)
    rows: dict[tuple[str, int], Citation] = {}
    for passage in passages:
        cited, _, item_key = shown.texts[passage.place]
        key = (cited.kind, cited.ref)
        if passage.is_exact and passage.place not in shown.own_places and key not in named:
            rows.setdefault(key, _row(run, cited, item_key))
    return list(rows.values())[:MAX_UNNAMED]


# What goes while the run ends is waited for, or is not cited: a foreign key is checked only as the run's end is kept.
_HELD_MESSAGES = (
    "SELECT id FROM chat_message WHERE id = ANY(%s::bigint[]) AND deleted_at IS NULL ORDER BY id FOR KEY SHARE"
)
_HELD_ENTRIES = "SELECT id FROM knowledge_entry WHERE id = ANY(%s::bigint[]) ORDER BY id FOR KEY SHARE"


def _with_targets(rows: list[Citation]) -> list[Citation]:
    """The rows whose message or entry is still there. One query for each of the two."""
    messages = {row.message_id for row in rows if row.message_id is not None}
    entries = {row.entry_id for row in rows if row.entry_id is not None}
    held_messages = _held(_HELD_MESSAGES, messages)
    held_entries = _held(_HELD_ENTRIES, entries)
    return [
        row
        for row in rows
        if (row.message_id is None or row.message_id in held_messages)
        and (row.entry_id is None or row.entry_id in held_entries)
    ]


def _held(statement: str, ids: Collection[int]) -> set[int]:
    return {pk for (pk,) in fetch_prepared(statement, [array_literal(ids)])} if ids else set()


def forget_citations(*, message_id: int, body: str, is_deleted: bool) -> None:
    """What a deleted message cited, and what cited it or its files, is text from then on. What an edited answer cites
    is found anew."""
    if is_deleted:
        Citation.objects.filter(Q(run__reply=message_id) | Q(message=message_id)).delete()
        return
    runs = Run.objects.select_related("agent").filter(reply=message_id, snapshot__content__isnull=False)
    run = runs.first()
    if run is not None and run.is_over:
        save_citations(run, body)


def erase_citations_quoting(erased: ErasedText) -> int:
    """Takes away the citations whose words repeat the text; how many rows. The answer keeps its words until its author
    or an admin deletes it."""
    in_runs = Q(run__thread=erased.thread_id) | Q(run__thread__dive__source=erased.message_id)
    rows = Citation.objects.filter(in_runs, run__reply__created_at__gte=erased.quotable_since).exclude(words="")
    texts = rows.values_list("pk", "words").iterator(chunk_size=500)
    quoting = [pk for pk, words in texts if erased.quotation.is_in(words)]
    count, _ = Citation.objects.filter(pk__in=quoting).delete()
    return count

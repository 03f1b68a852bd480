"""Taking erased knowledge out of what was stored of it. Tool calls lose it at once; kept answers of the API and stored
prompts, of which there may be very many, by a job, and nobody is shown what prompts say of it until then."""

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from html import escape
from typing import Any

import structlog
from django.db import transaction
from django.utils import timezone

from agents.agent.models import (
    Citation,
    EntryErasure,
    KnowledgeUse,
    Permission,
    Run,
    RunStep,
    Snapshot,
    ToolCall,
    ToolSource,
)
from agents.prompts.snapshots.content import UnreadableContent, unpack_text
from agents.prompts.snapshots.store import rewrite_snapshot
from knowledge.models import Entry
from openvibe.api.idempotency import rewrite_answers
from openvibe.base.quotation import Quotation, quotable_since
from openvibe.engines.llm.fences import escape_text
from openvibe.engines.text.masking import mask_secrets

SETTLING_TIME = timedelta(seconds=20)
"""How long passes go on at least: by then every prompt that was being made of the entry is stored."""

FIRST_PASSES = timedelta(minutes=2)
"""How long every pass looks through all stored prompts; later only the last one does, however long a run goes on."""

IDLE_STATES = (*Run.FINISHED_STATES, Run.State.QUEUED, Run.State.WAITING)
"""States of runs that store no prompt which was made before."""

log = structlog.get_logger(__name__)


def begin_entry_erasure(entry: Entry, topics: Collection[str]) -> None:
    """Empty the calls that looked the entry up, and ask for stored prompts to lose it, in the transaction that erases
    it. `topics`: all that it was ever called."""
    _erase_calls(entry.pk)
    ToolCall.objects.filter(run__workspace=entry.workspace_id).erase_provider_fields()
    _erase_steps(entry.pk)
    EntryErasure.objects.create(entry=entry, topics=json.dumps(sorted(topics), ensure_ascii=False))


def erase_entries(now: datetime | None = None) -> int:
    """A pass over every erasure there is; how many. Several workers may do this at once."""
    pending = list(EntryErasure.objects.values_list("pk", flat=True))
    for pk in pending:
        try:
            _erase_once(pk, now or timezone.now())
        except Exception:
            log.exception("entry_not_erased", erasure=pk)  # tried again in the next pass
    return len(pending)


@transaction.atomic
def _erase_once(pk: int, now: datetime) -> None:
    rows = EntryErasure.objects.select_for_update(of=("self",), skip_locked=True)
    erasure = rows.select_related("entry").filter(pk=pk).first()
    if erasure is None:
        return
    entry = erasure.entry
    began_before = Run.objects.filter(workspace=entry.workspace_id, started_at__lte=erasure.created_at)
    age = now - erasure.created_at
    is_last = age >= SETTLING_TIME and not began_before.exclude(state__in=IDLE_STATES).exists()
    if age > FIRST_PASSES and not is_last:
        return
    _erase_calls(entry.pk)
    _erase_steps(entry.pk)
    _erase_from_prompts(entry, json.loads(erasure.topics))
    _erase_from_answers(entry)
    if is_last:
        erasure.delete()


def _erase_calls(entry_id: int) -> None:
    calls = ToolCall.objects.filter(pk__in=_calls_about(entry_id)).exclude(arguments="", why="", result="")
    calls.update(arguments="", why="", result="")


def _erase_steps(entry_id: int) -> None:
    """What runs that had the entry thought and reported may tell of it, and the words by which answers cite it."""
    Citation.objects.filter(entry=entry_id).delete()
    runs = KnowledgeUse.objects.filter(entry=entry_id).values("run")
    RunStep.objects.filter(run__in=runs).forget()
    Permission.objects.filter(run__in=runs).forget()


def _calls_about(entry_id: int) -> list[int]:
    sources = ToolSource.objects.filter(kind=ToolSource.Kind.ENTRY, ref=entry_id)
    return list(sources.values_list("call_id", flat=True))


def _erase_from_prompts(entry: Entry, topics: Collection[str]) -> None:
    """Prompts stored since the entry was made say it no more, neither as an item nor by one of the `topics`, in the
    index of topics. Unpacks every one of them, a tenth of a millisecond each."""
    keys = {f"knowledge:{entry.pk}", *(f"observation:{pk}" for pk in _calls_about(entry.pk))}
    masked = [mask_secrets(topic) for topic in topics]
    names = {*map(escape_text, masked), *(escape(topic, quote=False) for topic in masked)}  # as prompts stood before

    def tells(item: Mapping[str, Any]) -> bool:
        return item["key"] in keys or (item["section"] == "topics" and any(name in item["text"] for name in names))

    marks = [json.dumps(text, ensure_ascii=False)[1:-1] for text in keys | names]
    is_named = re.compile("|".join(map(re.escape, marks)).encode()).search
    stored = Snapshot.objects.written_since(quotable_since(entry.created_at)).filter(run__workspace=entry.workspace_id)
    packed = stored.filter(content__isnull=False).values_list("pk", "content").iterator(100)

    def may_name(content: bytes | memoryview) -> bool:
        try:
            return is_named(unpack_text(content)) is not None
        except UnreadableContent:
            return True  # nobody knows

    named_ids = [pk for pk, content in packed if may_name(content or b"")]
    rows = Snapshot.objects.select_for_update(of=("self",)).filter(pk__in=named_ids, content__isnull=False)
    for snapshot in rows.order_by("pk").iterator(chunk_size=20):
        rewrite_snapshot(snapshot, tells, Quotation(()), named=keys)


def _erase_from_answers(entry: Entry) -> None:
    """Answers that are kept for repeated API calls show the entry as it is now."""

    def rewrite(value: Any) -> Any:
        if isinstance(value, dict):
            value = {name: rewrite(inner) for name, inner in value.items()}
            shows_entry = value.get("id") == entry.pk and {"topic", "content"} <= value.keys()
            return {**value, "topic": entry.topic, "content": entry.content} if shows_entry else value
        return [rewrite(inner) for inner in value] if isinstance(value, list) else value

    rewrite_answers(workspace_id=entry.workspace_id, since=quotable_since(entry.created_at), rewrite=rewrite)


def erased_entry_keys(workspace_id: int) -> set[str]:
    """Keys of items that nobody may be shown while their entries leave the stored prompts: the entries, what tools
    answered of them, and every index of topics. One query, two while there are such."""
    entries = set(EntryErasure.objects.filter(entry__workspace=workspace_id).values_list("entry", flat=True))
    if not entries:
        return set()
    calls = ToolSource.objects.filter(kind=ToolSource.Kind.ENTRY, ref__in=entries).values_list("call", flat=True)
    indexes = {"topics:shared", "topics:restricted"}
    return {*(f"knowledge:{pk}" for pk in entries), *(f"observation:{pk}" for pk in calls), *indexes}

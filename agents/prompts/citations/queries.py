"""Reading what answers cite, each citation for whom may see what is cited."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse

from agents.agent.models import Citation as CitationRow
from agents.agent.models import Snapshot
from knowledge.queries import accessible_entries
from memory.queries import visible_work_items
from openvibe.chat.queries import file_name, image_name, is_message_seen
from openvibe.chat.wiring import Citation
from openvibe.workspaces.access import Access

Kind = CitationRow.Kind
_COLUMNS = (
    *("run__reply", "run", "words", "occurrence", "kind", "ref", "item_key", "is_kept"),
    *("run__workspace__slug", "message__seq", "author", "entry__topic", "file_name", "image_name", "work_text"),
)
MAX_LABEL = 60
"""Characters of what is cited without being named."""


def read_citations(ids: Sequence[int], access: Access) -> dict[int, tuple[Citation, ...]]:
    """What these answers cite, by message id, in the order in which it stands in them: only what the asker may see now,
    as what does not exist any more is missing. One query."""
    citations: dict[int, list[Citation]] = defaultdict(list)
    for reply_id, *values in _rows(ids, access):
        citations[reply_id].append(_citation(*values))
    return {pk: tuple(rows) for pk, rows in citations.items()}


def _rows(ids: Sequence[int], access: Access) -> QuerySet[Any, Any]:
    kept = Snapshot.objects.filter(run=OuterRef("run"), content__isnull=False).order_by()
    work = visible_work_items(access).filter(pk=OuterRef("ref")).exclude(message__deleted_at__isnull=False).order_by()
    rows = CitationRow.objects.filter(run__reply__in=ids).annotate(
        is_kept=Exists(kept),
        author=Coalesce("message__author__label", "entry__author__label"),
        file_name=file_name("message", "ref"),
        image_name=image_name("message", "ref"),
        work_text=Subquery(work.values("text")[:1]),
    )
    return rows.filter(_is_seen(access)).order_by("run", "position").values_list(*_COLUMNS)


def _is_seen(access: Access) -> Q:
    """What stands in the answer's own thread is seen by every person who sees the answer, whoever it is."""
    is_seen = Q(is_message_seen(access))
    if not access.is_agent:
        is_seen |= Q(message__thread=F("run__thread"))
    entries = accessible_entries(access).filter(pk=OuterRef("entry")).order_by()
    has_message = Q(is_seen, message__deleted_at=None)
    return (
        Q(has_message, kind=Kind.MESSAGE)
        | Q(has_message, kind=Kind.FILE, file_name__isnull=False)
        | Q(has_message, kind=Kind.IMAGE, image_name__isnull=False)
        | Q(Exists(entries), kind=Kind.KNOWLEDGE)
        | Q(kind=Kind.WORK, work_text__isnull=False)
    )


_PAGES: Mapping[str, str] = {
    Kind.MESSAGE: "message",
    Kind.KNOWLEDGE: "knowledge-entry",
    Kind.FILE: "attachment-text",
    Kind.IMAGE: "image",
}
"""Names of the pages of what is cited; a row of work is shown in the prompt."""


def _citation(
    run_id: int,
    words: str,
    occurrence: int,
    kind: str,
    ref: int,
    item_key: str,
    is_kept: bool,
    slug: str,
    seq: int | None,
    author: str | None,
    topic: str | None,
    file_name: str | None,
    image_name: str | None,
    work_text: str | None,
) -> Citation:
    labels = {
        Kind.MESSAGE: f"message {seq}",
        Kind.KNOWLEDGE: topic,
        Kind.FILE: file_name,
        Kind.IMAGE: image_name,
        Kind.WORK: " ".join((work_text or "").split())[:MAX_LABEL],
    }
    shows_item, context = is_kept and item_key, reverse("run-context", args=[slug, run_id])
    return Citation(
        words=words,
        occurrence=occurrence,
        kind=kind,
        ref=ref,
        label=labels[Kind(kind)] or kind,
        author=author or "",
        path=reverse(_PAGES[kind], args=[slug, ref]) if kind in _PAGES else context,
        context_path=f"{context}#{item_anchor(item_key)}" if shows_item else "",
    )


def item_anchor(key: str) -> str:
    """The id of an item of a prompt on the page that shows the prompt."""
    return f"item-{key.replace(':', '-')}"

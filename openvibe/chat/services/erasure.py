"""The erasure of what was deleted or replaced from all that was stored of it, and a record of who else still says it.

A pass rewrites stored prompts, answers and the like. Passes go on until whatever was being written at that moment (a
reply, a call under way) has ended, so that nothing slips in behind them; then the words themselves are forgotten."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from openvibe.api.idempotency import rewrite_answers
from openvibe.base.problems import Missing
from openvibe.base.quotation import Quotation, quotable_since
from openvibe.chat.models import Attachment, Erasure, Image, Message, Quote
from openvibe.chat.wiring import QUOTE_KINDS, TEXT_ERASERS, ErasedText, QuoteKind, TextEraser, find_quotes
from openvibe.workspaces.access import Access

SETTLING_TIME = timedelta(seconds=20)
"""How long passes go on at least: every call that had read the text has ended by then, or is a reply being written."""

log = structlog.get_logger(__name__)

ERASED_TEXT = "[This text was deleted or changed since.]"


def begin_erasure(message: Message, *, texts: Iterable[str], by: Access) -> None:
    """Asks for a message's former words to be erased, in the transaction that deletes or edits it."""
    words = json.dumps(list(dict.fromkeys(filter(None, texts))), ensure_ascii=False)
    Erasure.objects.create(message=message, by_id=by.participant_id, is_deletion=message.is_deleted, texts=words)


def erase_texts(now: datetime | None = None) -> int:
    """A pass over every erasure that is not finished; how many there were. Several workers may do this at once."""
    pending = list(Erasure.objects.filter(finished_at=None).order_by("pk").values_list("pk", flat=True))
    for pk in pending:
        try:
            _erase_once(pk, now or timezone.now())
        except Exception:
            log.exception("texts_not_erased", erasure=pk)  # tried again in the next pass; the others do not wait for it
    return len(pending)


@transaction.atomic
def _erase_once(pk: int, now: datetime) -> None:
    rows = Erasure.objects.select_for_update(of=("self",), skip_locked=True).filter(finished_at=None)
    erasure = rows.select_related("message__thread").defer("texts").filter(pk=pk).first()
    if erasure is not None:
        _erase(erasure, now)


def _erase(erasure: Erasure, now: datetime) -> None:
    message = erasure.message
    is_last = now - erasure.created_at >= SETTLING_TIME and not _is_being_written(erasure)
    quotation = erasure.quotation()
    erased = ErasedText(
        message_id=message.pk,
        thread_id=message.thread_id,
        workspace_id=message.thread.workspace_id,
        seq=message.seq,
        quotable_since=quotable_since(message.created_at),
        erased_at=erasure.created_at,
        quotation=quotation,
    )
    for eraser in (ANSWERS, *TEXT_ERASERS):
        if count := eraser.erase(erased):
            erasure.counts[eraser.name] = erasure.counts.get(eraser.name, 0) + count
    if erasure.is_deletion:
        record_quotes(message, quotation)
    if is_last:
        erasure.texts, erasure.finished_at = "", now
        erasure.save(update_fields=["texts", "finished_at"])
    erasure.save(update_fields=["counts"])


def _is_being_written(erasure: Erasure) -> bool:
    """Whether an agent that may have read the text has not ended its answer yet."""
    message = erasure.message
    threads = Q(thread=message.thread_id) | Q(thread__dive__source=message.pk)
    replies = Message.objects.filter(threads, state=Message.State.WRITING, created_at__lte=erasure.created_at)
    return replies.exists()


def _rewrite_kept_answers(erased: ErasedText) -> int:
    former_files: dict[str, Any] = {
        name: []
        for name, model in (("attachments", Attachment), ("images", Image))
        if not model._default_manager.filter(message=erased.message_id).exists()
    }

    def rewrite(value: Any) -> Any:
        if isinstance(value, Mapping):
            is_message = value.get("id") == erased.message_id and value.get("thread") == erased.thread_id
            former = {"body": ERASED_TEXT if value.get("body") else "", **former_files} if is_message else {}
            return {key: former[key] if key in former else rewrite(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [rewrite(inner) for inner in value]
        return ERASED_TEXT if isinstance(value, str) and erased.quotation.is_in(value) else value

    return rewrite_answers(workspace_id=erased.workspace_id, since=erased.quotable_since, rewrite=rewrite)


ANSWERS = TextEraser("answers kept for repeated API calls", _rewrite_kept_answers)


def record_quotes(message: Message, quotation: Quotation) -> None:
    """Stores who repeats the deleted message; found twice it is stored once."""
    Quote.objects.bulk_create(find_quotes(message, quotation), ignore_conflicts=True)


def quote_kind(name: str) -> QuoteKind:
    """Raises Missing for a kind that there is none of."""
    kind = next((kind for kind in QUOTE_KINDS if kind.name == name), None)
    if kind is None:
        raise Missing
    return kind


@transaction.atomic
def erase_quote(*, quote: Quote, by: Access) -> None:
    """Deletes what repeats the message, where the asker may. Raises what the service of that text does."""
    quote_kind(quote.kind).erase(quote.ref, by)
    Quote.objects.filter(message=quote.message_id, kind=quote.kind, ref=quote.ref).delete()


def keep_quote(*, quote: Quote) -> None:
    """Keeps the quote: its owner says that it stays, and nobody is reminded of it any more."""
    Quote.objects.filter(pk=quote.pk, kept_at=None).update(kept_at=timezone.now())

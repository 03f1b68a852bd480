"""Asking for a compaction: a row in the caller's transaction. Doors and receivers send it to a worker."""

from __future__ import annotations

from typing import Final

from django.db import IntegrityError, transaction

from memory.models import Compaction
from memory.providers.base import Compactor, Rebuilder
from memory.providers.budgets import context_budget
from memory.providers.registry import enabled_name, provider_for
from memory.services.compaction.viewpoint import session_on
from openvibe.base.problems import Conflict, Refused
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access

WAITING: Final = (Compaction.State.QUEUED, Compaction.State.RUNNING)


def request_compaction(
    *, thread: Thread, trigger: str, full: bool = False, by: Access | None = None
) -> Compaction | None:
    """The new row, for the caller to send to a worker; None when one is waiting or running already.

    A full one asked for by hand takes the place of one that waits: that row is returned. Where nothing can be
    compacted (people only, a plugin without summaries), asking by hand raises Refused and a trigger gets None.
    Guests may not ask: a model's answer costs the workspace. Asking by hand raises Conflict (`nothing_new`) where
    nothing was said since the last one that went as far.
    """
    by_hand = trigger == Compaction.Trigger.HAND
    if by_hand and by is not None and by.is_guest:
        raise Refused("Guests cannot ask for a compaction. A member can.")
    reason = why_not(thread)
    if reason is not None:
        if by_hand:
            raise Refused(reason, code="cannot_compact")
        return None
    with transaction.atomic():
        waiting = Compaction.objects.select_for_update().filter(thread=thread, state__in=WAITING).first()
        if waiting is None:
            if by_hand:
                _refuse_the_same_again(thread, full)
            return _new(thread, trigger, full, by)
        if not (by_hand and full) or waiting.full or waiting.state != Compaction.State.QUEUED:
            return None
        waiting.full, waiting.trigger = True, trigger
        waiting.requested_by_id = by.participant_id if by else None
        waiting.save(update_fields=["full", "trigger", "requested_by"])
        return waiting


def waiting_compaction(thread: Thread) -> Compaction | None:
    """The one that waits or is being carried out, if any."""
    return Compaction.objects.filter(thread=thread, state__in=WAITING).first()


def why_not(thread: Thread) -> str | None:
    """Why this thread is never compacted, as a sentence for people; None when it can be."""
    if thread.access == Thread.Access.HUMAN_ONLY:
        return "This thread is for people only. No agent reads it, so nothing of it is summarised."
    if not isinstance(provider_for(thread.workspace_id), Compactor):
        name = enabled_name(thread.workspace_id)
        return f"The memory plugin {name} makes no summaries, so there is nothing to compact."
    return None


def _refuse_the_same_again(thread: Thread, full: bool) -> None:
    """What was compacted is not compacted anew, unless a message or what prompts may hold was changed meanwhile."""
    last = Compaction.objects.filter(thread=thread).exclude(state__in=WAITING).first()
    if last is None or last.state == Compaction.State.FAILED or last.trigger == Compaction.Trigger.CHANGED:
        return
    went_as_far = last.plugin == enabled_name(thread.workspace_id) and last.full >= full
    if went_as_far and not _was_said_since(thread, last) and not _is_due(thread):
        further = "" if last.full else " “Compact everything” goes further."
        raise Conflict(
            f"Nothing was said since the last compaction, so there is nothing new.{further}", code="nothing_new"
        )


def _was_said_since(thread: Thread, last: Compaction) -> bool:
    """Whether a message came after it, or while it was carried out: it may not have seen that one."""
    newest = Message.objects.filter(thread=thread).order_by("-seq").values_list("seq", "created_at").first()
    if newest is None:
        return False
    seq, said_at = newest
    return seq > last.at_seq or (last.started_at is not None and said_at > last.started_at)


def _is_due(thread: Thread) -> bool:
    provider, session = provider_for(thread.workspace_id), session_on(thread)
    if session is None or not isinstance(provider, Compactor):
        return False
    return provider.needs_compaction(session, context_budget(thread))


def _new(thread: Thread, trigger: str, full: bool, by: Access | None) -> Compaction | None:
    try:
        with transaction.atomic():
            return Compaction.objects.create(
                thread=thread,
                plugin=enabled_name(thread.workspace_id),
                trigger=trigger,
                full=full,
                requested_by_id=by.participant_id if by else None,
            )
    except IntegrityError:  # somebody else asked in the same moment
        return None


def request_if_due(*, thread: Thread) -> Compaction | None:
    """Ask for a compaction when the conversation has grown past its threshold and something can be summarised."""
    if not _is_due(thread):
        return None
    return request_compaction(thread=thread, trigger=Compaction.Trigger.THRESHOLD)


def request_rebuilding(*, message: Message) -> Compaction | None:
    """Ask for the summaries to be written anew that stand for this message, if any does."""
    provider = provider_for(message.thread.workspace_id)
    if not isinstance(provider, Rebuilder) or not provider.holds(message.pk):
        return None
    return request_compaction(thread=message.thread, trigger=Compaction.Trigger.CHANGED)

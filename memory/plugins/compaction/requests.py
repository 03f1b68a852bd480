"""Requesting a compaction: a row in the caller's transaction. Views and receivers enqueue it for a worker.
Where compaction pauses for its endpoint, it is resumed once that is well again."""

from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from memory.plugins.base import (
    MAX_FOCUS_CHARACTERS,
    CompactionPause,
    Compactor,
    MemoryProvider,
    Pausable,
    Rebuilder,
    takes_focus,
)
from memory.plugins.models import COMPACTIONS, Compaction
from memory.plugins.registry import ActivePlugin, active_plugin, active_plugin_name, provider_for, provider_of
from memory.plugins.sessions import context_budget, session_for_thread
from memory.plugins.thread_modes import MemoryMode, memory_mode
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.wiring import ErasedText
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.text.cleaning import has_visible_character
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.access import Access

AGENT_INTERVAL = timedelta(minutes=10)
"""Agents may ask for a compaction of one thread so often."""

MANUAL_TRIGGERS = (Compaction.Trigger.HAND, Compaction.Trigger.AGENT)
"""Triggers that are somebody's wish: whoever asks hears why it cannot be."""


def request_compaction(
    *, thread: Thread, trigger: str, full: bool = False, by: Access | None = None, focus: str = ""
) -> Compaction | None:
    """The new row, for the caller to send to a worker; None when one is waiting or running already.

    `focus`: what new summaries are to keep in most detail, at most MAX_FOCUS_CHARACTERS characters; else Problem.
    A full or focused one that is asked for takes the place of one that waits, an agent's never that of a person's: that
    row is returned, with the newest focus. Where nothing can
    be compacted (people only, a plugin without summaries), asking raises Refused and a trigger gets None. Guests may
    not ask: a model's answer costs the workspace. Asking raises Conflict (`nothing_new`) where nothing was said since
    the last one that went as far; for agents also (`too_soon`) within AGENT_INTERVAL of the last time one asked.
    """
    is_manual = trigger in MANUAL_TRIGGERS
    if is_manual and by is not None and by.is_guest:
        raise Refused("Guests cannot ask for a compaction. A member can.")
    focus = _clean_focus(focus, thread)
    reason = compaction_denied_reason(thread)
    if reason is not None:
        if is_manual:
            raise Refused(reason, code="cannot_compact")
        return None
    with transaction.atomic():
        rows = Compaction.objects.select_for_update().filter(thread=thread, state__in=COMPACTIONS.unfinished)
        unfinished = rows.first()
        if unfinished is None:
            if trigger == Compaction.Trigger.AGENT:
                _check_not_too_soon(thread)
            if is_manual:
                _check_anything_new(thread, full)
            return _create_compaction(thread, trigger, full, by, focus)
        goes_further = (full and not unfinished.full) or (focus and focus != unfinished.focus)
        is_of_person = unfinished.trigger == Compaction.Trigger.HAND and trigger != Compaction.Trigger.HAND
        if not (is_manual and goes_further) or is_of_person or unfinished.state != Compaction.State.QUEUED:
            return None
        unfinished.full, unfinished.trigger = unfinished.full or full, trigger
        unfinished.focus = focus or unfinished.focus
        unfinished.requested_by_id = by.participant_id if by else None
        unfinished.save(update_fields=["full", "trigger", "requested_by", "focus"])
        return unfinished


def _clean_focus(focus: str, thread: Thread) -> str:
    """The focus on one line, secrets masked. Raises Problem when it is too long, Refused for a plugin that takes
    none."""
    cleaned = mask_secrets(" ".join(clean_text(focus).split()))
    if not has_visible_character(cleaned):
        return ""
    if len(cleaned) > MAX_FOCUS_CHARACTERS:
        raise Problem(
            f"A focus has at most {MAX_FOCUS_CHARACTERS} characters, this one {len(cleaned):,}. Nothing was started: "
            "say in fewer words what is to be kept in most detail.",
            code="too_long",
            field="focus",
        )
    provider = provider_for(thread.workspace_id)
    if isinstance(provider, Compactor) and not takes_focus(provider):
        name = active_plugin_name(thread.workspace_id)
        raise Refused(f"The memory plugin {name} takes no focus. Ask without one.", code="no_focus")
    return cleaned


def _check_not_too_soon(thread: Thread) -> None:
    agent_requests = Compaction.objects.filter(thread=thread, trigger=Compaction.Trigger.AGENT)
    if agent_requests.filter(queued_at__gt=timezone.now() - AGENT_INTERVAL).exists():
        minutes = AGENT_INTERVAL.seconds // 60
        raise Conflict(
            f"An agent asked for a compaction of this thread less than {minutes} minutes ago. Go on without one.",
            code="too_soon",
        )


def compaction_denied_reason(thread: Thread, active: ActivePlugin | None = None) -> str | None:
    """The reason why this thread is never compacted, as a sentence for people; None when it can be. `active`: the
    workspace's memory, where it was read already."""
    if thread.access == Thread.Access.HUMAN_ONLY:
        return "This thread is for people only. No agent reads it, so nothing of it is summarised."
    active = active or active_plugin(thread.workspace_id)
    mode = memory_mode(thread, active.config)
    if mode is not MemoryMode.FULL:
        rule = f"This thread is {mode.value} for memory, so nothing of it is summarised."
        return f"{rule} Admins can change that: Settings, Memory."
    if not isinstance(provider_of(active), Compactor):
        return f"The memory plugin {active.name} makes no summaries, so there is nothing to compact."
    return None


def _check_anything_new(thread: Thread, full: bool) -> None:
    """What was compacted is not compacted anew, unless a message or what prompts may hold was changed meanwhile."""
    last = Compaction.objects.filter(thread=thread).exclude(state__in=COMPACTIONS.unfinished).first()
    if last is None or last.state == Compaction.State.FAILED or last.trigger == Compaction.Trigger.CHANGED:
        return
    is_covered = last.plugin == active_plugin_name(thread.workspace_id) and last.full >= full
    if is_covered and not _has_new_messages(thread, last) and not _needs_compaction(thread):
        hint = "" if last.full else " “Compact everything” goes further."
        raise Conflict(
            f"Nothing was said since the last compaction, so there is nothing new.{hint}", code="nothing_new"
        )


def _has_new_messages(thread: Thread, last: Compaction) -> bool:
    """Whether a message came after it, or while it ran: it may not have seen that one."""
    newest = Message.objects.filter(thread=thread).order_by("-seq").values_list("seq", "created_at").first()
    if newest is None:
        return False
    seq, created_at = newest
    return seq > last.at_seq or (last.started_at is not None and created_at > last.started_at)


def _needs_compaction(thread: Thread) -> bool:
    provider, session = provider_for(thread.workspace_id), session_for_thread(thread)
    if session is None:
        return False
    provider.bootstrap(session)
    if not isinstance(provider, Compactor):
        return False
    return provider.needs_compaction(session, context_budget(thread))


def _create_compaction(thread: Thread, trigger: str, full: bool, by: Access | None, focus: str) -> Compaction | None:
    try:
        with transaction.atomic():
            return Compaction.objects.create(
                thread=thread,
                plugin=active_plugin_name(thread.workspace_id),
                trigger=trigger,
                full=full,
                focus=focus,
                requested_by_id=by.participant_id if by else None,
            )
    except IntegrityError:  # somebody else asked in the same moment
        return None


def request_compaction_if_due(*, thread: Thread, had_bulky_result: bool = False) -> Compaction | None:
    """Asks for a compaction when the conversation has grown past its threshold and something can be summarised.

    After a tool's bulky result one is asked for in any case. Nothing is computed while another one waits or runs.
    """
    if Compaction.objects.filter(thread=thread, state__in=COMPACTIONS.unfinished).exists():
        return None
    if had_bulky_result:
        return request_compaction(thread=thread, trigger=Compaction.Trigger.TOOL_RESULT)
    if not _needs_compaction(thread):
        return None
    return request_compaction(thread=thread, trigger=Compaction.Trigger.THRESHOLD)


def request_rebuild(*, message: Message) -> Compaction | None:
    """Asks for the summaries to be written anew that stand for this message, if any does."""
    provider = provider_for(message.thread.workspace_id)
    if not isinstance(provider, Rebuilder) or not provider.covers_message(message.pk):
        return None
    return request_compaction(thread=message.thread, trigger=Compaction.Trigger.CHANGED)


def erase_focus(erased: ErasedText) -> int:
    """Empty what repeats a deleted or changed message; how many rows did."""
    threads = Q(thread=erased.thread_id) | Q(thread__dive__source=erased.message_id)
    rows = Compaction.objects.filter(threads, queued_at__gte=erased.quotable_since).exclude(focus="")
    quoting = [pk for pk, focus in rows.values_list("pk", "focus") if erased.quotation.is_in(focus)]
    return Compaction.objects.filter(pk__in=quoting).update(focus="")


RETRY_WINDOW = timedelta(days=1)
"""Failed compactions of so long are taken up again; older threads are compacted when something is said in them."""


def find_pause(workspace_id: int, provider: MemoryProvider | None = None) -> CompactionPause | None:
    """The pause of a workspace's compactions: until when, and why, they rest; None while they do not. `provider`: the
    workspace's memory, where it was read already."""
    provider = provider or provider_for(workspace_id)
    return provider.compaction_pause(workspace_id) if isinstance(provider, Pausable) else None


def resume_compaction(*, workspace_id: int, by: Access | None, endpoint_id: int | None = None) -> list[Compaction]:
    """Lets an endpoint (None: all that write summaries) be asked at once, and takes up what failed or waits: rows for
    the caller to send to a worker.

    Admins only; `by=None` is a test of the endpoint that succeeded. Raises Refused, and Conflict (`not_paused`) when
    somebody asks where nothing is paused and nothing waits.
    """
    if by is not None and not (by.administers and by.workspace_id == workspace_id):
        raise Refused("Only owners and admins may resume compaction.")
    provider = provider_for(workspace_id)
    was_left_alone = isinstance(provider, Pausable) and provider.resume_compaction(workspace_id, endpoint_id)
    waiting = _hurry_waiting(workspace_id)
    if not was_left_alone:
        if by is None or waiting:
            return waiting
        raise Conflict("Compaction is not paused. Nothing changed.", code="not_paused")
    newest = Compaction.objects.filter(
        thread__workspace=workspace_id, finished_at__gt=timezone.now() - RETRY_WINDOW
    ).order_by("thread", "-id")
    failed = [row for row in newest.distinct("thread").select_related("thread") if row.state == Compaction.State.FAILED]
    compactions = [request_compaction(thread=row.thread, trigger=_trigger(row), full=row.full) for row in failed]
    return [*waiting, *(row for row in compactions if row is not None)]


def _hurry_waiting(workspace_id: int) -> list[Compaction]:
    """Compactions that were put off for later, due now."""
    now = timezone.now()
    rows = Compaction.objects.filter(thread__workspace=workspace_id, state=Compaction.State.QUEUED, sent_at__gt=now)
    waiting = list(rows)
    Compaction.objects.filter(pk__in=[row.pk for row in waiting], state=Compaction.State.QUEUED).update(sent_at=now)
    return waiting


def _trigger(row: Compaction) -> str:
    """What asked for it; what a person asked for by hand is due by itself now."""
    return Compaction.Trigger.THRESHOLD if row.trigger == Compaction.Trigger.HAND else row.trigger

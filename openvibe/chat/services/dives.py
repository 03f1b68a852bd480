"""Verbs of dives: start, ask for a draft, publish, discard."""

import hashlib
from itertools import count as numbers

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from openvibe.base.models import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import MOST_ACTIVE, Dive, DiveResult, Message, ReadMarker, Thread
from openvibe.chat.services.messages import post_message, record_mentions
from openvibe.chat.services.results import cleaned_result
from openvibe.chat.services.writing import ARCHIVED, INSIDE_DIVE, OVER, is_archived
from openvibe.chat.signals import dive_ended, dive_started, draft_wanted
from openvibe.chat.text import clean_title
from openvibe.llm.drafts import ResultDraft, card_markdown
from openvibe.llm.tokens import count
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

TOO_MANY = f"This thread has {MOST_ACTIVE} active dives, the most there may be. Publish or discard one of them first."


# --- starting -----------------------------------------------------------------------------------------------


@transaction.atomic
def start_dive(*, source: Message, by: Access, agent: Participant, body: str = "", client_id: str = "") -> Dive:
    """A dive from `source`, which must be visible to `by`, with `agent`. A `body` is the first thing said in it.

    The same `client_id` of the same person and message is the same dive, returned as it is. Raises Refused (not a
    person, archived, inside a dive, an agent that may not respond there), Conflict (deleted, being written,
    `MOST_ACTIVE` dives already), Problem (not an agent, a bad text).
    """
    if by.is_agent:
        raise Refused("Only people start dives.")
    if len(client_id) > 100 or "\x00" in client_id:
        raise Problem("A client_id is at most 100 plain characters.", code="bad_id", field="client_id")
    parent = (
        Thread.objects.select_for_update(of=("self",), no_key=True).select_related("channel").get(pk=source.thread_id)
    )  # one start at a time in a thread
    key = _key(source, by, client_id)
    started = Dive.objects.filter(parent=parent, thread__external_id=key).first() if key else None
    if started is not None:
        return started
    _may_start(source, parent, agent)
    dive = Dive.objects.create(
        thread=_side_thread(parent, by, agent, key), parent=parent, source=source, agent=agent,
        started_by_id=by.participant_id, slot=_free_slot(parent),
    )  # fmt: skip
    dive.refresh_from_db(fields=["created_at"])
    _told(dive)
    dive_started.send(sender=Dive, dive=dive)
    if body:
        post_message(thread=dive.thread, by=by, body=body, client_id=client_id)
    return dive


def _key(source: Message, by: Access, client_id: str) -> str:
    """What the dive's thread keeps as its `external_id`: the database allows it once in a channel."""
    if not client_id:
        return ""
    return "dive:" + hashlib.sha256(f"{source.pk} {by.participant_id} {client_id}".encode()).hexdigest()


def _may_start(source: Message, parent: Thread, agent: Participant) -> None:
    if parent.parent_id is not None:
        raise Refused(INSIDE_DIVE, code="inside_dive")
    if is_archived(parent):
        raise Refused("This conversation is archived. Bring it back before diving from it.", code="archived")
    now = Message.objects.only("deleted_at", "state").get(pk=source.pk)
    if now.is_deleted:
        raise Conflict("This message was deleted. Dive from another one.", code="deleted")
    if now.state == Message.State.WRITING:
        raise Conflict("This message is still being written. Wait until it is done.", code="being_written")
    if not agent.is_agent or agent.workspace_id != parent.workspace_id:
        raise Problem("Choose the agent to dive with.", code="unknown_agent", field="agent")
    reason = why_silent(agent, parent, "dive")
    if reason is not None:
        raise Refused(reason, code="agent_silent", field="agent")


def why_silent(agent: Participant, thread: Thread, task: str) -> str | None:
    """Why the agent may not take part, as a sentence for people; None when it may. Agents' own rule."""
    reason: str | None = import_string(settings.WHY_SILENT)(agent, thread, task)
    return reason


def _free_slot(parent: Thread) -> int:
    taken = set(Dive.objects.filter(parent=parent, slot__isnull=False).values_list("slot", flat=True))
    if len(taken) >= MOST_ACTIVE:
        raise Conflict(TOO_MANY, code="too_many_dives")
    return next(slot for slot in numbers(1) if slot not in taken)


def _side_thread(parent: Thread, by: Access, agent: Participant, key: str) -> Thread:
    """Named by the thread alone: a deleted source or first message leaves no words in a title."""
    thread = Thread.objects.create(
        workspace_id=parent.workspace_id, channel=parent.channel, parent=parent, external_id=key,
        title=clean_title(f"Dive with @{agent.handle}: {parent.title}"), created_by_id=by.participant_id,
    )  # fmt: skip
    thread.refresh_from_db(fields=["access"])
    return thread


# --- ending -------------------------------------------------------------------------------------------------


@transaction.atomic
def ask_for_draft(*, dive: Dive, by: Access) -> Message:
    """Have the dive's agent draft the result: a `system` message in the dive that its next reply answers.

    Raises Refused (neither the starter nor an admin, archived, or the agent may not respond), Conflict (the dive is
    over, the agent is still writing).
    """
    current = _open(dive, by, "have a result drafted")
    reason = why_silent(current.agent, current.thread, "publish")
    if reason is not None:
        raise Refused(f"{reason} The result can be written by hand.", code="agent_silent")
    _is_quiet(current)
    text = f"Asked @{current.agent.handle} to draft the result."
    message = Message.objects.create(
        thread=current.thread, author_id=by.participant_id, kind=Message.Kind.SYSTEM, body=text, token_count=count(text)
    )
    message.refresh_from_db(fields=["seq", "created_at"])
    draft_wanted.send(sender=Dive, message=message, dive=current)
    return message


@transaction.atomic
def publish_dive(*, dive: Dive, by: Access, result: ResultDraft) -> Message:
    """Post the result in the thread the dive started in; the dive can only be read from then on. Returns the message.

    Raises Problem with the field that is wrong, Refused (neither the starter nor an admin, archived), Conflict
    (`already_published`, discarded, or the agent is still writing).
    """
    cleaned = cleaned_result(result)
    current = _open(dive, by, "publish it")
    _is_quiet(current)
    message = _posted(current, by, cleaned)
    DiveResult.objects.create(
        message=message, dive=current, headline=cleaned.headline, bullets=list(cleaned.bullets), full=cleaned.full,
        full_tokens=count(cleaned.full), deferred=list(cleaned.deferred), questions=list(cleaned.questions),
        agent_id=current.agent_id, published_by_id=by.participant_id,
    )  # fmt: skip
    current.result = message
    _end(current, Dive.State.PUBLISHED, by)
    _is_quiet(current)  # a worker may have begun to write before it heard
    return message


@transaction.atomic
def discard_dive(*, dive: Dive, by: Access) -> Dive:
    """Give the dive up: what was said stays to be read, a reply that is being written is stopped.

    Raises Refused (neither the starter nor an admin), Conflict (`already_published`). Discarding twice changes nothing.
    """
    current = _locked(dive)
    _may_end(current, by, "discard it")
    if current.state == Dive.State.DISCARDED:
        return current
    if current.state == Dive.State.PUBLISHED:
        raise Conflict("This dive is already published.", code="already_published")
    _end(current, Dive.State.DISCARDED, by)
    return current


def may_end(dive: Dive, by: Access) -> bool:
    """Whether `by` may ask for the draft, publish and discard: the starter and admins."""
    return not by.is_agent and (by.administers or by.participant_id == dive.started_by_id)


def _locked(dive: Dive) -> Dive:
    rows = Dive.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("thread__channel", "parent__channel", "agent", "source").get(pk=dive.pk)


def _may_end(dive: Dive, by: Access, what: str) -> None:
    if not may_end(dive, by):
        raise Refused(f"Only the person who started a dive and admins may {what}.", code="not_your_dive")


def _open(dive: Dive, by: Access, what: str) -> Dive:
    """The dive as it is now, locked, when `by` may end it and it is active in a thread that is not archived."""
    current = _locked(dive)
    _may_end(current, by, what)
    if current.state == Dive.State.PUBLISHED:
        raise Conflict("This dive is already published.", code="already_published")
    if current.state == Dive.State.DISCARDED:
        raise Conflict(OVER[Dive.State.DISCARDED], code="discarded")
    if is_archived(current.parent):
        raise Refused(ARCHIVED, code="archived")
    return current


def _is_quiet(dive: Dive) -> None:
    if Message.objects.filter(thread_id=dive.thread_id, state=Message.State.WRITING).exists():
        raise Conflict(
            f"@{dive.agent.handle} is still writing in this dive. Wait until it is done, or stop it.",
            code="being_written",
        )


def _posted(dive: Dive, by: Access, result: ResultDraft) -> Message:
    """The card in the thread above. It is no question to anybody: agents named in it are not asked."""
    body = card_markdown(result)
    message = Message.objects.create(
        thread=dive.parent, author_id=by.participant_id, kind=Message.Kind.DIVE_RESULT, body=body,
        token_count=count(body),
    )  # fmt: skip
    message.refresh_from_db(fields=["seq", "created_at"])
    record_mentions(message)
    ReadMarker.objects.filter(
        thread=dive.parent, participant_id=by.participant_id, last_read_seq=message.seq - 1
    ).update(last_read_seq=message.seq)
    return message


def _end(dive: Dive, state: Dive.State, by: Access) -> None:
    dive.state, dive.slot, dive.ended_at, dive.ended_by_id = state, None, timezone.now(), by.participant_id
    dive.save(update_fields=["state", "slot", "ended_at", "ended_by", "result"])
    _told(dive)
    dive_ended.send(sender=Dive, dive=dive)


def _told(dive: Dive) -> None:
    above = dive.parent
    emit("dive_changed", workspace_id=above.workspace_id, channel_id=above.channel_id,
         thread_id=above.pk, message_id=dive.source_id)  # fmt: skip

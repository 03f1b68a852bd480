"""Services that start, publish and discard dives, request a draft and validate a result, every wrong field named."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import count as numbers
from typing import Any

from django.db import transaction
from django.utils import timezone

from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import MAX_ACTIVE_DIVES, Dive, DiveResult, Message, ReadMarker, Thread
from openvibe.chat.services.messages import create_mentions, post_message
from openvibe.chat.services.permissions import ARCHIVED_MESSAGE, DIVE_ENDED_MESSAGES, NESTED_DIVE_MESSAGE, is_archived
from openvibe.chat.services.threads import dive_title, form_external_id
from openvibe.chat.wiring import REPLY_DENIED_REASONS, dive_ended, dive_started, draft_requested
from openvibe.engines.llm.offline.drafts import (
    MAX_BULLET_CHARACTERS,
    MAX_BULLETS,
    MAX_DEFERRED,
    MAX_FULL_CHARACTERS,
    MAX_HEADLINE_CHARACTERS,
    MAX_QUESTIONS,
    MIN_BULLETS,
    ResultDraft,
    render_card,
)
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import TextRefused, clean_body, has_visible_character
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


@transaction.atomic
def start_dive(*, source: Message, by: Access, agent: Participant, body: str = "", client_id: str = "") -> Dive:
    """A dive from `source`, which must be visible to `by`, with `agent`. A `body` is the first thing said in it.

    The same `client_id` of the same person and message is the same dive, returned as it is. Raises Refused (not a
    person, archived, inside a dive, an agent that may not respond there), Conflict (deleted, being written,
    `MAX_ACTIVE_DIVES` dives already), Problem (not an agent, a bad text).
    """
    if by.is_agent:
        raise Refused("Only people start dives.")
    if len(client_id) > 100 or "\x00" in client_id:
        raise Problem("A client_id is at most 100 plain characters.", code="bad_id", field="client_id")
    parent = (
        Thread.objects.select_for_update(of=("self",), no_key=True).select_related("channel").get(pk=source.thread_id)
    )  # one start at a time in a thread
    key = form_external_id("dive", client_id, source.pk, by.participant_id)
    existing = Dive.objects.filter(parent=parent, thread__external_id=key).first() if key else None
    if existing is not None:
        return existing
    _check_start(source, parent, agent)
    dive = Dive.objects.create(
        thread=_create_dive_thread(parent, by, agent, key),
        parent=parent,
        source=source,
        agent=agent,
        started_by_id=by.participant_id,
        slot=_find_free_slot(parent),
    )
    dive.refresh_from_db(fields=["created_at"])
    _emit_changed(dive)
    dive_started.send(sender=Dive, dive=dive)
    if has_visible_character(body):
        post_message(thread=dive.thread, by=by, body=body, client_id=client_id)
    return dive


def _check_start(source: Message, parent: Thread, agent: Participant) -> None:
    if parent.parent_id is not None:
        raise Refused(NESTED_DIVE_MESSAGE, code="inside_dive")
    if is_archived(parent):
        raise Refused("This conversation is archived. Bring it back before diving from it.", code="archived")
    current = Message.objects.only("deleted_at", "state").get(pk=source.pk)
    if current.is_deleted:
        raise Conflict("This message was deleted. Dive from another one.", code="deleted")
    if current.state == Message.State.WRITING:
        raise Conflict("This message is still being written. Wait until it is done.", code="being_written")
    if not agent.is_agent or agent.workspace_id != parent.workspace_id:
        raise Problem("Choose the agent to dive with.", code="unknown_agent", field="agent")
    reason = reply_denied_reason(agent, parent, "dive")
    if reason is not None:
        raise Refused(reason, code="agent_silent", field="agent")


def reply_denied_reason(agent: Participant, thread: Thread, task: str) -> str | None:
    """The reason why the agent may not take part, as a sentence for people; None when it may. Agents' own rule."""
    return reply_denied_reasons([agent], thread, task).get(agent.pk)


def reply_denied_reasons(agents: Sequence[Participant], thread: Thread, task: str) -> Mapping[int, str]:
    """The same for many, by participant id; those that may take part are left out."""
    return REPLY_DENIED_REASONS.only()(agents, thread, task)


def _find_free_slot(parent: Thread) -> int:
    taken_slots = set(Dive.objects.filter(parent=parent, slot__isnull=False).values_list("slot", flat=True))
    if len(taken_slots) >= MAX_ACTIVE_DIVES:
        raise Conflict(
            f"This thread has {MAX_ACTIVE_DIVES} active dives, the most there may be. "
            "Publish or discard one of them first.",
            code="too_many_dives",
        )
    return next(slot for slot in numbers(1) if slot not in taken_slots)


def _create_dive_thread(parent: Thread, by: Access, agent: Participant, key: str) -> Thread:
    """Creates the dive's thread, named by the thread alone: a deleted source or first message leaves no words in a
    title."""
    thread = Thread.objects.create(
        workspace_id=parent.workspace_id,
        channel=parent.channel,
        parent=parent,
        external_id=key,
        title=dive_title(agent, parent),
        created_by_id=by.participant_id,
    )
    thread.refresh_from_db(fields=["access"])
    return thread


@transaction.atomic
def request_draft(*, dive: Dive, by: Access) -> Message:
    """Has the dive's agent draft the result: a `system` message in the dive that its next reply answers.

    Raises Refused (neither the starter nor an admin, archived, or the agent may not respond), Conflict (the dive is
    over, the agent is still writing).
    """
    current = _lock_active_dive(dive, by, "have a result drafted")
    reason = reply_denied_reason(current.agent, current.thread, "publish")
    if reason is not None:
        raise Refused(f"{reason} The result can be written by hand.", code="agent_silent")
    _check_no_reply_in_progress(current)
    text = f"@{current.agent.handle}, draft the result of this dive now."
    message = _create_message(current.thread, by, Message.Kind.SYSTEM, text)
    draft_requested.send(sender=Dive, message=message, dive=current)
    return message


@transaction.atomic
def publish_dive(*, dive: Dive, by: Access, result: ResultDraft) -> Message:
    """Posts the result in the thread the dive started in; the dive can only be read from then on. Returns the message.

    Raises Problem with the field that is wrong, Refused (neither the starter nor an admin, archived), Conflict
    (`already_published`, discarded, or the agent is still writing).
    """
    cleaned = clean_result(result)
    current = _lock_active_dive(dive, by, "publish it")
    _check_no_reply_in_progress(current)
    message = _post_result(current, by, cleaned)
    DiveResult.objects.create(
        message=message,
        dive=current,
        headline=cleaned.headline,
        bullets=list(cleaned.bullets),
        full=cleaned.full,
        full_tokens=count_tokens(cleaned.full),
        deferred=list(cleaned.deferred),
        questions=list(cleaned.questions),
        agent_id=current.agent_id,
        published_by_id=by.participant_id,
    )
    current.result = message
    _end_dive(current, Dive.State.PUBLISHED, by)
    _check_no_reply_in_progress(current)  # a worker may have begun to write before it heard
    return message


@transaction.atomic
def discard_dive(*, dive: Dive, by: Access) -> Dive:
    """Gives the dive up: what was said stays to be read, a reply that is being written is stopped.

    Raises Refused (neither the starter nor an admin), Conflict (`already_published`). Discarding twice changes nothing.
    """
    current = _lock_dive(dive, by, "discard it")
    if current.state == Dive.State.DISCARDED:
        return current
    if current.state == Dive.State.PUBLISHED:
        raise Conflict("This dive is already published.", code="already_published")
    _end_dive(current, Dive.State.DISCARDED, by)
    return current


def may_end_dive(dive: Dive, by: Access) -> bool:
    """Whether `by` may ask for the draft, publish and discard: the starter and admins."""
    return not by.is_agent and (by.administers or by.participant_id == dive.started_by_id)


def _lock_dive(dive: Dive, by: Access, action: str) -> Dive:
    """The dive as it is now, locked, when `by` may end it."""
    rows = Dive.objects.select_for_update(of=("self",), no_key=True)
    current = rows.select_related("thread__channel", "parent__channel", "agent", "source").get(pk=dive.pk)
    if not may_end_dive(current, by):
        raise Refused(f"Only the person who started a dive and admins may {action}.", code="not_your_dive")
    return current


def _lock_active_dive(dive: Dive, by: Access, action: str) -> Dive:
    """The same of a dive that is active in a thread that is not archived."""
    current = _lock_dive(dive, by, action)
    if current.state == Dive.State.PUBLISHED:
        raise Conflict("This dive is already published.", code="already_published")
    if current.state == Dive.State.DISCARDED:
        raise Conflict(DIVE_ENDED_MESSAGES[Dive.State.DISCARDED], code="discarded")
    if is_archived(current.parent):
        raise Refused(ARCHIVED_MESSAGE, code="archived")
    return current


def _check_no_reply_in_progress(dive: Dive) -> None:
    if Message.objects.filter(thread_id=dive.thread_id, state=Message.State.WRITING).exists():
        raise Conflict(
            f"@{dive.agent.handle} is still writing in this dive. Wait until it is done, or stop it.",
            code="being_written",
        )


def _post_result(dive: Dive, by: Access, result: ResultDraft) -> Message:
    """The card in the thread above. It is no question to anybody: agents named in it are not asked."""
    message = _create_message(dive.parent, by, Message.Kind.DIVE_RESULT, render_card(result))
    create_mentions(message, by)
    ReadMarker.objects.filter(
        thread=dive.parent, participant_id=by.participant_id, last_read_seq=message.seq - 1
    ).update(last_read_seq=message.seq)
    return message


def _create_message(thread: Thread, by: Access, kind: Message.Kind, body: str) -> Message:
    message = Message.objects.create(
        thread=thread, author_id=by.participant_id, kind=kind, body=body, token_count=count_tokens(body)
    )
    message.refresh_from_db(fields=["seq", "created_at"])
    return message


def _end_dive(dive: Dive, state: Dive.State, by: Access) -> None:
    dive.state, dive.slot, dive.ended_at, dive.ended_by_id = state, None, timezone.now(), by.participant_id
    dive.save(update_fields=["state", "slot", "ended_at", "ended_by", "result"])
    _emit_changed(dive)
    dive_ended.send(sender=Dive, dive=dive)


def _emit_changed(dive: Dive) -> None:
    parent = dive.parent
    emit(
        "dive_changed",
        workspace_id=parent.workspace_id,
        channel_id=parent.channel_id,
        thread_id=parent.pk,
        message_id=dive.source_id,
    )


class InvalidResult(Problem):
    """What is wrong with a result. `problems` holds one for each wrong field, in the order of the form; as a Problem
    it is the first of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        super().__init__(first.message, code=first.code, field=first.field)
        self.problems = tuple(problems)


def clean_result(result: ResultDraft) -> ResultDraft:
    """The result as it is stored: headline and items on one line each. Raises InvalidResult naming every wrong field,
    in the order of the form."""
    cleaned: dict[str, Any] = {}
    problems: list[Problem] = []
    for field in fields(result):
        try:
            cleaned[field.name] = _clean_field(field.name, getattr(result, field.name))
        except Problem as problem:
            problems.append(problem)
    if problems:
        raise InvalidResult(problems)
    return ResultDraft(**cleaned)


def _clean_field(name: str, value: Any) -> Any:
    if name == "headline":
        if not has_visible_character(value):
            raise Problem("A result needs a headline.", code="empty", field=name)
        return _clean_line(value, name, MAX_HEADLINE_CHARACTERS)
    if name == "full":
        return _clean_text(value, name, MAX_FULL_CHARACTERS) if has_visible_character(value) else ""
    items = tuple(_clean_line(one, name, MAX_BULLET_CHARACTERS) for one in value if has_visible_character(one))
    fewest, most, label, code = _LIST_RULES[name]
    if not fewest <= len(items) <= most:
        limits = f"{fewest} to {most}" if fewest else f"at most {most}"
        raise Problem(f"A result has {limits} {label}; these are {len(items)}.", code=code, field=name)
    return items


_LIST_RULES = {
    "bullets": (MIN_BULLETS, MAX_BULLETS, "key points", "bad_bullets"),
    "deferred": (0, MAX_DEFERRED, "deferred items", "too_many"),
    "questions": (0, MAX_QUESTIONS, "open questions", "too_many"),
}
"""The rules of each list: the fewest and the most items, what people call them, and the code of the problem."""


def _clean_line(text: str, field: str, max_characters: int) -> str:
    return " ".join(_clean_text(text, field, max_characters).split())


def _clean_text(text: str, field: str, max_characters: int) -> str:
    try:
        return clean_body(text, max_characters=max_characters)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field=field) from None

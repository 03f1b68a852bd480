"""Services of work: create, update, close and reopen work items, write down preferences that people say in messages,
log progress; and the signals they send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.dispatch import Signal
from django.utils import timezone

from memory.plugins.models import Compaction
from memory.work.models import ProgressEntry, WorkItem
from memory.work.validation import (
    DEFAULT_MAX_TOKENS,
    PLAN_STAGES,
    check_constraints_fit,
    clean_data,
    clean_item_text,
    clean_text_field,
)
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import check_dive_active, is_archived
from openvibe.engines.llm.fences import escape_text
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.preferences import find_preferences
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

# A row was closed, opened again, or says its words no more:
#   item: WorkItem, as it is now
#   by: Access of whoever did it; None where its words went with a message
work_state_changed = Signal()

# The work of a thread reached a point at which its context is worth compacting:
#   thread: Thread
#   trigger: Compaction.Trigger: milestone (plan approved, carried out, verified, integrated; objective, plan or goal
#   reached), approval (the work pauses for one),
#     resume (it was decided, or something closed was taken up again)
#   by: Access of whoever brought it there
milestone_reached = Signal()


def lock_thread(thread: Thread, by: Access, *, allow_ended: bool = False) -> Thread:
    """The thread, held until the transaction ends.

    Raises Missing when `by` does not see it, Refused when it is archived or, unless `allow_ended`, a dive that is over.
    """
    visible = Thread.objects.visible_to(by).select_related("channel").order_by()
    locked: Thread | None = visible.select_for_update(of=("self",), no_key=True).filter(pk=thread.pk).first()
    if locked is None:
        raise Missing
    if is_archived(locked):
        raise Refused("This conversation is archived. Bring it back before changing its work.", code="archived")
    if not allow_ended:
        check_dive_active(locked)
    return locked


def emit_work_changed(thread: Thread) -> None:
    emit("work_changed", workspace_id=thread.workspace_id, channel_id=thread.channel_id, thread_id=thread.pk)


def send_milestone(thread: Thread, trigger: Compaction.Trigger, by: Access) -> None:
    milestone_reached.send(sender=Thread, thread=thread, trigger=trigger, by=by)


Kind, State = WorkItem.Kind, WorkItem.State

MAX_OPEN_PER_KIND = 50
"""The most open rows of one kind in one thread; an objective and a plan stand alone."""

SINGLETON_KINDS = (Kind.OBJECTIVE, Kind.PLAN)
"""Kinds of which a thread has one at a time: a new one takes the earlier one's place."""

QUOTED_KEY = "quoted"
"""The key in `data` of a row that says what its message says: its words go when the message is deleted."""

DELETED_TEXT = "The message this came from was deleted."


@transaction.atomic
def create_work_item(
    *,
    thread: Thread,
    by: Access,
    kind: str,
    text: str,
    data: Mapping[str, Any] | None = None,
    message: Message | None = None,
) -> WorkItem:
    """Writes a row down. The same open row is not written twice: it is returned.

    A preference that a member writes as a constraint becomes it.
    A new objective or plan drops the earlier one in the same transaction. `message` is where it was said. A constraint
    of an agent or a guest is a proposal; a member who writes the words of a proposal confirms it. Raises
    Missing (unseen thread), Refused (archived; an agent that approves a plan), Problem (empty, too long, too many).
    """
    if kind not in Kind.values:
        raise Problem(f"A kind of work is one of {', '.join(Kind.values)}.", code="bad_kind", field="kind")
    if kind == Kind.PREFERENCE and by.is_agent:
        raise Refused("Preferences are what people ask for. Write down something else.", code="people_only")
    cleaned, tokens = clean_item_text(kind, text)
    cleaned_data = clean_data(kind, data or {}, by, {})
    locked = lock_thread(thread, by)
    if message is not None:
        message = _lock_source_message(message, locked, by)
        cleaned_data = _with_quote_mark(cleaned_data, cleaned, message)
    open_rows = WorkItem.objects.filter(thread=locked, kind=kind, state=State.OPEN)
    duplicate = open_rows.filter(text=cleaned, data=cleaned_data).first()
    if duplicate is not None:
        is_confirmed_so = duplicate.is_proposal and _may_confirm(by)
        return decide_constraint(item=duplicate, by=by, is_confirmed=True) if is_confirmed_so else duplicate
    if kind == Kind.CONSTRAINT and _may_confirm(by):
        preferences = WorkItem.objects.filter(thread=locked, kind=Kind.PREFERENCE, state=State.OPEN, text=cleaned)
        if (preference := preferences.order_by("-id").first()) is not None:
            return _bind_preference(locked, preference, by, None)
    _replace_or_check_limit(locked, kind, tokens, by)
    item = WorkItem.objects.create(
        thread=locked,
        kind=kind,
        text=cleaned,
        tokens=tokens,
        data=cleaned_data,
        author_id=by.participant_id,
        message=message,
    )
    if kind == Kind.CONSTRAINT:
        item.refresh_from_db(fields=["confirmed_by"])  # the database sets it
    emit_work_changed(locked)
    _send_stage_milestone(item, "", by)
    return item


@transaction.atomic
def update_work_item(
    *, item: WorkItem, by: Access, version: int, text: str | None = None, data: Mapping[str, Any] | None = None
) -> WorkItem:
    """Changes the item. `version` is the one that was read: Conflict when somebody changed it since, or when it is
    closed.

    `data` is merged into what stands; None takes a key away. Whoever changes the words is their author from then on:
    nobody puts words into somebody else's mouth. Agents and guests may not change a constraint that binds; a member
    who changes a proposed one confirms it; and a plan that people approved is to be approved again when an agent
    rewrites it.
    """
    thread, row = _lock_item(item, by)
    _check_version(row, version)
    if row.state != State.OPEN:
        raise Conflict("This is closed. Reopen it before changing it.", code="closed")
    _check_may_change_constraint(row, by, "change")
    previous_stage = row.data.get("stage", "")
    cleaned, tokens = clean_item_text(row.kind, text) if text is not None else (row.text, row.tokens)
    cleaned_data = clean_data(row.kind, data, by, row.data) if data is not None else row.data
    if (cleaned, cleaned_data) == (row.text, row.data):
        return row
    if row.message is not None:
        cleaned_data = _with_quote_mark(cleaned_data, cleaned, row.message, before=row)
    if by.is_agent and cleaned != row.text and cleaned_data.get("stage") == "approved":
        cleaned_data = {**cleaned_data, "stage": PLAN_STAGES[0]}  # people approved other words
    if _texts_of(cleaned, cleaned_data) != _texts_of(row.text, row.data):
        row.author_id = by.participant_id
    if row.kind == Kind.CONSTRAINT:
        check_constraints_fit(thread, tokens, besides=row)
        row.confirmed_by_id = by.participant_id if _may_confirm(by) else row.confirmed_by_id
    row.text, row.tokens, row.data = cleaned, tokens, cleaned_data
    row.version += 1
    row.save(update_fields=["text", "tokens", "data", "author", "confirmed_by", "version", "updated_at"])
    emit_work_changed(thread)
    _send_stage_milestone(row, previous_stage, by)
    return row


@transaction.atomic
def decide_constraint(*, item: WorkItem, by: Access, is_confirmed: bool, version: int | None = None) -> WorkItem:
    """A proposed constraint binds from now on, word for word; declined, it is dropped. Decided twice is decided once.
    A preference that is confirmed is a constraint from now on; declined, it is none and is dropped.

    `version` is the one that was read, so that nobody confirms other words. Raises Refused for agents and guests,
    Conflict when it is closed or changed since, Problem when it is no constraint, or too long.
    """
    if not _may_confirm(by):
        raise Refused("Only members of the workspace confirm or decline a constraint.", code="people_only")
    thread, row = _lock_item(item, by)
    if row.kind == Kind.PREFERENCE and is_confirmed:
        return _bind_preference(thread, row, by, version)
    if row.kind not in (Kind.CONSTRAINT, Kind.PREFERENCE):
        raise Problem("Only a constraint or a preference is confirmed or declined.", code="bad_kind", field="kind")
    if not is_confirmed and row.kind == Kind.CONSTRAINT and row.state == State.OPEN and not row.is_proposal:
        raise Conflict("This was confirmed already. Drop it if it no longer holds.", code="decided")
    if not is_confirmed:
        return close_work_item(item=row, by=by, state=State.DROPPED, version=version)
    if row.state != State.OPEN:
        raise Conflict("This is closed. Open it again to confirm it.", code="closed")
    if not row.is_proposal:
        return row
    _check_version(row, version)
    row.tokens = clean_item_text(row.kind, row.text)[1]
    check_constraints_fit(thread, row.tokens, besides=row)
    row.confirmed_by_id = by.participant_id
    row.version += 1
    row.save(update_fields=["confirmed_by", "tokens", "version", "updated_at"])
    emit_work_changed(thread)
    return row


def _bind_preference(thread: Thread, row: WorkItem, by: Access, version: int | None) -> WorkItem:
    """The preference of whomever as a constraint that `by` stands behind."""
    if row.state != State.OPEN:
        raise Conflict("This is closed. Open it again to make it binding.", code="closed")
    _check_version(row, version)
    _replace_or_check_limit(thread, Kind.CONSTRAINT, row.tokens, by)
    row.kind, row.confirmed_by_id = Kind.CONSTRAINT, by.participant_id
    row.version += 1
    row.save(update_fields=["kind", "confirmed_by", "version", "updated_at"])
    emit_work_changed(thread)
    return row


@transaction.atomic
def close_work_item(*, item: WorkItem, by: Access, state: str = State.DONE, version: int | None = None) -> WorkItem:
    """Done, or dropped: it leaves prompts and handoffs, and only `reopen` brings it back. Closed twice is closed once.

    Raises Conflict when it was closed otherwise, or changed since `version`.
    """
    if state not in (State.DONE, State.DROPPED):
        raise Problem("Work is closed as done or dropped.", code="bad_state", field="state")
    thread, row = _lock_item(item, by)
    if row.state == state:
        return row
    if row.state != State.OPEN:
        raise Conflict(f"This is {row.get_state_display().lower()} already. Reopen it first.", code="closed")
    _check_version(row, version)
    _check_may_change_constraint(row, by, "close")
    row.state, row.closed_by_id, row.closed_at = state, by.participant_id, timezone.now()
    _save_state(row)
    emit_work_changed(thread)
    work_state_changed.send(sender=WorkItem, item=row, by=by)
    if state == State.DONE and row.kind in (*SINGLETON_KINDS, Kind.GOAL):
        send_milestone(thread, Compaction.Trigger.MILESTONE, by)
    return row


@transaction.atomic
def reopen_work_item(*, item: WorkItem, by: Access, version: int | None = None) -> WorkItem:
    """Reopens the item, which holds again, on purpose; an objective or a plan takes the place of the one that stands
    now. A constraint binds again when a member opens it, and is a proposal when anybody else does.

    Agents may not reopen what people closed. Taking up an objective, a plan or a goal again is a milestone.
    """
    thread, row = _lock_item(item, by)
    if row.state == State.OPEN:
        return row
    _check_version(row, version)
    if by.is_agent and row.closed_by is not None and not row.closed_by.is_agent:
        raise Refused("A person closed this. Ask them to open it again.", code="closed_by_person")
    _replace_or_check_limit(thread, row.kind, row.tokens, by)
    row.state, row.closed_by, row.closed_at = State.OPEN, None, None
    if row.kind == Kind.CONSTRAINT:  # who opens it again stands behind it, or proposes it
        row.confirmed_by_id = by.participant_id if _may_confirm(by) else None
        row.save(update_fields=["confirmed_by"])
    _save_state(row)
    emit_work_changed(thread)
    work_state_changed.send(sender=WorkItem, item=row, by=by)
    if row.kind in (*SINGLETON_KINDS, Kind.GOAL):
        send_milestone(thread, Compaction.Trigger.RESUME, by)
    return row


@transaction.atomic
def redact_quotes(*, message: Message) -> None:
    """The message was deleted: rows that say its words are dropped and say them no more."""
    rows = WorkItem.objects.select_for_update(of=("self",)).filter(message=message, data__has_key=QUOTED_KEY)
    for row in rows:
        _redact(row)
    if rows:
        emit_work_changed(message.thread)


def _redact(row: WorkItem) -> None:
    row.text, row.tokens, row.data = DELETED_TEXT, count_tokens(DELETED_TEXT), {}
    if row.state == State.OPEN:
        row.state, row.closed_at = State.DROPPED, timezone.now()
    row.version += 1
    row.save(update_fields=["text", "tokens", "data", "state", "closed_at", "version", "updated_at"])
    work_state_changed.send(sender=WorkItem, item=row, by=None)


def may_erase_work(author: Participant, by: Access) -> bool:
    """Whether `by` may erase what the author wrote: authors may, admins, and members what an agent wrote."""
    is_members = author.is_agent and not by.is_agent and not by.is_guest
    return author.pk == by.participant_id or by.administers or is_members


@transaction.atomic
def redact_work_item(*, item: WorkItem, by: Access) -> None:
    """The row says its words no more, and is dropped if it still held. Raises Missing and Refused."""
    thread, row = _lock_item(item, by)
    if not may_erase_work(row.author, by):
        raise Refused("Only whoever wrote it, or an admin, can delete it.")
    if row.text != DELETED_TEXT:
        _redact(row)
        emit_work_changed(thread)


@transaction.atomic
def delete_progress(*, entry: ProgressEntry, by: Access) -> None:
    """A line of the log that nobody may read any more. Raises Missing and Refused."""
    thread = lock_thread(Thread(pk=entry.thread_id), by, allow_ended=True)
    if not may_erase_work(entry.author, by):
        raise Refused("Only whoever wrote it, or an admin, can delete it.")
    entry.delete()
    emit_work_changed(thread)


def _with_quote_mark(
    data: Mapping[str, str], text: str, message: Message, before: WorkItem | None = None
) -> dict[str, str]:
    """The data with the mark of a row any of whose words are the message's, or were when they were written down."""
    sources = [message.body.strip()]
    if before is not None and before.data.get(QUOTED_KEY):
        sources += _texts_of(before.text, before.data)
    shared = any(source and (word in source or source in word) for source in sources for word in _texts_of(text, data))
    return {key: value for key, value in data.items() if key != QUOTED_KEY} | ({QUOTED_KEY: "yes"} if shared else {})


def _texts_of(text: str, data: Mapping[str, str]) -> list[str]:
    """All that a row says in somebody's words."""
    return [text, *(value for key, value in sorted(data.items()) if key not in (QUOTED_KEY, "stage"))]


def _lock_source_message(message: Message, thread: Thread, by: Access) -> Message:
    """The message as it is now, held: whoever deletes it at this moment waits, and then finds what quotes it."""
    visible = Message.objects.visible_to(by).filter(pk=message.pk, thread=thread).order_by().values("pk")
    locked = Message.objects.select_for_update(no_key=True).filter(pk__in=visible, deleted_at=None).first()
    if locked is None:
        raise Missing("The message is not in this thread, or was deleted.")
    return locked


def _check_version(row: WorkItem, version: int | None) -> None:
    if version is not None and version != row.version:
        raise Conflict(
            f"This was changed meanwhile: it is at version {row.version}. Read it, then change it again.", code="stale"
        )


def _may_confirm(by: Access) -> bool:
    """Whether what `by` sets as a constraint binds at once."""
    return not by.is_agent and not by.is_guest


def _check_may_change_constraint(row: WorkItem, by: Access, verb: str) -> None:
    """What binds is for members; a proposal also for whoever made it. A preference is its author's, and members may
    strike it."""
    if (
        row.kind == Kind.PREFERENCE
        and row.author_id != by.participant_id
        and (not _may_confirm(by) or verb == "change")
    ):
        raise Refused(f"This is what {row.author.label} asked for. Only they may {verb} it.", code="people_only")
    if row.kind != Kind.CONSTRAINT or _may_confirm(by) or (row.is_proposal and row.author_id == by.participant_id):
        return
    whose = "Somebody else proposed" if row.is_proposal else "A person set or confirmed"
    who = "people" if by.is_agent else "members"
    raise Refused(f"{whose} this constraint. Only {who} may {verb} it.", code="people_only")


def _replace_or_check_limit(thread: Thread, kind: str, tokens: int, by: Access) -> None:
    """The earlier objective or plan is dropped; other kinds have a limit."""
    rows = WorkItem.objects.filter(thread=thread, kind=kind, state=State.OPEN)
    if kind in SINGLETON_KINDS:
        for earlier in rows:
            earlier.state, earlier.closed_by_id, earlier.closed_at = State.DROPPED, by.participant_id, timezone.now()
            _save_state(earlier)
        return
    if rows.count() >= MAX_OPEN_PER_KIND:
        raise Problem(
            f"This thread has {MAX_OPEN_PER_KIND} open rows of this kind, the most there may be. Close some first.",
            code="too_many",
            field="kind",
        )
    if kind == Kind.CONSTRAINT:
        check_constraints_fit(thread, tokens)


def _lock_item(item: WorkItem, by: Access) -> tuple[Thread, WorkItem]:
    """The thread's lock first, always, so that writers never wait for each other in a circle."""
    thread = lock_thread(Thread(pk=item.thread_id), by)
    rows = WorkItem.objects.select_for_update(of=("self",), no_key=True)  # a deletion may be wiping it just now
    return thread, rows.select_related("author", "closed_by", "message").get(pk=item.pk)


def _save_state(row: WorkItem) -> None:
    row.version += 1
    row.save(update_fields=["state", "closed_by", "closed_at", "version", "updated_at"])


def _send_stage_milestone(row: WorkItem, previous_stage: str, by: Access) -> None:
    stage = row.data.get("stage", "")
    if row.kind == Kind.PLAN and stage in PLAN_STAGES[1:] and stage != previous_stage:
        send_milestone(row.thread, Compaction.Trigger.MILESTONE, by)


@transaction.atomic
def log_progress(
    *,
    thread: Thread,
    by: Access,
    checkpoint: str,
    changed: str = "",
    evidence: str = "",
    open_issues: str = "",
    next_action: str = "",
) -> ProgressEntry:
    """Notes where the work stands: the checkpoint in one line, the rest at most 2,000 characters each.

    Raises Missing (unseen thread), Refused (archived), Problem (empty checkpoint, too long).
    """
    details = {
        name: clean_text_field(text, field=name, max_characters=2_000, required=False)
        for name, text in (
            ("changed", changed),
            ("evidence", evidence),
            ("open_issues", open_issues),
            ("next_action", next_action),
        )
    }
    cleaned_checkpoint = " ".join(clean_text_field(checkpoint, field="checkpoint", max_characters=200).split())
    locked = lock_thread(thread, by)
    entry = ProgressEntry.objects.create(
        thread=locked, checkpoint=cleaned_checkpoint, author_id=by.participant_id, **details
    )
    emit_work_changed(locked)
    return entry


MAX_IMPORTED_MESSAGES = 4_000
"""Messages of an imported conversation, the newest of its one person, that are looked through for preferences."""


def add_preferences(message: Message) -> None:
    """Writes down what the message, of a member, asks for once and for all. No query where it asks for nothing."""
    if (texts := find_preferences(message.body)) and message.author.kind == Participant.Kind.MEMBER:
        _create_preferences(message.thread, [(message, text) for text in texts])


@transaction.atomic
def revise_preferences(message: Message) -> None:
    """The message was edited: what it says no more is no preference any longer, what it says now is one."""
    texts = find_preferences(message.body)
    rows = WorkItem.objects.filter(message=message, kind=Kind.PREFERENCE, state=State.OPEN)
    gone = [row for row in rows if row.text not in texts]
    for row in gone:
        _drop_preference(row)
    if gone:
        emit_work_changed(message.thread)
    add_preferences(message)


@transaction.atomic
def add_imported_preferences(thread: Thread) -> None:
    """Writes down what the one person of an imported conversation asked for; nothing where several people speak, since
    nobody knows there for whose requests it was meant."""
    said = Message.objects.filter(
        thread=thread, author__kind=Participant.Kind.IMPORTED, kind=Message.Kind.TEXT, deleted_at=None
    )
    people = list(said.order_by().values_list("author", flat=True).distinct()[:2])
    if len(people) == 1:
        messages = reversed(said.select_related("author").order_by("-seq")[:MAX_IMPORTED_MESSAGES])
        _create_preferences(
            thread, [(message, text) for message in messages for text in find_preferences(message.body)]
        )


def _create_preferences(thread: Thread, found: Iterable[tuple[Message, str]]) -> None:
    """A row for each text that its author has none of in the thread, struck ones included; the oldest ones go where
    there are too many."""
    rows = WorkItem.objects.filter(thread=thread, kind__in=(Kind.PREFERENCE, Kind.CONSTRAINT))
    known = set(rows.values_list("author", "text"))
    is_changed = False
    for message, text in found:
        tokens = count_tokens(escape_text(text))
        if (message.author_id, text) in known or tokens > DEFAULT_MAX_TOKENS:
            continue
        known.add((message.author_id, text))
        WorkItem.objects.create(
            thread=thread,
            kind=Kind.PREFERENCE,
            text=text,
            tokens=tokens,
            data={QUOTED_KEY: "yes"},
            author_id=message.author_id,
            message=message,
        )
        is_changed = True
    if not is_changed:
        return
    for row in WorkItem.objects.filter(thread=thread, kind=Kind.PREFERENCE, state=State.OPEN).order_by("-id")[
        MAX_OPEN_PER_KIND:
    ]:
        _drop_preference(row)
    emit_work_changed(thread)


def _drop_preference(row: WorkItem) -> None:
    row.state, row.closed_at = State.DROPPED, timezone.now()
    row.version += 1
    row.save(update_fields=["state", "closed_at", "version", "updated_at"])

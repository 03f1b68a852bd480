"""Verbs of work: what a thread is working on, written by people and by agents that see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Count, Sum
from django.utils import timezone

from memory.models import Compaction, WorkItem
from memory.services.worded import locked_thread, milestone, told, worded
from memory.work import CONSTRAINTS_TOGETHER, OPEN_PER_KIND, OTHER_TOKENS, ROW_ENVELOPE, TOKENS_OF
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.llm.fences import fenced_text
from openvibe.llm.tokens import count
from openvibe.workspaces.access import Access

Kind, State = WorkItem.Kind, WorkItem.State
ALONE = (Kind.OBJECTIVE, Kind.PLAN)
"""Kinds of which a thread has one at a time: a new one takes the earlier one's place."""

STAGES = ("planning", "approved", "executing")
"""A plan's way, in its `data.stage`. Entering the second or third is a milestone; only people approve."""

DATA_OF: Mapping[str, Mapping[str, int]] = {
    Kind.GOAL: {"done_condition": 1_000, "budget": 200},
    Kind.PLAN: {"stage": 20},
    Kind.ARTIFACT: {"ref": 500},
}
"""What the kinds keep beside their text, and the most characters of each."""

TEXT_CHARACTERS = 8_000

QUOTED = "quoted"
"""In `data` of a row that says what its message says: its words go when the message is deleted."""

TAKEN_BACK = "The message this came from was deleted."


@transaction.atomic
def add_work(
    *,
    thread: Thread,
    by: Access,
    kind: str,
    text: str,
    data: Mapping[str, Any] | None = None,
    message: Message | None = None,
) -> WorkItem:
    """Write a row down. The same open row is not written twice: it is returned.

    A new objective or plan drops the earlier one in the same transaction. `message` is where it was said. Raises
    Missing (unseen thread), Refused (archived; an agent that approves a plan), Problem (empty, too long, too many).
    """
    if kind not in Kind.values:
        raise Problem(f"A kind of work is one of {', '.join(Kind.values)}.", code="bad_kind", field="kind")
    cleaned, tokens = _text(kind, text)
    kept = _data(kind, data or {}, by, {})
    locked = locked_thread(thread, by)
    if message is not None:
        message = _source(message, locked, by)
        kept = _marked(kept, cleaned, message)
    open_rows = WorkItem.objects.filter(thread=locked, kind=kind, state=State.OPEN)
    same = open_rows.filter(text=cleaned, data=kept).first()
    if same is not None:
        return same
    _make_room(locked, kind, tokens, by)
    item = WorkItem.objects.create(
        thread=locked, kind=kind, text=cleaned, tokens=tokens, data=kept, author_id=by.participant_id, message=message
    )
    told(locked)
    _tell_stage(item, "", by)
    return item


@transaction.atomic
def change_work(
    *, item: WorkItem, by: Access, version: int, text: str | None = None, data: Mapping[str, Any] | None = None
) -> WorkItem:
    """Say it anew. `version` is the one that was read: Conflict when somebody changed it since, or when it is closed.

    `data` is merged into what stands; None takes a key away. Whoever changes the words is their author from then on:
    nobody puts words into somebody else's mouth. Agents may not change what people set as a constraint, and a plan
    that people approved is to be approved again when an agent rewrites it.
    """
    thread, row = _locked(item, by)
    _check_version(row, version)
    if row.state != State.OPEN:
        raise Conflict("This is closed. Reopen it before changing it.", code="closed")
    _check_constraint(row, by, "change")
    stage = row.data.get("stage", "")
    cleaned, tokens = _text(row.kind, text) if text is not None else (row.text, row.tokens)
    kept = _data(row.kind, data, by, row.data) if data is not None else row.data
    if (cleaned, kept) == (row.text, row.data):
        return row
    if row.message is not None:
        kept = _marked(kept, cleaned, row.message, before=row)
    if by.is_agent and cleaned != row.text and kept.get("stage") == "approved":
        kept = {**kept, "stage": STAGES[0]}  # people approved other words
    if _words(cleaned, kept) != _words(row.text, row.data):
        row.author_id = by.participant_id
    if row.kind == Kind.CONSTRAINT and tokens > row.tokens:
        _check_constraints_fit(thread, tokens - row.tokens)
    row.text, row.tokens, row.data = cleaned, tokens, kept
    row.version += 1
    row.save(update_fields=["text", "tokens", "data", "author", "version", "updated_at"])
    told(thread)
    _tell_stage(row, stage, by)
    return row


@transaction.atomic
def close_work(*, item: WorkItem, by: Access, state: str = State.DONE, version: int | None = None) -> WorkItem:
    """Done, or dropped: it leaves prompts and handoffs, and only `reopen` brings it back. Closed twice is closed once.

    Raises Conflict when it was closed otherwise, or changed since `version`.
    """
    if state not in (State.DONE, State.DROPPED):
        raise Problem("Work is closed as done or dropped.", code="bad_state", field="state")
    thread, row = _locked(item, by)
    if row.state == state:
        return row
    if row.state != State.OPEN:
        raise Conflict(f"This is {row.get_state_display().lower()} already. Reopen it first.", code="closed")
    _check_version(row, version)
    _check_constraint(row, by, "close")
    row.state, row.closed_by_id, row.closed_at = state, by.participant_id, timezone.now()
    _save_state(row)
    told(thread)
    return row


@transaction.atomic
def reopen_work(*, item: WorkItem, by: Access, version: int | None = None) -> WorkItem:
    """It holds again, on purpose; an objective or a plan takes the place of the one that stands now.

    Agents may not reopen what people closed. Taking up an objective, a plan or a goal again is a milestone.
    """
    thread, row = _locked(item, by)
    if row.state == State.OPEN:
        return row
    _check_version(row, version)
    if by.is_agent and row.closed_by is not None and not row.closed_by.is_agent:
        raise Refused("A person closed this. Ask them to open it again.", code="closed_by_person")
    _make_room(thread, row.kind, row.tokens, by)
    row.state, row.closed_by, row.closed_at = State.OPEN, None, None
    _save_state(row)
    told(thread)
    if row.kind in (*ALONE, Kind.GOAL):
        milestone(thread, Compaction.Trigger.RESUME, by)
    return row


@transaction.atomic
def forget_quotes(*, message: Message) -> int:
    """The message was deleted: rows that say its words are dropped and say them no more; how many."""
    rows = WorkItem.objects.select_for_update(of=("self",)).filter(message=message, data__has_key=QUOTED)
    for row in rows:
        row.text, row.tokens, row.data = TAKEN_BACK, count(TAKEN_BACK), {}
        if row.state == State.OPEN:
            row.state, row.closed_at = State.DROPPED, timezone.now()
        row.version += 1
        row.save(update_fields=["text", "tokens", "data", "state", "closed_at", "version", "updated_at"])
    if rows:
        told(message.thread)
    return len(rows)


# --- checks -------------------------------------------------------------------------------------------------
def _text(kind: str, text: str) -> tuple[str, int]:
    """The text, and the tokens it needs in a prompt: a constraint of `<<<…` must not crowd out everything else."""
    cleaned = worded(text, field="text", most=TEXT_CHARACTERS)
    tokens, most = count(fenced_text(cleaned)), TOKENS_OF.get(Kind(kind), OTHER_TOKENS)
    if tokens > most:
        label = str(Kind(kind).label).lower()
        raise Problem(
            f"This has {tokens:,} tokens; {most:,} fit in one row ({label}). Shorten it, or keep the details in a "
            "message and say here what matters.",
            code="too_long",
            field="text",
        )
    return cleaned, tokens


def _data(kind: str, given: Mapping[str, Any], by: Access, before: Mapping[str, Any]) -> dict[str, Any]:
    """What stands, with what is given merged in; every value checked."""
    kept = dict(before)
    allowed = DATA_OF.get(kind, {})
    for key, value in given.items():
        if key not in allowed:
            known = f"It may have {', '.join(allowed)}." if allowed else "It has only its text."
            raise Problem(f"A row of this kind has no {str(key)[:40]!r}. {known}", code="bad_data", field="data")
        if value is None or value == "":
            kept.pop(key, None)
            continue
        if not isinstance(value, str):
            raise Problem(f"{key} is a text.", code="bad_data", field=key)
        kept[key] = worded(value, field=key, most=allowed[key])
    if (stage := kept.get("stage")) is not None and stage not in STAGES:
        raise Problem(f"A plan's stage is one of {', '.join(STAGES)}.", code="bad_data", field="stage")
    if by.is_agent and kept.get("stage") == "approved" and before.get("stage") != "approved":
        raise Refused("Only people approve a plan. Ask for an approval instead.", code="people_only")
    return kept


def _marked(data: Mapping[str, str], text: str, message: Message, before: WorkItem | None = None) -> dict[str, str]:
    """The data with the mark of a row any of whose words are the message's, or were when they were written down."""
    sources = [message.body.strip()]
    if before is not None and before.data.get(QUOTED):
        sources += _words(before.text, before.data)
    shared = any(source and (word in source or source in word) for source in sources for word in _words(text, data))
    return {key: value for key, value in data.items() if key != QUOTED} | ({QUOTED: "yes"} if shared else {})


def _words(text: str, data: Mapping[str, str]) -> list[str]:
    """All that a row says in somebody's words."""
    return [text, *(value for key, value in sorted(data.items()) if key not in (QUOTED, "stage"))]


def _source(message: Message, thread: Thread, by: Access) -> Message:
    """The message as it is now, held: whoever deletes it at this moment waits, and then finds what quotes it."""
    seen = Message.objects.visible_to(by).filter(pk=message.pk, thread=thread).order_by().values("pk")
    held = Message.objects.select_for_update(no_key=True).filter(pk__in=seen, deleted_at=None).first()
    if held is None:
        raise Missing("The message is not in this thread, or was deleted.")
    return held


def _check_version(row: WorkItem, version: int | None) -> None:
    if version is not None and version != row.version:
        raise Conflict(
            f"This was changed meanwhile: it is at version {row.version}. Read it, then change it again.", code="stale"
        )


def _check_constraint(row: WorkItem, by: Access, verb: str) -> None:
    if by.is_agent and row.kind == Kind.CONSTRAINT and not row.author.is_agent:
        raise Refused(f"A person set this constraint. Only people may {verb} it.", code="people_only")


def _make_room(thread: Thread, kind: str, tokens: int, by: Access) -> None:
    """The earlier objective or plan is dropped; other kinds have a limit."""
    rows = WorkItem.objects.filter(thread=thread, kind=kind, state=State.OPEN)
    if kind in ALONE:
        for earlier in rows:
            earlier.state, earlier.closed_by_id, earlier.closed_at = State.DROPPED, by.participant_id, timezone.now()
            _save_state(earlier)
        return
    if rows.count() >= OPEN_PER_KIND:
        raise Problem(
            f"This thread has {OPEN_PER_KIND} open rows of this kind, the most there may be. Close some first.",
            code="too_many",
            field="kind",
        )
    if kind == Kind.CONSTRAINT:
        _check_constraints_fit(thread, tokens + ROW_ENVELOPE)


def _check_constraints_fit(thread: Thread, more: int) -> None:
    rows = WorkItem.objects.filter(thread=thread, kind=Kind.CONSTRAINT, state=State.OPEN)
    found = rows.aggregate(tokens=Sum("tokens"), rows=Count("pk"))
    standing = (found["tokens"] or 0) + found["rows"] * ROW_ENVELOPE
    if standing + more > CONSTRAINTS_TOGETHER:
        raise Problem(
            f"Constraints stand in every prompt, so together they may need {CONSTRAINTS_TOGETHER:,} tokens; "
            f"with this one it would be {standing + more:,}. Shorten it, or drop one that no longer holds.",
            code="too_many",
            field="text",
        )


def _locked(item: WorkItem, by: Access) -> tuple[Thread, WorkItem]:
    """The thread's lock first, always, so that writers never wait for each other in a circle."""
    thread = locked_thread(Thread(pk=item.thread_id), by)
    rows = WorkItem.objects.select_for_update(of=("self",), no_key=True)  # a deletion may be wiping it just now
    return thread, rows.select_related("author", "closed_by", "message").get(pk=item.pk)


def _save_state(row: WorkItem) -> None:
    row.version += 1
    row.save(update_fields=["state", "closed_by", "closed_at", "version", "updated_at"])


def _tell_stage(row: WorkItem, before: str, by: Access) -> None:
    stage = row.data.get("stage", "")
    if row.kind == Kind.PLAN and stage in STAGES[1:] and stage != before:
        milestone(row.thread, Compaction.Trigger.MILESTONE, by)

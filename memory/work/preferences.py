"""Preferences that people say in messages: written down with the message, and changed with it.

What is found is a row of work in the words of its author, so that whoever reads the thread sees it, can make it
binding, or can say that it is none."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from memory.work.models import WorkItem
from memory.work.services import MAX_OPEN_PER_KIND, QUOTED_KEY, emit_work_changed
from memory.work.validation import DEFAULT_MAX_TOKENS
from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.fences import escape_text
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.preferences import find_preferences
from openvibe.workspaces.models import Participant

MAX_IMPORTED_MESSAGES = 4_000
"""Messages of an imported conversation, the newest of its one person, that are looked through for preferences."""

Kind, State = WorkItem.Kind, WorkItem.State


def add_preferences(message: Message) -> None:
    """Writes down what the message, of a member, asks for once and for all. No query where it asks for nothing."""
    if (texts := find_preferences(message.body)) and message.author.kind == Participant.Kind.MEMBER:
        _create_rows(message.thread, [(message, text) for text in texts])


@transaction.atomic
def revise_preferences(message: Message) -> None:
    """The message was edited: what it says no more is no preference any longer, what it says now is one."""
    texts = find_preferences(message.body)
    rows = WorkItem.objects.filter(message=message, kind=Kind.PREFERENCE, state=State.OPEN)
    gone = [row for row in rows if row.text not in texts]
    for row in gone:
        _drop(row)
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
        _create_rows(thread, [(message, text) for message in messages for text in find_preferences(message.body)])


def _create_rows(thread: Thread, found: Iterable[tuple[Message, str]]) -> None:
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
        _drop(row)
    emit_work_changed(thread)


def _drop(row: WorkItem) -> None:
    row.state, row.closed_at = State.DROPPED, timezone.now()
    row.version += 1
    row.save(update_fields=["state", "closed_at", "version", "updated_at"])

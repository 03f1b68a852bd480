"""Messages made ready for the page: rendered, grouped, with what upper floors add."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.safestring import SafeString, mark_safe

from openvibe.chat.markdown import render
from openvibe.chat.models import Message
from openvibe.chat.web.results import DiveChip, ResultShown, dives_from, results_of
from openvibe.workspaces.access import Access

GROUPED_WITHIN = timedelta(minutes=5)
Extras = Callable[[Sequence[Message], Access], dict[int, dict[str, object]]]


@dataclass(frozen=True)
class Row:
    """One message on the page. `starts_day` and `starts_group` follow from the message ahead of it."""

    message: Message
    html: SafeString
    extras: dict[str, object]
    starts_group: bool
    starts_day: bool
    is_first_new: bool
    is_mine: bool
    names_me: bool
    may_edit: bool
    may_delete: bool
    notes: tuple[str, ...]
    dives: tuple[DiveChip, ...] = ()
    result: ResultShown | None = None


@cache
def _sources() -> tuple[Extras, ...]:
    return tuple(import_string(path) for path in settings.MESSAGE_EXTRAS)


def extras_of(messages: Sequence[Message], access: Access) -> dict[int, dict[str, object]]:
    """What upper floors show on each message, merged: frozen values. A constant number of queries."""
    merged: dict[int, dict[str, object]] = {message.pk: {} for message in messages}
    for source in _sources():
        for message_id, added in source(messages, access).items():
            merged.setdefault(message_id, {}).update(added)
    return merged


def rows_of(
    messages: Sequence[Message], access: Access, *, before: Message | None = None, read_seq: int | None = None
) -> list[Row]:
    """Rows for the page, in order. `before` is the message just ahead; `read_seq` places the "New" line."""
    extras = extras_of(messages, access)
    dives, results = dives_from(messages), results_of(messages)
    rows = []
    for message in messages:
        row = _row(message, before, access, extras[message.pk], read_seq)
        rows.append(replace(row, dives=dives.get(message.pk, ()), result=results.get(message.pk)))
        before = message
    return rows


def _row(
    message: Message, before: Message | None, access: Access, extras: dict[str, object], read_seq: int | None
) -> Row:
    named = list(message.mentions.all())
    is_mine = message.author_id == access.participant_id
    is_first_new = read_seq is not None and 0 < read_seq == message.seq - 1
    starts_day = before is None or _day(before.created_at) != _day(message.created_at)
    writable = not message.is_deleted and message.state != Message.State.WRITING
    return Row(
        message=message,
        # render() gives sanitised HTML (openvibe.chat.markdown)
        html=mark_safe(render(message.body, handles=frozenset(m.participant.handle for m in named))),
        extras=extras,
        starts_group=starts_day or is_first_new or not _continues(message, before),
        starts_day=starts_day,
        is_first_new=is_first_new,
        is_mine=is_mine,
        names_me=any(m.participant_id == access.participant_id for m in named),
        may_edit=is_mine and writable and message.kind == Message.Kind.TEXT,
        may_delete=writable and (is_mine or access.administers),
        notes=tuple(m.note for m in named if m.note),
    )


def _day(moment: datetime) -> object:
    return timezone.localtime(moment).date()


def _continues(message: Message, before: Message | None) -> bool:
    return (
        before is not None
        and before.author_id == message.author_id
        and before.kind == message.kind == Message.Kind.TEXT
        and timedelta(0) <= message.created_at - before.created_at < GROUPED_WITHIN
    )

"""The HTML of messages. A page shows fifty of them and most were shown before, so what was rendered is remembered."""

import secrets

from django.conf import settings
from django.template import Context, Engine
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from openvibe.chat.models import Message, Thread
from openvibe.chat.web.rows import Row
from openvibe.workspaces.web.doors import WorkspaceRequest

REMEMBERED = 4096  # messages, in each process; forgotten all at once when there are more
LONGEST_REMEMBERED = 10_000  # characters
_TOKEN_PLACE = secrets.token_hex(16)  # nobody can guess it, so no message can hold it

_remembered: dict[tuple[object, ...], str] = {}


def message_html(row: Row, *, thread: Thread, request: WorkspaceRequest, csrf_token: str) -> SafeString:
    """`chat/_message.html` for one row. Only the asker's token differs between two rows that show the same."""
    shown = _all_it_shows(row, thread, request)
    html = _remembered.get(shown)
    if html is None:
        html = _rendered(row, thread, request)
        if row.message.state != Message.State.WRITING and len(html) <= LONGEST_REMEMBERED and not settings.DEBUG:
            if len(_remembered) >= REMEMBERED:
                _remembered.clear()
            _remembered[shown] = html
    return mark_safe(html.replace(_TOKEN_PLACE, csrf_token))


def _rendered(row: Row, thread: Thread, request: WorkspaceRequest) -> str:
    context = {"row": row, "thread": thread, "request": request, "csrf_token": _TOKEN_PLACE}
    return Engine.get_default().get_template("chat/_message.html").render(Context(context))


def _all_it_shows(row: Row, thread: Thread, request: WorkspaceRequest) -> tuple[object, ...]:
    """Everything the template and the fragments in it read: what is added there is added here."""
    message, author = row.message, row.message.author
    return (
        request.workspace.slug, request.access.is_guest, timezone.get_current_timezone_name(),
        thread.pk, thread.parent_id,
        message.pk, message.seq, message.kind, message.state, message.body, message.client_id,
        message.created_at, message.edited_at, message.deleted_at,
        author.pk, author.name, author.handle, author.kind, author.agent.level if author.is_agent else None,
        row.html, row.starts_group, row.starts_day, row.is_first_new, row.is_mine, row.names_me,
        row.may_edit, row.may_delete, row.notes, row.dives, row.result, tuple(row.extras.items()),
    )  # fmt: skip

"""A stretch of a thread for its page: the rows, and what lies before and after them."""

from typing import Any

from openvibe.chat.models import Thread
from openvibe.chat.querysets import messages_between
from openvibe.chat.web.numbers import number
from openvibe.chat.web.rows import rows_of
from openvibe.workspaces.web.doors import WorkspaceRequest

PAGE = 50
"""Messages."""


def stretch(request: WorkspaceRequest, found: Thread) -> dict[str, Any]:
    """What `chat/_messages.html` shows: `?at=`, `?before_seq=`, `?after_seq=` choose the stretch, the newest without.

    With `?live` no "New" line is drawn, nor in a thread that was loaded without `read_seq`.
    """
    place = {name: number(request.GET, name) for name in ("before_seq", "after_seq")}
    part = messages_between(found, request.access, around_seq=number(request.GET, "at"), size=PAGE, **place)
    read_seq = None if "live" in request.GET else getattr(found, "read_seq", None)
    rows = rows_of(part.rows, request.access, before=part.before, read_seq=read_seq)
    return {
        "rows": rows,
        "first_seq": rows[0].message.seq if rows else 0,
        "last_seq": rows[-1].message.seq if rows else 0,
        "has_older": part.before is not None,
        "has_newer": part.has_newer,
    }

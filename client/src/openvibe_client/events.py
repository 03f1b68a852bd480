"""The event stream, read for as long as there is one: comes back after a break and goes on where it was."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from openvibe_client.http import Api, ApiError, Unanswered, backoff_seconds

SILENCE_SECONDS = 60.0
"""The server says something every 25 seconds; after so many without a word the connection is dead."""

BUSY_FAILURES = 7
"""The number of failures that a busy server counts as: a server that has no room for another listener wants half a
minute."""


@dataclass(frozen=True)
class Frame:
    """One event, or that the stream is open or still there (`kind` is empty). `position` is where to go on after it."""

    position: int
    kind: str
    data: dict[str, Any]


def iter_events(api: Api, *, kinds: Sequence[str], after: int | None = None) -> Iterator[Frame]:
    """Events of these kinds, as they happen, after a position or from now on. The first frame comes as soon as the
    stream is open: nothing is missed from there. Frames without a kind say how far that is, where all that came was
    for others. Raises ApiError when the token may not listen (any more). A frame of kind `reload` says that what was
    missed is not kept any more."""
    query = [("include", "data"), *(("kind", kind) for kind in kinds)]
    position, failures, is_opened = after, 0, False
    while True:
        try:
            headers = {} if position is None else {"Last-Event-ID": str(position)}
            for frame in _parse(api.lines("events/", query=query, headers=headers, silence=SILENCE_SECONDS)):
                failures = BUSY_FAILURES if frame.kind == "busy" else 0
                if frame.kind == "gone":
                    raise ApiError(403, "gone", "This token may not listen any more.")
                is_ahead = frame.position > (position or 0)
                position = frame.position or position
                if frame.kind in (*kinds, "reload") or (not frame.kind and (is_ahead or not is_opened)):
                    is_opened = True
                    yield frame
        except Unanswered:
            pass
        except ApiError as error:
            if error.status < 500 and not error.is_away:
                raise
        time.sleep(backoff_seconds(failures))
        failures += 1


def _parse(lines: Iterator[bytes]) -> Iterator[Frame]:
    """The frames of a stream of server-sent events; what is none is passed over."""
    position, kind, data = 0, "", ""
    for line in lines:
        name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if name == "id" and value.isascii() and value.isdigit():
            position = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            data += value
        elif not name and not value:
            yield Frame(position, kind, _decode(data))
            kind, data = "", ""


def _decode(data: str) -> dict[str, Any]:
    try:
        decoded = json.loads(data or "{}")
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}

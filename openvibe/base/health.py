"""Health checks for load balancers and supervisors, answered before all else, for any host name."""

import asyncio
from collections.abc import Callable

from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed, JsonResponse

from openvibe.base.disk import least_room, written_folders
from openvibe.base.outages import unavailable_from
from openvibe.engines.serving.streams import Send, stream_response

STREAM_SECONDS = 10.0
"""How long a stream of the health check goes on after its event: whoever holds it back is noticed sooner."""


def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(request: HttpRequest) -> HttpResponse:
    """The process answers, reaches its database, and has room to write: `{"status": "ready"}`, or 503 with a code and
    the reason."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error as error:
        problem = unavailable_from(error)
        return _not_ready("database", problem.message if problem else "The database refuses what it is asked.")
    try:
        room = least_room(written_folders())
    except OSError as error:
        return _not_ready("disk", f"A disk cannot be asked for its free space: {error.strerror}.")
    if room.free < room.needed:
        free, needed = (f"{size / 1024**2:,.0f}" for size in (room.free, room.needed))
        return _not_ready("disk_full", f"The server's disk is full: {free} MiB are left, {needed} are needed.")
    return JsonResponse({"status": "ready"})


def _not_ready(code: str, reason: str) -> HttpResponse:
    return JsonResponse(
        {"status": "unavailable", "code": code, "reason": reason}, status=503, headers={"Retry-After": 5}
    )


def health_events(request: HttpRequest) -> HttpResponseBase:
    """A stream of one event, as pages have them: `manage.py doctor --url` asks whether it arrives."""
    return stream_response(request, _send_event, is_endless=True)


async def _send_event(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"data: ok\n\n", "more_body": True})
    await asyncio.sleep(STREAM_SECONDS)
    await send({"type": "http.response.body", "body": b""})


CHECKS: dict[str, Callable[[HttpRequest], HttpResponseBase]] = {
    "/healthz": healthz,
    "/readyz": readyz,
    "/healthz/events/": health_events,
}


class HealthMiddleware:
    """Answers `/healthz` and `/readyz`, whatever host the probe names: many ask by IP."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        check = CHECKS.get(request.path_info)
        if check is None:
            return self.get_response(request)
        return check(request) if request.method in ("GET", "HEAD") else HttpResponseNotAllowed(["GET", "HEAD"])

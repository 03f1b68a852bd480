"""Health checks for load balancers and supervisors, answered before all else, for any host name."""

from collections.abc import Callable

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed


def healthz() -> HttpResponse:
    """The process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz() -> HttpResponse:
    """The process answers and reaches its database."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return HttpResponse("database unreachable\n", status=503, content_type="text/plain")
    return HttpResponse("ready\n", content_type="text/plain")


CHECKS: dict[str, Callable[[], HttpResponse]] = {"/healthz": healthz, "/readyz": readyz}


class HealthMiddleware:
    """Answers `/healthz` and `/readyz`, whatever host the probe names: many ask by IP."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        check = CHECKS.get(request.path_info)
        if check is None:
            return self.get_response(request)
        return check() if request.method in ("GET", "HEAD") else HttpResponseNotAllowed(["GET", "HEAD"])

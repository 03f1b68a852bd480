"""Health checks for load balancers and supervisors: `/healthz` and `/readyz`."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """The process answers and reaches its database."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return HttpResponse("database unreachable\n", status=503, content_type="text/plain")
    return HttpResponse("ready\n", content_type="text/plain")


urlpatterns = [path("healthz", healthz, name="healthz"), path("readyz", readyz, name="readyz")]

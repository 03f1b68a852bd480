"""Pages for what went wrong: what happened, what was kept, what to do."""

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form's key is missing or old: a sign-in elsewhere, or a page kept open for long."""
    return render(request, "errors/csrf.html", status=403)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that cannot be read, or is larger than any form here. Reads nothing of it: that is what failed."""
    is_large = isinstance(exception, RequestDataTooBig)
    return render(request, "errors/bad_request.html", {"is_large": is_large}, status=413 if is_large else 400)

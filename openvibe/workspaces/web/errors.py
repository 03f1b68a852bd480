"""Pages for what went wrong: what happened, what was kept, what to do."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form's key is missing or old: a sign-in elsewhere, or a page kept open for long."""
    return render(request, "errors/csrf.html", status=403)

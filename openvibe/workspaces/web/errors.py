"""What is answered when a request cannot be read, is not trusted, or fails."""

import sys

import structlog
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.defaults import server_error as django_server_error

from openvibe.api.problems import INTERNAL_PROBLEM, MEDIA_TYPE, problem_body
from openvibe.base.outages import unavailable_from
from openvibe.base.problems import Refused
from openvibe.workspaces.decorators import problem_response, unsaved_texts, wants_json

STALE_PAGE = (
    "This page was open for too long: you signed in or out somewhere else since. Nothing was changed, and what you "
    "typed is still here. Copy it, reload the page and send it again."
)
log = structlog.get_logger(__name__)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form's key is missing or old: a sign-in elsewhere, or a page kept open for long."""
    if wants_json(request) or request.headers.get("HX-Request"):
        return problem_response(request, Refused(STALE_PAGE, code="stale_page"))
    is_our_form = request.headers.get("Sec-Fetch-Site") == "same-origin"
    return render(request, "errors/csrf.html", {"kept": unsaved_texts(request) if is_our_form else []}, status=403)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that cannot be read, or is larger than any form here. Reads nothing of it: that is what failed."""
    is_large = isinstance(exception, RequestDataTooBig)
    return render(request, "errors/bad_request.html", {"is_large": is_large}, status=413 if is_large else 400)


def server_error(request: HttpRequest) -> HttpResponse:
    """Whatever nothing else answered: a fault of ours, or 503 with a sentence when it is the database's."""
    error = sys.exc_info()[1]
    outage = unavailable_from(error)
    if request.path.startswith("/api/"):
        body = problem_body(outage) if outage else INTERNAL_PROBLEM
        response: HttpResponse = JsonResponse(body, status=body["status"], content_type=MEDIA_TYPE)
    else:
        response = problem_response(request, outage) if outage else django_server_error(request)
    if outage:
        log.error("database_unavailable", error=str(error), path=request.path)
        vars(response)["_has_been_logged"] = True  # no traceback for every call of an outage
        response.headers["Retry-After"] = str(outage.retry_after)
    return response

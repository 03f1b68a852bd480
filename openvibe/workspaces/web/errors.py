"""What is answered when a request cannot be read, is not trusted, or fails."""

import sys

import structlog
from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import REASON_BAD_ORIGIN
from django.shortcuts import render
from django.views.defaults import server_error as django_server_error

from openvibe.api.problems import INTERNAL_PROBLEM, MEDIA_TYPE, problem_body
from openvibe.base.outages import unavailable_from
from openvibe.base.problems import Problem, Refused
from openvibe.engines.serving.proxy_headers import HttpsEndsFurtherOut, InsecureConnection
from openvibe.engines.serving.request_body import MAX_UPLOAD_BYTES
from openvibe.workspaces.decorators import problem_response, unsaved_texts, wants_json

STALE_PAGE = (
    "This page was open for too long: you signed in or out somewhere else since. Nothing was changed, and what you "
    "typed is still here. Copy it, reload the page and send it again."
)
OTHER_ORIGIN = (
    "What you sent comes from a page at another address than this OpenVibe knows as its own. Nothing was changed. If "
    "the address in your browser is right, whoever runs OpenVibe names it in OPENVIBE_CSRF_TRUSTED_ORIGINS, or has the "
    "proxy pass on the Host header as it is."
)
BAD_REQUESTS: tuple[tuple[type[Exception], int, str, str], ...] = (
    (
        RequestDataTooBig,
        413,
        "Too large",
        f"What was sent is larger than one request may be: {MAX_UPLOAD_BYTES // 1024**2} MB with files, "
        f"{settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1024**2} MB without. Nothing was kept or changed. Go back and send "
        "less: a message has at most 100,000 characters and five files of "
        f"{settings.MAX_FILE_BYTES // 1024**2} MB each, an import one file of 25 MB. A larger export is read on the "
        "server, by whoever runs OpenVibe, with manage.py conversation import.",
    ),
    (
        DisallowedHost,
        400,
        "OpenVibe is not at this address",
        "The address in your browser is not one that this OpenVibe answers to. If it is right, whoever runs OpenVibe "
        "names it in OPENVIBE_ALLOWED_HOSTS, with a port of its own in OPENVIBE_PUBLIC_URL, too, and has the proxy "
        "pass on the Host header as it is.",
    ),
    (
        HttpsEndsFurtherOut,
        400,
        "The proxy says HTTP, and your browser HTTPS",
        "Your browser came over HTTPS, and the proxy in front of this OpenVibe says that it was HTTP. Whoever runs it "
        "has that proxy send X-Forwarded-Proto: https or, where HTTPS ends at another proxy further out, pass on the "
        "header X-Forwarded-Proto that comes from there.",
    ),
    (
        InsecureConnection,
        400,
        "Nothing says that this is HTTPS",
        "This OpenVibe answers over HTTPS alone, and was not told that this request came that way. Whoever runs it "
        "puts a proxy with HTTPS in front, which adds the header X-Forwarded-Proto: https to every request.",
    ),
)
"""Answers by what was raised: the status, and what to say."""
UNREADABLE = (
    400,
    "Not understood",
    "What your browser sent could not be read. Nothing was changed. Go back, reload the page and try again.",
)
log = structlog.get_logger(__name__)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form's key is missing or old (a sign-in elsewhere, or a page kept open for long), or its page is not ours."""
    is_other_origin = reason.endswith(REASON_BAD_ORIGIN.rpartition("%s")[2])  # of the header Origin, or of Referer
    if wants_json(request) or request.headers.get("HX-Request"):
        problem = (
            Refused(OTHER_ORIGIN, code="other_origin") if is_other_origin else Refused(STALE_PAGE, code="stale_page")
        )
        return problem_response(request, problem)
    is_our_form = request.headers.get("Sec-Fetch-Site") == "same-origin"
    context = {
        "kept": unsaved_texts(request) if is_our_form else [],
        "other_origin": OTHER_ORIGIN if is_other_origin else "",
    }
    return render(request, "errors/csrf.html", context, status=403)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that cannot be read, is larger than any form here, or came by a way that is not ours. Reads nothing of
    it: that is what failed."""
    status, title, words = next((row[1:] for row in BAD_REQUESTS if isinstance(exception, row[0])), UNREADABLE)
    if request.path.startswith("/api/"):
        body = {**problem_body(Problem(words)), "status": status}
        return JsonResponse(body, status=status, content_type=MEDIA_TYPE)
    return render(request, "errors/bad_request.html", {"title": title, "words": words}, status=status)


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

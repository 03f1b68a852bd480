"""Every error as `application/problem+json` (RFC 9457) with a stable `code`."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from openvibe.base.outages import unavailable_from
from openvibe.base.problems import Missing, Problem
from openvibe.engines.serving.request_body import MAX_UPLOAD_BYTES

MEDIA_TYPE = "application/problem+json"
log = structlog.get_logger(__name__)


class TooLarge(Problem):
    status = 413
    code = "too_large"


TOO_LARGE = (
    f"What was sent is larger than one request may be: {MAX_UPLOAD_BYTES // 1024**2} MB with files, "
    f"{settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1024**2} MB without. Nothing was kept. Send less at a time; a larger "
    "export of conversations is read on the server, with manage.py conversation import."
)


class LengthRequired(Problem):
    status = 411
    code = "length_required"


def problem_details(
    status: int, code: str, detail: str, *, field: str | None = None, errors: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    """The body of an error. Nothing in it tells an invisible thing from an unknown one."""
    return {
        "type": f"urn:openvibe:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        **({"field": field} if field else {}),
        **({"errors": errors} if errors else {}),
    }


INTERNAL_PROBLEM = problem_details(500, "internal", "Something went wrong here. It has been noted; try again later.")


def problem_body(problem: Problem) -> dict[str, Any]:
    return {**problem_details(problem.status, problem.code, problem.message, field=problem.field), **problem.facts}


def flatten_errors(detail: Any, path: str = "") -> list[dict[str, str]]:
    """Serializer errors, nested as they are, as a list of field, code and sentence."""
    if isinstance(detail, dict):
        return [e for name, inner in detail.items() for e in flatten_errors(inner, _join_path(path, str(name)))]
    if isinstance(detail, (list, tuple)):
        return [
            e
            for position, inner in enumerate(detail)
            for e in flatten_errors(inner, _join_path(path, str(position)) if isinstance(inner, (dict, list)) else path)
        ]
    return [{"field": path, "code": str(getattr(detail, "code", "invalid")), "message": str(detail)}]


def _join_path(path: str, name: str) -> str:
    if name == "non_field_errors":
        return path
    return f"{path}.{name}" if path else name


EXCEPTION_CODES: dict[type[exceptions.APIException], tuple[str, str]] = {
    exceptions.NotAuthenticated: ("not_authenticated", "Sign in, or send a token: Authorization: Bearer ovk_…"),
    exceptions.AuthenticationFailed: ("bad_token", ""),
    exceptions.MethodNotAllowed: ("method_not_allowed", ""),
    exceptions.UnsupportedMediaType: ("unsupported_media_type", "Send JSON: Content-Type: application/json"),
    exceptions.Throttled: ("throttled", "Too many calls. Wait as long as Retry-After says, then go on."),
    exceptions.PermissionDenied: ("not_allowed", ""),
    exceptions.ParseError: ("bad_json", ""),
}


def error_to_problem(error: Exception) -> dict[str, Any] | None:
    """The body for an error the caller can mend or that passes; None when the fault is ours."""
    error = unavailable_from(error) or error
    if isinstance(error, Problem):
        return problem_body(error)
    if isinstance(error, Http404 | exceptions.NotFound):
        return problem_details(404, Missing.code, Missing().message)
    if isinstance(error, exceptions.ValidationError):
        errors = flatten_errors(error.detail)
        first = errors[0] if errors else {"field": "", "message": "The request is not valid."}
        detail = f"{first['field']}: {first['message']}" if first["field"] else first["message"]
        return problem_details(400, "invalid", detail, field=first["field"] or None, errors=errors)
    if isinstance(error, exceptions.APIException) and error.status_code < 500:
        code, detail = EXCEPTION_CODES.get(type(error), ("bad_request", ""))
        return problem_details(error.status_code, code, detail or str(error.detail))
    if isinstance(error, PermissionDenied):
        return problem_details(403, "not_allowed", "You may not do this.")
    if isinstance(error, RequestDataTooBig):
        return problem_details(413, TooLarge.code, TOO_LARGE)
    if isinstance(error, SuspiciousOperation):
        return problem_details(400, "bad_request", "The request could not be understood.")
    return None


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler. What is our fault is logged and reported, and answered without details."""
    headers: dict[str, str] = {}
    if outage := unavailable_from(error):
        log.error("database_unavailable", error=str(error))
        headers["Retry-After"] = str(outage.retry_after)
    if isinstance(error, exceptions.APIException):
        if auth_header := getattr(error, "auth_header", None):
            headers["WWW-Authenticate"] = auth_header
        if wait := getattr(error, "wait", None):
            headers["Retry-After"] = str(max(1, int(wait)))
    body = error_to_problem(error)
    if isinstance(error, exceptions.UnsupportedMediaType) and body is not None:
        parsers = getattr(context.get("view"), "parser_classes", ())
        body["detail"] = f"Send one of these as Content-Type: {', '.join(parser.media_type for parser in parsers)}"
    if isinstance(error, Problem) and body is not None and "field" in body:
        names: Mapping[str, str] = getattr(context.get("view"), "field_names", {})
        body["field"] = names.get(body["field"], body["field"])
    if body is None:
        request = context.get("request")
        log.error("api_error", exc_info=error)
        got_request_exception.send(sender=None, request=getattr(request, "_request", request))
        body = INTERNAL_PROBLEM
    return Response(body, status=body["status"], headers=headers, content_type=MEDIA_TYPE)

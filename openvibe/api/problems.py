"""Every error as `application/problem+json` (RFC 9457) with a stable `code`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from openvibe.base.problems import Missing, Problem

MEDIA_TYPE = "application/problem+json"
NOT_HERE = Missing().message
log = structlog.get_logger(__name__)


class TooLarge(Problem):
    status = 413
    code = "too_large"


class LengthRequired(Problem):
    status = 411
    code = "length_required"


class BadCursor(Problem):
    code = "bad_cursor"


def problem(
    status: int, code: str, detail: str, *, field: str | None = None, errors: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    """The body of an error. Nothing in it tells an invisible thing from an unknown one."""
    body: dict[str, Any] = {
        "type": f"urn:openvibe:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if field:
        body["field"] = field
    if errors:
        body["errors"] = errors
    return body


def flat(detail: Any, path: str = "") -> list[dict[str, str]]:
    """Serializer errors, nested as they are, as a list of field, code and sentence."""
    if isinstance(detail, dict):
        return [e for name, inner in detail.items() for e in flat(inner, _joined(path, str(name)))]
    if isinstance(detail, (list, tuple)):
        found: list[dict[str, str]] = []
        for place, inner in enumerate(detail):
            deeper = _joined(path, str(place)) if isinstance(inner, (dict, list)) else path
            found.extend(flat(inner, deeper))
        return found
    return [{"field": path, "code": str(getattr(detail, "code", "invalid")), "message": str(detail)}]


def _joined(path: str, name: str) -> str:
    if name == "non_field_errors":
        return path
    return f"{path}.{name}" if path else name


def _of_validation(error: exceptions.ValidationError) -> dict[str, Any]:
    errors = flat(error.detail)
    first = errors[0] if errors else {"field": "", "message": "The request is not valid."}
    where = f"{first['field']}: " if first["field"] else ""
    return problem(400, "invalid", where + first["message"], field=first["field"] or None, errors=errors)


CODES: dict[type[exceptions.APIException], tuple[str, str]] = {
    exceptions.NotAuthenticated: (
        "not_authenticated", "Sign in, or send a token: Authorization: Bearer ovk_…"),
    exceptions.AuthenticationFailed: ("bad_token", ""),
    exceptions.MethodNotAllowed: ("method_not_allowed", ""),
    exceptions.UnsupportedMediaType: ("unsupported_media_type", "Send JSON: Content-Type: application/json"),
    exceptions.Throttled: ("throttled", "Too many calls. Wait as long as Retry-After says, then go on."),
    exceptions.PermissionDenied: ("not_allowed", ""),
    exceptions.ParseError: ("bad_json", ""),
}  # fmt: skip


def _of_api(error: exceptions.APIException) -> dict[str, Any]:
    if isinstance(error, exceptions.ValidationError):
        return _of_validation(error)
    if isinstance(error, exceptions.NotFound):
        return problem(404, Missing.code, NOT_HERE)
    code, detail = CODES.get(type(error), ("bad_request", ""))
    return problem(error.status_code, code, detail or str(error.detail))


def body_of(error: Exception) -> dict[str, Any] | None:
    """The body for an error the caller can mend; None when the fault is ours."""
    if isinstance(error, Problem):
        return problem(error.status, error.code, error.message, field=error.field)
    if isinstance(error, exceptions.APIException):
        return _of_api(error) if error.status_code < 500 else None
    if isinstance(error, Http404):
        return problem(404, Missing.code, NOT_HERE)
    if isinstance(error, PermissionDenied):
        return problem(403, "not_allowed", "You may not do this.")
    if isinstance(error, RequestDataTooBig):
        return problem(413, TooLarge.code, "The request is too large.")
    if isinstance(error, SuspiciousOperation):
        return problem(400, "bad_request", "The request could not be understood.")
    return None


def problem_answer(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler. What is our fault is logged and reported, and told without details."""
    headers: dict[str, str] = {}
    if isinstance(error, exceptions.APIException):
        if auth_header := getattr(error, "auth_header", None):
            headers["WWW-Authenticate"] = auth_header
        if wait := getattr(error, "wait", None):
            headers["Retry-After"] = str(max(1, int(wait)))
    body = body_of(error)
    if body is None:
        request = context.get("request")
        log.error("api_error", exc_info=error)
        got_request_exception.send(sender=None, request=getattr(request, "_request", request))
        body = problem(500, "internal", "Something went wrong here. It has been noted; try again later.")
    return Response(body, status=body["status"], headers=headers, content_type=MEDIA_TYPE)

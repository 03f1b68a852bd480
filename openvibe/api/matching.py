"""`If-Match`: who changes a row with versions names the one they read. Missing: 428; another than the newest: 412."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.base.problems import Problem

IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, required=True,
    description='The ETag the row was read with, such as `"3"`.',
)  # fmt: skip


class StaleMatch(Problem):
    status = 412
    code = "stale"


class NoMatch(Problem):
    status = 428
    code = "if_match_required"


def if_match(request: Request) -> str | None:
    """The entity tag that was sent, without quotes; None when there is none."""
    given = request.headers.get("If-Match")
    return None if given is None else given.strip().removeprefix("W/").strip('"')


def required_match(request: Request) -> str:
    """Raises NoMatch when the caller does not say what it began from."""
    given = if_match(request)
    if given is None:
        raise NoMatch("Send the ETag of the version you began from as If-Match.", field="If-Match")
    return given


def matched(request: Request, version: int) -> int:
    """The version that If-Match names, when it is the current one. Raises NoMatch, StaleMatch."""
    number = required_match(request)
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise StaleMatch('If-Match is the ETag of the row, such as "3".', field="If-Match")
    if int(number) != version:
        raise StaleMatch(f"The newest version is {version}. Read it, compare, then send it again.", field="If-Match")
    return version


def with_etag(answer: Response, version: int) -> Response:
    answer.headers["ETag"] = f'"{version}"'
    return answer

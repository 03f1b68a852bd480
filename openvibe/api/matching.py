"""`If-Match`: who changes a row with versions names the one they read, as the ETag it came with."""

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


def matched(request: Request, version: int) -> int:
    """The version that If-Match names, when it is the current one. Raises NoMatch, StaleMatch."""
    given = request.headers.get("If-Match")
    if given is None:
        raise NoMatch("Send the ETag of the version you began from as If-Match.", field="If-Match")
    number = given.strip().removeprefix("W/").strip('"')
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise StaleMatch('If-Match is the ETag of the row, such as "3".', field="If-Match")
    if int(number) != version:
        raise StaleMatch(f"The newest version is {version}. Read it, compare, then send it again.", field="If-Match")
    return version


def with_etag(answer: Response, version: int) -> Response:
    answer.headers["ETag"] = f'"{version}"'
    return answer

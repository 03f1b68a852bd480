"""`If-Match` and `ETag`: who changes a row with versions names the one they read. Missing: 428; another than the
newest: 412."""

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.base.problems import Problem

IF_MATCH_PARAMETER = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    required=True,
    description='The ETag the row was read with, such as `"3"`.',
)


class PreconditionFailed(Problem):
    status = 412
    code = "stale"


class PreconditionRequired(Problem):
    status = 428
    code = "if_match_required"


def read_if_match(request: Request) -> str | None:
    """The entity tag that was sent, without quotes; None when there is none."""
    header = request.headers.get("If-Match")
    return None if header is None else header.strip().removeprefix("W/").strip('"')


def require_if_match(request: Request) -> str:
    """Raises PreconditionRequired when the caller does not say what it began from."""
    etag = read_if_match(request)
    if etag is None:
        raise PreconditionRequired("Send the ETag of the version you began from as If-Match.", field="If-Match")
    return etag


def check_if_match(request: Request, version: int) -> int:
    """The version that If-Match names, when it is the current one. Raises PreconditionRequired, PreconditionFailed."""
    etag = require_if_match(request)
    if not (etag.isascii() and etag.isdigit() and len(etag) < 10):
        raise PreconditionFailed('If-Match is the ETag of the row, such as "3".', field="If-Match")
    if int(etag) != version:
        message = f"The newest version is {version}. Read it, compare, then send it again."
        raise PreconditionFailed(message, field="If-Match")
    return version


def set_etag(response: Response, version: int) -> Response:
    response.headers["ETag"] = f'"{version}"'
    return response

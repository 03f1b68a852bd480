"""Middleware of every request: an id in and out, forms in UTF-8, and the content policy the admin's theme needs."""

import codecs
import gzip
import re
import secrets
import uuid
from collections.abc import Callable

import structlog
from csp.constants import HEADER, SELF, UNSAFE_EVAL, UNSAFE_INLINE
from csp.utils import build_policy
from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from zlib_ng import zlib_ng

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

# django-unfold ships Alpine and inline styles; only its own pages get that room.
ADMIN_CONTENT_POLICY = {"script-src": [SELF, UNSAFE_EVAL, UNSAFE_INLINE], "style-src": [SELF, UNSAFE_INLINE]}


def request_id_of(header: str) -> str:
    """The header's word when it is a plain one, else a new id."""
    return header if REQUEST_ID.fullmatch(header) else uuid.uuid4().hex


class RequestIdMiddleware:
    """`X-Request-ID` is taken over when it is a plain word, else made; it is in every log line and answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = request_id_of(request.headers.get("X-Request-ID", ""))
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        response = self.get_response(request)
        response.headers["X-Request-ID"] = request_id
        return response


class MultipartCharsetMiddleware:
    """Forms with files are UTF-8, as Django has it for other forms: 400 for one that says it is not.

    Python's codecs have names that give no text, or halves of characters. The API answers for itself.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_form = request.content_type == "multipart/form-data" and not request.path.startswith("/api/")
        if is_form and request.encoding and codecs.lookup(request.encoding).name != "utf-8":
            raise BadRequest("A form with files must be UTF-8.")
        return self.get_response(request)


class SlashMiddleware:
    """An address of the API without its last slash is the same address: the slash is added before it is looked up. A
    redirect would lose the body of a POST."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/api/") and not request.path_info.endswith("/"):
            request.path_info += "/"
            request.path += "/"
        return self.get_response(request)


TAKES_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")
"""A pattern of `Accept-Encoding` (RFC 9110 12.5.3)."""
MIN_COMPRESSED_BYTES = 200
COMPRESSION_LEVEL = 5  # of zlib-ng: within 2 % of level 6 of zlib, in 40 % of its time
MAX_PADDING_BYTES = 100
GZIP_WINDOW_BITS = 31  # of zlib: 15 bits of window, and a gzip header


class CompressionMiddleware:
    """Compresses what is sent whole: pages, fragments, JSON. Streams stay as they are, or their events would wait.

    Against BREACH: each answer is up to 100 random bytes longer, form tokens are masked anew each time, and the
    session's cookie goes with no request that another site's page makes in the background.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if isinstance(response, HttpResponse) and len(response.content) >= MIN_COMPRESSED_BYTES:
            _compress(response, request.headers.get("Accept-Encoding", ""))
        return response


def _compress(response: HttpResponse, accept_encoding: str) -> None:
    if response.has_header("Content-Encoding"):
        return
    patch_vary_headers(response, ("Accept-Encoding",))
    if not TAKES_GZIP.search(accept_encoding):
        return
    gzip_body = _gzip_with_padding(response.content)
    if len(gzip_body) >= len(response.content):
        return
    response.content = gzip_body
    response.headers["Content-Length"] = str(len(gzip_body))
    response.headers["Content-Encoding"] = "gzip"
    if (etag := response.headers.get("ETag", "")).startswith('"'):
        response.headers["ETag"] = f"W/{etag}"  # RFC 9110 8.8.1


def _gzip_with_padding(content: bytes) -> bytes:
    """Gzip (RFC 1952) with a file name of random length in its header, as Django's own has it."""
    gzip_body = zlib_ng.compress(content, COMPRESSION_LEVEL, GZIP_WINDOW_BITS)
    padding = b"a" * secrets.randbelow(MAX_PADDING_BYTES)
    return b"".join((gzip_body[:3], bytes([gzip.FNAME]), gzip_body[4:10], padding, b"\0", gzip_body[10:]))


LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
"""Hosts whose pages browsers take for secure without a certificate."""


class PrivateCacheMiddleware:
    """What a session opened is kept by no cache but the browser's own, which keeps whole pages: "Back" leads to where
    one was. When the session ends, or another one begins, the browser is told to forget them (`Clear-Site-Data`).

    Browsers heed that on secure pages alone: elsewhere nothing is kept. Answers that say themselves how long they hold,
    files above all, and pages that show a secret (`never_cache`), keep their word.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if "Cookie" in response.headers.get("Vary", ""):
            is_kept = _is_page(request, response) and _clears_site_data(request)
            response.headers.setdefault("Cache-Control", "private, no-cache" if is_kept else "private, no-store")
        if _ends_session(request, response):
            response.headers["Clear-Site-Data"] = '"cache"'
        return response


def _is_page(request: HttpRequest, response: HttpResponse) -> bool:
    """Whether it is a page that somebody went to, no part of one."""
    is_html = response.headers.get("Content-Type", "").startswith("text/html")
    return request.method == "GET" and response.status_code == 200 and is_html and "HX-Request" not in request.headers


def _clears_site_data(request: HttpRequest) -> bool:
    return request.is_secure() or split_domain_port(request.get_host())[0] in LOOPBACK_HOSTS


def _ends_session(request: HttpRequest, response: HttpResponse) -> bool:
    """Whether the session's cookie that came is taken away, or another takes its place."""
    held = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    cookie = response.cookies.get(settings.SESSION_COOKIE_NAME)
    return bool(held) and cookie is not None and cookie.value != held


class PathContentSecurityPolicyMiddleware:
    """The strict policy everywhere, loosened for /admin/ alone. Both are written out once, when the server starts.

    Developer error pages (`DEBUG`) go without: Django's own has its styles inline.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._policy = build_policy()
        self._admin_policy = build_policy(update=ADMIN_CONTENT_POLICY)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not settings.DEBUG or response.status_code not in (404, 500):
            policy = self._admin_policy if request.path.startswith("/admin/") else self._policy
            response.headers.setdefault(HEADER, policy)
        return response

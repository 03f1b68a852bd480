"""What the proxy in front says of a request: whether it came over HTTPS, and from which address."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from django.conf import settings
from django.core import checks
from django.core.exceptions import BadRequest, MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

from openvibe.engines.serving.logs import LogThrottle

LOG_SECONDS = 600.0
"""How often at most the log of a process says the same of the proxy."""
THIS_MACHINE = re.compile(r"((.+\.)?localhost|127\.[\d.]+|\[::1\])(:\d*)?")
"""Hosts that browsers trust over HTTP, too."""
COUNT_PROXIES = (
    "Set OPENVIBE_TRUSTED_PROXIES to the number of proxies of your own that add to X-Forwarded-For, mostly 1."
)
log = structlog.get_logger(__name__)


class InsecureConnection(BadRequest):
    """Nothing says that a request came over HTTPS, where only HTTPS is answered."""


class HttpsEndsFurtherOut(InsecureConnection):
    """The proxy says that a request came over HTTP, and the browser that it came over HTTPS."""


class ProxyHeadersMiddleware:
    """A middleware for servers where a proxy has to say that requests come over HTTPS (`SECURE_PROXY_SSL_HEADER`), 400
    for what says nothing, and for what a browser sent over HTTPS and the proxy calls HTTP: Django's redirect to HTTPS
    would come back the same way, again and again. What is wrong with the headers stands in the log, with what to do.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not (settings.SECURE_SSL_REDIRECT and settings.SECURE_PROXY_SSL_HEADER):
            raise MiddlewareNotUsed
        self.get_response = get_response
        self.proto_header, _ = settings.SECURE_PROXY_SSL_HEADER
        self.log_throttle = LogThrottle(LOG_SECONDS)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not is_public_file(request.path_info):
            self._check_proto(request)
            self._look_at_addresses(request.META.get("HTTP_X_FORWARDED_FOR", ""))
        return self.get_response(request)

    def _check_proto(self, request: HttpRequest) -> None:
        """Raises InsecureConnection."""
        if request.is_secure():
            return
        if self.proto_header not in request.META:
            self._warn("forwarded_proto_missing", "Have the proxy add X-Forwarded-Proto: https to every request.")
            raise InsecureConnection("The proxy sends no X-Forwarded-Proto.")
        if is_browser_on_https(request):
            self._warn(
                "forwarded_proto_wrong",
                "Have the proxy send X-Forwarded-Proto: https, or pass on that of the proxy in front of it.",
            )
            raise HttpsEndsFurtherOut("The proxy says http of what came over https.")

    def _look_at_addresses(self, addresses: str) -> None:
        count = settings.ALLAUTH_TRUSTED_PROXY_COUNT
        if addresses and not count:
            self._warn("trusted_proxies_unset", f"All people count as one address at sign-in. {COUNT_PROXIES}")
        elif len(addresses.split(",") if addresses else ()) < count:
            advice = f"Have each of the {count} proxies add to X-Forwarded-For, or lower OPENVIBE_TRUSTED_PROXIES."
            self._warn("forwarded_for_short", f"People count as one address at sign-in. {advice}")

    def _warn(self, event: str, advice: str) -> None:
        if self.log_throttle.is_due(event):
            log.warning(event, advice=advice)


def is_public_file(path: str) -> bool:
    """Whether a path is one of the static files, which hold nothing of anybody and are answered over HTTP, too."""
    return path.startswith(settings.STATIC_URL)


def is_browser_on_https(request: HttpRequest) -> bool:
    """Whether it is a browser that came over HTTPS: to other machines it sends `Sec-Fetch-Site` only then (W3C Fetch
    Metadata 2)."""
    host = request.META.get("HTTP_HOST", "")
    return "HTTP_SEC_FETCH_SITE" in request.META and not THIS_MACHINE.fullmatch(host)


def lacks_trusted_proxies() -> bool:
    """Whether a proxy has to stand in front and its word about addresses is not believed."""
    return bool(settings.SECURE_PROXY_SSL_HEADER) and not settings.ALLAUTH_TRUSTED_PROXY_COUNT


@checks.register("addresses", deploy=True)
def check_trusted_proxies(app_configs: Sequence[Any] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """A warning where everybody behind the proxy would count as one address."""
    if not lacks_trusted_proxies():
        return []
    return [
        checks.Warning(
            "OPENVIBE_TRUSTED_PROXIES is 0: all people count as one address at sign-in, and whoever guesses passwords "
            "keeps everybody's new browsers out.",
            hint=COUNT_PROXIES,
            id="openvibe.W003",
        )
    ]

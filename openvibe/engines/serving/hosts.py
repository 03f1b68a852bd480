"""The host that a request names: ours, port included, since addresses in answers are made from it."""

from collections.abc import Callable
from functools import lru_cache
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.http.request import split_domain_port
from django.http.response import HttpResponseBase

from openvibe.engines.serving.proxy_headers import THIS_MACHINE, is_public_file

PORTS_OF_SCHEMES = {"http": 80, "https": 443}


def check_host(request: HttpRequest) -> str:
    """The request's host, with its port where it names one. Raises DisallowedHost for a foreign one.

    A port is ours that the public address or a trusted origin names, that the server listens on, or that goes without
    saying. This machine is reached through any port, and where any host is allowed any port is.
    """
    host = request.get_host()
    if THIS_MACHINE.fullmatch(host) or "*" in settings.ALLOWED_HOSTS:
        return host
    _, port = split_domain_port(host)
    origins = (settings.PUBLIC_URL, *settings.CSRF_TRUSTED_ORIGINS)
    if port and port != str(request.META.get("SERVER_PORT")) and int(port) not in _own_ports(origins):
        raise DisallowedHost(f"Foreign port in the Host header: {host!r}. OPENVIBE_PUBLIC_URL says which is ours.")
    return host


@lru_cache(maxsize=16)
def _own_ports(origins: tuple[str, ...]) -> frozenset[int]:
    """Ports of the public address, which is the first of these, the scheme's own ports too unless it names another."""
    parts = [urlsplit(origin.replace("*", "any")) for origin in origins]
    public_port = parts[0].port
    ports = {part.port or PORTS_OF_SCHEMES.get(part.scheme, 443) for part in parts[1:]}
    return frozenset(ports | ({public_port} if public_port else set(PORTS_OF_SCHEMES.values())))


class HostMiddleware:
    """400 for a request that names a foreign host, before anything else is done with it. Static files, which hold
    nothing of anybody, are for the page that says so."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_public_file(request.path_info):
            check_host(request)
        return self.get_response(request)

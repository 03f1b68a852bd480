"""The SSRF guard: whatever address an admin enters is outside, unless the operator allows private ones.

An address an admin types is checked when it is saved and again at every connect. At connect the name is resolved
once, every address it stands for is checked, and the connection goes to a checked address, so a name that
changes its mind in between (DNS rebinding) gains nothing. Redirects are never followed."""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from ssl import SSLContext
from urllib.parse import urlsplit

import httpx2

NameResolver = Callable[[str, int], Sequence[str]]
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_ALLOWED_URL = re.compile(r"[!-~]+\Z")  # printable ASCII, no spaces
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?$")
_INTERNAL_NAMES = ("localhost", "local", "internal", "localdomain", "home.arpa", "intranet", "lan", "corp")
_MAX_RESPONSE_BYTES = 64 * 1024 * 1024  # bytes
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(a) for a in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254")
)


class AddressRefused(ValueError):
    """The address is not one this server may call. The text says why and what would be accepted."""


def resolve_name(host: str, port: int) -> Sequence[str]:
    """The IP addresses of a name, in the order the system prefers them. Raises OSError."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]).split("%")[0] for row in infos))


def check_url(url: str, *, allow_private: bool = False, resolve: NameResolver = resolve_name) -> None:
    """Raise AddressRefused unless the URL may be called, and so every address its name stands for now.

    A name nobody knows yet passes: connecting checks.
    """
    host, port = _host_and_port(url)
    _check_host(host, allow_private)
    try:
        addresses = resolve(host, port)
    except OSError:
        return
    for address in addresses:
        _check_address(ipaddress.ip_address(address), host, allow_private)


class GuardedTransport(httpx2.BaseTransport):
    """Connects only to checked addresses, and ends a response that takes longer than `total_seconds`.

    `resolve`, `inner` (what really connects) and `clock` are there to be replaced in tests.
    """

    def __init__(
        self,
        *,
        allow_private: bool,
        total_seconds: float,
        resolve: NameResolver = resolve_name,
        inner: httpx2.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allow_private = allow_private
        self._ends_at = clock() + total_seconds
        self._resolve = resolve
        self._inner = inner or httpx2.HTTPTransport(verify=_ssl_context())
        self._clock = clock

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        host, port = _host_and_port(str(request.url))
        _check_host(host, self._allow_private)
        try:
            addresses = self._resolve(host, port)
        except OSError as error:
            raise httpx2.ConnectError(f"The name {host} cannot be found.") from error
        for address in addresses:
            _check_address(ipaddress.ip_address(address), host, self._allow_private)
        response = self._connect(request, host, addresses)
        stream = response.stream
        assert isinstance(stream, httpx2.SyncByteStream)
        response.stream = _BoundedStream(stream, self._ends_at, self._clock)
        return response

    def _connect(self, request: httpx2.Request, host: str, addresses: Sequence[str]) -> httpx2.Response:
        """The first checked address that answers. The `Host` header and the certificate stay those of the name."""
        failure: httpx2.ConnectError | httpx2.ConnectTimeout | None = None
        for address in addresses:
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return self._inner.handle_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure or httpx2.ConnectError(f"The name {host} stands for no address.")

    def close(self) -> None:
        self._inner.close()


class _BoundedStream(httpx2.SyncByteStream):
    """A response body that must be over in time, however steadily it drips, and must not be without end."""

    def __init__(self, stream: httpx2.SyncByteStream, ends_at: float, clock: Callable[[], float]) -> None:
        self._stream, self._ends_at, self._clock = stream, ends_at, clock

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            size += len(chunk)
            if size > _MAX_RESPONSE_BYTES:
                raise httpx2.ReadError("The answer is larger than any answer is.")
            if self._clock() > self._ends_at:
                raise httpx2.ReadTimeout("The answer took too long.")
            yield chunk

    def close(self) -> None:
        self._stream.close()


@lru_cache(maxsize=1)
def _ssl_context() -> SSLContext:
    return httpx2.create_ssl_context()


def _host_and_port(url: str) -> tuple[str, int]:
    if not _ALLOWED_URL.match(url) or "\\" in url:
        raise AddressRefused("An address is plain ASCII without spaces. Write an international name as xn--….")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
    except ValueError as error:
        raise AddressRefused("That is not an address. It looks like https://models.example/v1.") from error
    if parts.scheme not in ("http", "https"):
        raise AddressRefused("An address starts with https:// or http://.")
    if "@" in parts.netloc:
        raise AddressRefused("No user name or password belongs in the address. Use the key field.")
    if not host or "%" in host:
        raise AddressRefused("The address names no host. It looks like https://models.example/v1.")
    return host, port or (443 if parts.scheme == "https" else 80)


def _check_host(host: str, allow_private: bool) -> None:
    if address := _parse_ip(host):
        _check_address(address, host, allow_private)
        return
    if ":" in host or _ENDS_IN_NUMBER.search(host):
        raise AddressRefused(f"{host} is an unusual way to write an IP address. Write it as four plain numbers.")
    name = host.rstrip(".")
    if not allow_private and any(name == inside or name.endswith(f".{inside}") for inside in _INTERNAL_NAMES):
        raise _internal_address_error(host)


def _parse_ip(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _check_address(address: IPAddress, host: str, allow_private: bool) -> None:
    address = _embedded_ipv4(address)
    if address in _METADATA_ADDRESSES:
        raise AddressRefused(f"{host} is where cloud machines keep their credentials. It is never called.")
    if address.is_multicast or address.is_unspecified:
        raise AddressRefused(f"{host} is not the address of one machine.")
    site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    if not allow_private and (not address.is_global or address.is_reserved or site_local):
        raise _internal_address_error(host)


def _embedded_ipv4(address: IPAddress) -> IPAddress:
    """The IPv4 address an IPv6 one leads to, where it does."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address.teredo:
            return address.teredo[1]
        if int(address) >> 32 == 0 and int(address) > 1:
            return ipaddress.IPv4Address(int(address))
        return address.ipv4_mapped or address.sixtofour or address
    return address


def _internal_address_error(host: str) -> AddressRefused:
    return AddressRefused(
        f"{host} is inside this server's own network. "
        "The operator can allow that with OPENVIBE_ALLOW_PRIVATE_ENDPOINTS=true."
    )

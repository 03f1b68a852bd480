"""The SSRF guard: whatever address an admin enters is outside, unless the operator allows private ones or names some.

An address an admin types is checked when it is saved and again at every connect. At connect the name is resolved
once, every address it stands for is checked, and the connection goes to a checked address, so a name that
changes its mind in between (DNS rebinding) gains nothing. Redirects are never followed."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ssl import SSLContext
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.core import checks

Transport = TypeVar("Transport")
NameResolver = Callable[[str, int], Sequence[str]]
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_RESPONSE_BYTES = 64 * 1024 * 1024  # bytes

_ALLOWED_URL = re.compile(r"[!-~]+\Z")  # printable ASCII, no spaces
_HOST = re.compile(r"[a-z0-9._:-]+\Z")
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?$")
_INTERNAL_NAMES = ("localhost", "local", "internal", "localdomain", "home.arpa", "intranet", "lan", "corp")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SIIT = ipaddress.ip_network("::ffff:0:0:0/96")
_METADATA_ADDRESSES = frozenset(
    map(
        ipaddress.ip_address,
        (
            *("169.254.169.254", "fd00:ec2::254", "fd20:ce::254"),  # most clouds, by their documentation
            *("169.254.170.2", "169.254.170.23", "fd00:ec2::23"),  # containers of Amazon
            *("100.100.100.200", "192.0.0.192", "168.63.129.16"),  # Alibaba, Oracle, Azure
        ),
    )
)


class AddressRefused(ValueError):
    """The address is not one this server may call. The text says why and what would be accepted."""


def resolve_name(host: str, port: int) -> Sequence[str]:
    """The IP addresses of a name, in the order the system prefers them. Raises OSError."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]).split("%")[0] for row in infos))


def check_url(url: str, *, allow_private: bool = False, resolve: NameResolver = resolve_name) -> None:
    """Raises AddressRefused unless the URL may be called, and so every address its name stands for now.

    `settings.ALLOWED_ENDPOINT_HOSTS` are allowed besides. A name nobody knows yet passes: connecting checks.
    """
    host, port = _host_and_port(url)
    try:
        addresses = _parse_host(host) or resolve(host, port)
    except OSError:
        addresses = ()
    _check_addresses(host, port, addresses, allow_private)


class ResponseTooLarge(httpx2.ReadError):
    """The response was longer than it may be, and was left where it stood."""


class _TransportGuard(Generic[Transport]):
    """Connects only to checked addresses, and ends a response that takes longer than `total_seconds`.

    `resolve`, `inner` (what really connects) and `clock` are there to be replaced in tests.
    """

    _default_inner: Callable[..., Transport]

    def __init__(
        self,
        *,
        allow_private: bool,
        total_seconds: float,
        max_bytes: int = MAX_RESPONSE_BYTES,
        resolve: NameResolver = resolve_name,
        inner: Transport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allow_private = allow_private
        self._resolve = resolve
        self._inner = inner or type(self)._default_inner(verify=_ssl_context())  # the first one takes a while
        self._limit = _ResponseLimit(clock() + total_seconds, max_bytes, clock)

    def restart_limit(self, total_seconds: float) -> None:
        """Gives the responses from here on so many seconds, over connections that stay open."""
        self._limit = _ResponseLimit(self._limit.clock() + total_seconds, self._limit.max_bytes, self._limit.clock)

    @property
    def was_too_large(self) -> bool:
        """Whether an answer was cut off at its limit, for callers below a package that swallows the error."""
        return self._limit.was_too_large


class GuardedTransport(_TransportGuard[httpx2.BaseTransport], httpx2.BaseTransport):
    _default_inner = httpx2.HTTPTransport

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        failure: httpx2.ConnectError | httpx2.ConnectTimeout | None = None
        for pinned in _pinned_requests(request, self._resolve, self._allow_private):
            try:
                response = self._inner.handle_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
                continue
            assert isinstance(response.stream, httpx2.SyncByteStream)
            response.stream = _BoundedStream(response.stream, self._limit)
            return response
        raise failure or _no_address_error(request)

    def close(self) -> None:
        self._inner.close()


class GuardedAsyncTransport(_TransportGuard[httpx2.AsyncBaseTransport], httpx2.AsyncBaseTransport):
    """A transport for asynchronous clients. Names are resolved in a thread: the system's resolver blocks."""

    _default_inner = httpx2.AsyncHTTPTransport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        failure: httpx2.ConnectError | httpx2.ConnectTimeout | None = None
        requests = await asyncio.to_thread(_pinned_requests, request, self._resolve, self._allow_private)
        for pinned in requests:
            try:
                response = await self._inner.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
                continue
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedAsyncStream(response.stream, self._limit)
            return response
        raise failure or _no_address_error(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass
class _ResponseLimit:
    """The limit of a response: when it must be over, however steadily it drips, and how large it may be."""

    ends_at: float
    max_bytes: int
    clock: Callable[[], float]
    was_too_large: bool = False

    def check(self, size: int) -> None:
        if size > self.max_bytes:
            self.was_too_large = True
            raise ResponseTooLarge(f"The answer has more than {self.max_bytes:,} bytes, which were not read.")
        if self.clock() > self.ends_at:
            raise httpx2.ReadTimeout("The answer took too long.")


class _BoundedStream(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, limit: _ResponseLimit) -> None:
        self._stream, self._limit = stream, limit

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            self._limit.check(size := size + len(chunk))
            yield chunk

    def close(self) -> None:
        self._stream.close()


class _BoundedAsyncStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: _ResponseLimit) -> None:
        self._stream, self._limit = stream, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            self._limit.check(size := size + len(chunk))
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _pinned_requests(request: httpx2.Request, resolve: NameResolver, allow_private: bool) -> list[httpx2.Request]:
    """The request once for each checked address of its host; `Host` header and certificate stay those of the name.

    Raises AddressRefused, ConnectError for a name nobody knows.
    """
    host, port = _host_and_port(str(request.url))
    try:
        addresses = _parse_host(host) or resolve(host, port)
    except OSError as error:
        _check_addresses(host, port, (), allow_private)
        raise httpx2.ConnectError(f"The name {host} cannot be found.") from error
    _check_addresses(host, port, addresses, allow_private)
    return [
        httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        for address in addresses
    ]


def _no_address_error(request: httpx2.Request) -> httpx2.ConnectError:
    return httpx2.ConnectError(f"The name {request.url.host} stands for no address.")


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
        raise AddressRefused(
            "No user name or password belongs in an address: others read it. Keys and tokens have a field of their "
            "own, and what a webhook sends is signed."
        )
    is_name = all(0 < len(label) < 64 for label in host.rstrip(".").split("."))  # others cannot even be looked up
    if not is_name or "%" in host:
        raise AddressRefused("The address names no host. It looks like https://models.example/v1.")
    return host, port or (443 if parts.scheme == "https" else 80)


def _parse_host(host: str) -> tuple[str, ...]:
    """The address that a host is, if it is one and no name. Raises AddressRefused for one in an unusual form."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if ":" in host or _ENDS_IN_NUMBER.search(host):
            raise AddressRefused(
                f"{host} is an unusual way to write an IP address. Write it as four plain numbers."
            ) from None
        return ()
    return (host,)


def _check_addresses(host: str, port: int, addresses: Sequence[str], allow_private: bool) -> None:
    name = host.rstrip(".")
    is_internal_name = any(name == inside or name.endswith(f".{inside}") for inside in _INTERNAL_NAMES)
    allowed_hosts = [entry for entry in _allowed_hosts() if entry.port in (None, port)]
    is_allowed = allow_private or any(entry.host == name for entry in allowed_hosts)
    if is_internal_name and not addresses and not is_allowed:
        raise _internal_address_error(host, port)
    for address in map(ipaddress.ip_address, addresses):
        target = _embedded_ipv4(address)
        if {address, target} & _METADATA_ADDRESSES:
            raise AddressRefused(f"{host} is where cloud machines keep their credentials. It is never called.")
        if target.is_multicast or target.is_unspecified:
            raise AddressRefused(f"{host} is not the address of one machine.")
        is_inward = is_internal_name or _is_inward(target)
        if is_inward and not is_allowed and not any(entry.covers(target) for entry in allowed_hosts):
            raise _internal_address_error(host, port)


def _is_inward(address: IPAddress) -> bool:
    site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    return not address.is_global or address.is_reserved or site_local


def _embedded_ipv4(address: IPAddress) -> IPAddress:
    """The IPv4 address an IPv6 one leads to, where it does."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64 or address in _SIIT or (int(address) >> 32 == 0 and int(address) > 1):
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address.teredo:
            return address.teredo[1]
        return address.ipv4_mapped or address.sixtofour or address
    return address


def _internal_address_error(host: str, port: int) -> AddressRefused:
    entry = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return AddressRefused(
        f"{host} is inside this server's own network. The operator can allow it with "
        f"OPENVIBE_ALLOWED_ENDPOINT_HOSTS={entry}, or all of them with OPENVIBE_ALLOW_PRIVATE_ENDPOINTS=true."
    )


@dataclass(frozen=True)
class _AllowedHost:
    """One entry of `settings.ALLOWED_ENDPOINT_HOSTS`: a name or a network, at one port or at all."""

    host: str
    network: IPNetwork | None
    port: int | None

    def covers(self, address: IPAddress) -> bool:
        return self.network is not None and address in self.network


def _allowed_hosts() -> Sequence[_AllowedHost]:
    return [entry for text in settings.ALLOWED_ENDPOINT_HOSTS if (entry := _parse_allowed_host(text))]


@lru_cache(maxsize=256)
def _parse_allowed_host(text: str) -> _AllowedHost | None:
    """`host`, `host:port`, an address, `[address]:port` or a network (`10.0.0.0/24`); None where it is none of them."""
    try:
        return _AllowedHost("", ipaddress.ip_network(text), None)
    except ValueError:
        pass
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "", parts.port
        if not _HOST.match(host) or parts.path or parts.query or "@" in text:
            return None
        address = _parse_host(host)
    except ValueError:
        return None
    return _AllowedHost("" if address else host.rstrip("."), ipaddress.ip_network(host) if address else None, port)


@checks.register("addresses")
def check_allowed_hosts(app_configs: Sequence[Any] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """One error for each entry of the operator's list that allows nothing."""
    return [
        checks.Error(
            f"OPENVIBE_ALLOWED_ENDPOINT_HOSTS: {text} is no host.",
            hint="Write host, host:port, an address or a network such as 10.0.0.0/24, separated by commas.",
            id="openvibe.E002",
        )
        for text in settings.ALLOWED_ENDPOINT_HOSTS
        if _parse_allowed_host(text) is None
    ]

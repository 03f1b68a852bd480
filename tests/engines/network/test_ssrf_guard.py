from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import httpx2
import pytest
from pytest_django.fixtures import Settings

from openvibe.engines.network.ssrf_guard import (
    AddressRefused,
    GuardedAsyncTransport,
    GuardedTransport,
    check_allowed_hosts,
    check_url,
)

PUBLIC = "93.184.216.34"
_INWARD = """
http://127.0.0.1/ http://127.0.0.1:8000/v1 http://127.1/ http://127.0.1/ http://2130706433/ http://0x7f000001/
http://0x7f.0.0.1/ http://0177.0.0.1/ http://017700000001/ http://00000177.0.0.1/ http://127.0.0.1./ http://0/
http://0.0.0.0/ http://10.0.0.1/ http://172.16.5.4/ http://192.168.1.1/ http://169.254.169.254/latest/meta-data
http://100.100.100.200/ http://100.64.0.1/ http://224.0.0.1/ http://240.0.0.1/ http://255.255.255.255/
http://192.0.2.5/ http://198.18.0.1/ http://[::1]/ http://[::]/ http://[::ffff:127.0.0.1]/ http://[::ffff:7f00:1]/
http://[::127.0.0.1]/ http://[0:0:0:0:0:ffff:a00:1]/ http://[64:ff9b::7f00:1]/ http://[64:ff9b::a9fe:a9fe]/
http://[2002:7f00:1::]/ http://[2001:0:5ef5:79fd::80ff:fffe]/ http://[fe80::1]/ http://[fe80::1%25eth0]/
http://[fc00::1]/ http://[fd00:ec2::254]/ http://[fec0::1]/ http://[ff02::1]/ http://localhost/ http://LOCALHOST./
http://api.localhost/ http://metadata.google.internal/ http://printer.local/ http://user:key@models.example/
http://models.example@127.0.0.1/ https://user@models.example/ ftp://models.example/ file:///etc/passwd
gopher://127.0.0.1:6379/_x unix:///run/x.sock //127.0.0.1/ http:///v1 http:// models.example/v1 javascript:alert(1)
http://①②⑦.⓪.⓪.①/ http://127。0。0。1/ http://models.example\\@127.0.0.1/ http://%31%32%37.0.0.1/
http://[::ffff:0:7f00:1]/ http://[64:ff9b:1::7f00:1]/ http://192.0.0.192/ http://168.63.129.16/ http://localhost../
http://xn--localhost-.localhost/ http://ollama.lan:11434/ http://[fe80::5efe:7f00:1]/ http://[2002:a9fe:a9fe::]/
http://models.example:99999/ http://models.example:port/ http://[::1 http://0x/ http://1.2.3.4.5/ http://256.1.1.1/
"""
INWARD = [*_INWARD.split(), "http://two..dots.example/", f"http://{'a' * 64}.example/"]
NAMES = {
    "http://inward.example/": ["127.0.0.1"],
    "http://mapped.example/": ["::ffff:10.0.0.1"],
    "http://mixed.example/": [PUBLIC, "192.168.0.9"],
    "http://127.0.0.1.nip.example/": ["127.0.0.1"],
    "http://metadata.example/": ["169.254.169.254"],
    "http://xn--bcher-kva.example/": ["10.0.0.1"],
    "http://dotted.example./": ["127.0.0.1"],
    "https://six.example/": ["fd00:ec2::254"],
}


class Connects(httpx2.BaseTransport):
    """Connects to nothing and takes notes."""

    def __init__(self, *outcomes: httpx2.Response | Exception) -> None:
        self.asked: list[httpx2.Request] = []
        self._outcomes = list(outcomes)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        outcome = self._outcomes.pop(0) if self._outcomes else httpx2.Response(200, stream=httpx2.ByteStream(b"hello"))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Resolver:
    """Answers from lists, one list per question; the last one again."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if not self.answers:
            raise OSError("no such name")
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class AsyncConnects(httpx2.AsyncBaseTransport):
    """Connects, asynchronously, to nothing."""

    def __init__(self, connects: Connects) -> None:
        self.connects = connects

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return self.connects.handle_request(request)


def get_async(url: str, resolver: Resolver, connects: Connects, *, max_bytes: int = 1_000) -> httpx2.Response:
    transport = GuardedAsyncTransport(
        allow_private=False, total_seconds=10, max_bytes=max_bytes, resolve=resolver, inner=AsyncConnects(connects)
    )

    async def fetch() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            return await client.get(url)

    return asyncio.run(fetch())


def get(
    url: str, resolver: Resolver, connects: Connects, *, allow_private: bool = False, max_bytes: int = 1_000
) -> httpx2.Response:
    transport = GuardedTransport(
        allow_private=allow_private,
        total_seconds=10,
        max_bytes=max_bytes,
        resolve=resolver,
        inner=connects,
        clock=lambda: 0.0,
    )
    with httpx2.Client(transport=transport, trust_env=False) as client:
        return client.get(url)


def test_there_are_enough_addresses() -> None:
    assert len(INWARD) + len(NAMES) >= 30


@pytest.mark.parametrize("url", INWARD)
def test_no_inward_address_is_accepted_or_connected_to(url: str) -> None:
    connects = Connects()
    with pytest.raises(AddressRefused):
        check_url(url, resolve=Resolver())
    with pytest.raises((AddressRefused, httpx2.HTTPError, httpx2.InvalidURL)):
        get(url, Resolver(["127.0.0.1"]), connects)
    assert connects.asked == []


@pytest.mark.parametrize(("url", "addresses"), NAMES.items())
def test_no_name_that_leads_inward_is_accepted_or_connected_to(url: str, addresses: list[str]) -> None:
    connects = Connects()
    with pytest.raises(AddressRefused):
        check_url(url, resolve=Resolver(addresses))
    for call in (get, get_async):
        with pytest.raises(AddressRefused):
            call(url, Resolver(addresses), connects)
    assert connects.asked == []


@pytest.mark.parametrize("call", [get, get_async])
def test_a_name_that_changes_its_mind_gains_nothing(call: Callable[..., httpx2.Response]) -> None:
    connects, resolver = Connects(), Resolver([PUBLIC], ["127.0.0.1"])
    call("https://rebinding.example:8443/v1", resolver, connects)
    assert resolver.asked == ["rebinding.example"]
    (request,) = connects.asked
    assert request.url.host == PUBLIC
    assert request.headers["host"] == "rebinding.example:8443"
    assert request.extensions["sni_hostname"] == "rebinding.example"


def test_the_next_checked_address_is_tried() -> None:
    connects = Connects(httpx2.ConnectError("refused"))
    assert get("https://models.example/", Resolver([PUBLIC, "2606:4700::1"]), connects).text == "hello"
    assert [request.url.host for request in connects.asked] == [PUBLIC, "2606:4700::1"]


def test_redirects_are_handed_back() -> None:
    connects = Connects(httpx2.Response(302, headers={"Location": "http://127.0.0.1/"}))
    assert get("https://models.example/", Resolver([PUBLIC]), connects).status_code == 302
    assert len(connects.asked) == 1


def test_a_name_nobody_knows_may_be_saved_but_not_called() -> None:
    check_url("https://later.example/v1", resolve=Resolver())
    with pytest.raises(httpx2.ConnectError, match="cannot be found"):
        get("https://later.example/v1", Resolver(), Connects())


@pytest.mark.parametrize("url", ["https://models.example/v1", f"http://{PUBLIC}:8000", "https://[2606:4700::1]/v1"])
def test_outside_addresses_pass(url: str) -> None:
    check_url(url, resolve=Resolver())


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:11434/v1", "http://localhost:8000", "http://[::1]/", "http://10.1.2.3/"]
)
def test_the_operator_can_allow_private_addresses(url: str) -> None:
    check_url(url, allow_private=True, resolve=Resolver())
    assert get(url, Resolver(["127.0.0.1"]), Connects(), allow_private=True).text == "hello"


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://[fd00:ec2::254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://0.0.0.0/",
        "file:///x",
    ],
)
def test_some_are_refused_whatever_the_operator_allows(url: str) -> None:
    with pytest.raises(AddressRefused):
        check_url(url, allow_private=True, resolve=Resolver())


def test_the_operator_can_allow_single_hosts_and_networks(settings: Settings) -> None:
    settings.ALLOWED_ENDPOINT_HOSTS = ["ollama.lan:11434", "10.1.0.0/24", "[::1]:8000", "192.168.1.9", "Shelf"]
    allowed = {
        "http://ollama.lan:11434/v1": ["192.168.7.7"],
        "http://10.1.0.9:1234/": [],
        "http://shelf/": ["10.9.9.9"],
        "http://[::1]:8000/": [],
        "http://box.local/": ["10.1.0.5"],
        "http://named.example/": ["192.168.1.9"],
    }
    for url, addresses in allowed.items():
        check_url(url, resolve=Resolver(addresses))
        assert get(url, Resolver(addresses), Connects()).text == "hello"


def test_nothing_beside_the_allowed_hosts_is_allowed(settings: Settings) -> None:
    settings.ALLOWED_ENDPOINT_HOSTS = ["ollama.lan:11434", "10.1.0.0/24", "[::1]:8000", "evil.example", "0.0.0.0/0"]
    refused = {
        "http://ollama.lan/": ["192.168.7.7", "fc00::1"],
        "http://not-ollama.lan:11434/": ["fc00::1"],
        "http://x.ollama.lan:11434/": ["fc00::1"],
        "http://[::1]:8001/": [],
        "http://evil.example/": ["169.254.169.254"],
        "http://169.254.169.254/": [],
        "http://mixed.example/": ["10.1.0.5", "fc00::1"],
        "http://0.0.0.0/": [],
    }
    for url, addresses in refused.items():
        with pytest.raises(AddressRefused):
            check_url(url, resolve=Resolver(addresses))
        with pytest.raises(AddressRefused):
            get(url, Resolver(addresses), Connects())


def test_an_entry_that_allows_nothing_is_an_error_at_the_start(settings: Settings) -> None:
    settings.ALLOWED_ENDPOINT_HOSTS = ["http://ollama.lan", "10.1.0.9/24", "*", "ollama.lan:port", "a b", "me@host"]
    assert len(check_allowed_hosts()) == 6
    with pytest.raises(AddressRefused):
        check_url("http://ollama.lan/", resolve=Resolver())


@pytest.mark.parametrize("call", [get, get_async])
def test_an_answer_without_end_is_cut(call: Callable[..., httpx2.Response]) -> None:
    with pytest.raises(httpx2.ReadError, match="more than 4 bytes"):
        call("https://models.example/", Resolver([PUBLIC]), Connects(), max_bytes=4)

"""The answers of a server whose database is gone: 503 and a sentence, never a broken page."""

import re
from collections.abc import Iterator

import pytest
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import DjangoDbBlocker
from pytest_django.fixtures import Settings

from tests.operations.processes import free_port

MCP_METADATA = "/.well-known/oauth-protected-resource"
NEEDS_NO_ROW = {"/healthz", "/api/v1/schema/", "/v1/", MCP_METADATA, f"{MCP_METADATA}/mcp"}
FOR_PROGRAMS = {"/readyz", "/w/x/events/"}
PROBES = ["/healthz", "/readyz"]
VALUES = {"int": "1", "uuid": "6f3a0c9e-0000-4000-8000-000000000000"}


def paths(resolver: URLResolver, prefix: str = "/") -> Iterator[str]:
    """One address for every route that is written as a path."""
    for entry in resolver.url_patterns:
        path = prefix + re.sub(r"<(?:(\w+):)?\w+>", lambda found: VALUES.get(found[1], "x"), str(entry.pattern))
        if isinstance(entry, URLResolver):
            yield from paths(entry, path)
        elif isinstance(entry, URLPattern) and not set(path) & set("(^\\"):
            yield path


PATHS = sorted({*paths(get_resolver()), *PROBES})


@pytest.fixture
def no_database(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A server that is not there: connections are refused."""
    usual = connections["default"]
    connections["default"] = DatabaseWrapper(
        {**usual.settings_dict, "HOST": "127.0.0.1", "PORT": str(free_port()), "NAME": "openvibe", "OPTIONS": {}}
    )
    with django_db_blocker.unblock():
        yield
    connections["default"] = usual


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_address_says_so(no_database: None, method: str) -> None:
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = "a" * 32  # whose it is, a row would say
    answers = {path: client.generic(method, path) for path in PATHS}
    answers = {path: answer for path, answer in answers.items() if answer.status_code != 405}
    assert len(answers) > 250
    assert {path for path, answer in answers.items() if answer.status_code != 503} <= NEEDS_NO_ROW
    assert {path for path, answer in answers.items() if not says_so(answer.content)} <= NEEDS_NO_ROW | FOR_PROGRAMS


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/w/willow/sidebar/", {"HX-Request": "true"}),
        ("/w/willow/t/1/", {"Accept": "application/json"}),
        ("/api/v1/me/", {"Authorization": "Bearer ovk_x"}),
        ("/no/such/page", {}),
    ],
    ids=["fragment", "script", "token", "unknown"],
)
def test_everybody_is_told_in_her_own_form(no_database: None, path: str, headers: dict[str, str]) -> None:
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = "a" * 32
    answer = client.post(path, headers=headers)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert says_so(answer.content)
    if "Accept" in headers:
        assert answer.json()["code"] == "unavailable"
    if "HX-Request" in headers:
        assert answer.headers["HX-Retarget"] == "#toasts"


def test_what_was_written_is_given_back(no_database: None) -> None:
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = "a" * 32
    answer = client.post("/w/willow/t/1/", {"body": "The old rose wants to be cut in March."})
    assert "The old rose wants to be cut in March." in answer.content.decode()


def says_so(content: bytes) -> bool:
    return b"The database does not answer at the moment." in content


@pytest.mark.parametrize("host", ["10.0.0.7", "10.0.0.7:8000", "[fd00::7]", "probe"])
def test_probes_name_no_host_and_speak_no_https(no_database: None, settings: Settings, host: str) -> None:
    settings.SECURE_SSL_REDIRECT = True
    answers = [Client(raise_request_exception=False).get(path, headers={"Host": host}) for path in PROBES]
    assert [answer.status_code for answer in answers] == [200, 503]

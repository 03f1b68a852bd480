"""Requests that cannot be read: an answer in words, never a broken page."""

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("kind", "body", "status", "words"),
    [
        (f"{FORM}; charset=utf-16", b"login=x", 400, b"could not be read"),
        (FORM, b"a=1&" * 1500, 400, b"could not be read"),
        (FORM, b"login=" + b"x" * 7_000_000, 413, b"at most 100,000 characters"),
    ],
)
def test_what_cannot_be_read_is_said_in_words(kind: str, body: bytes, status: int, words: bytes, db: None) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.get("/accounts/login/")
    answer = browser.generic("POST", "/accounts/login/", body, content_type=kind)
    assert answer.status_code == status
    assert words in answer.content


@pytest.fixture
def behind_a_proxy(settings: Settings) -> None:
    """A server as in production, where a proxy with HTTPS stands in front."""
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.ALLOWED_HOSTS = ["vibe.example"]


def test_an_address_that_is_not_its_own_says_where_to_name_it(behind_a_proxy: None, db: None) -> None:
    headers = {"host": "other.example", "x-forwarded-proto": "https"}
    page = Client(headers=headers).get("/accounts/login/")
    assert page.status_code == 400
    assert b"OPENVIBE_ALLOWED_HOSTS" in page.content
    assert b"vibe.example" not in page.content, "whoever scans addresses is not told the right one"
    problem = Client(headers=headers).get("/api/v1/me/")
    assert (problem.status_code, problem.headers["Content-Type"]) == (400, "application/problem+json")
    assert "OPENVIBE_ALLOWED_HOSTS" in problem.json()["detail"]


@pytest.mark.parametrize("header", [{"origin": "https://outside.example"}, {"referer": "https://outside.example/x"}])
@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_a_form_of_another_address_says_so_and_one_without_its_key_that_it_is_old(
    behind_a_proxy: None, db: None, header: dict[str, str], accept: str
) -> None:
    headers = {"host": "vibe.example", "x-forwarded-proto": "https", "accept": accept}
    browser = Client(enforce_csrf_checks=True, headers=headers)
    key = browser.get("/accounts/login/").context["csrf_token"]
    fields = {"login": "ana@example.org", "password": "x"}
    other = browser.post("/accounts/login/", fields | {"csrfmiddlewaretoken": str(key)}, headers=header)
    assert other.status_code == 403
    assert b"OPENVIBE_CSRF_TRUSTED_ORIGINS" in other.content
    own = dict.fromkeys(header, "https://vibe.example")
    old = browser.post("/accounts/login/", fields, headers=own)
    assert old.status_code == 403
    assert b"open for too long" in old.content

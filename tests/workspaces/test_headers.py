"""What every answer says to browsers, and what it takes from whoever asks."""

import re

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django.fixtures import Settings

from openvibe.workspaces.models import Member
from tests.factories import PASSWORD

LOGIN = "/accounts/login/"


def sign_in(browser: Client, **extra: str) -> str:
    fields = {"login": "ana@example.org", "password": PASSWORD, **extra}
    return str(browser.post(LOGIN, fields).headers.get("Location", ""))


def test_a_page_is_kept_by_its_browser_alone_where_that_forgets_it_and_framed_by_nobody(
    ana: Member, home: str, settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["testserver", "localhost"]
    browser = Client()
    sign_in(browser)
    headers = browser.get(home).headers
    assert headers["Cache-Control"] == "private, no-store"  # no browser forgets what came unencrypted from elsewhere
    for secure in ({"secure": True}, {"headers": {"Host": "localhost:8000"}}):
        kept, part = (browser.get(home, **{**secure, **more}) for more in ({}, {"HTTP_HX_REQUEST": "true"}))  # type: ignore[arg-type]
        assert kept.headers["Cache-Control"] == "private, no-cache"
        assert part.headers["Cache-Control"] == "private, no-store"
        assert "Clear-Site-Data" not in kept.headers
    assert browser.get(f"{home}tokens/", secure=True).headers["Cache-Control"].count("no-store") == 1
    assert browser.get(f"{home}push/", secure=True).headers["Cache-Control"] == "private, no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert browser.cookies["sessionid"]["httponly"]
    assert browser.cookies["sessionid"]["samesite"] == "Lax"
    assert browser.cookies["known_browser"]["httponly"]


def test_a_browser_forgets_its_pages_with_the_session_however_that_ends(ana: Member, home: str) -> None:
    clears = {"Clear-Site-Data": '"cache"'}
    browser = Client()
    sign_in(browser)
    assert clears.items() <= browser.post("/accounts/logout/").headers.items()
    assert "Clear-Site-Data" not in browser.get(LOGIN).headers
    sign_in(browser)
    Session.objects.all().delete()  # ended elsewhere
    assert clears.items() <= browser.get(home).headers.items()
    sign_in(browser)
    planted = str(browser.cookies["sessionid"].value)
    ana.user.set_password("another one 12345")
    ana.user.save()
    answer = browser.post(LOGIN, {"login": "ana@example.org", "password": "another one 12345"})
    assert browser.cookies["sessionid"].value != planted
    assert clears.items() <= answer.headers.items()
    forgotten = Client().get("/accounts/forget.css")
    assert forgotten.content == b""
    assert clears.items() <= forgotten.headers.items()
    assert "<noscript>" in Client().get(LOGIN).content.decode()


def test_a_sign_in_begins_in_its_first_field(client: Client, db: None) -> None:
    page = client.get(LOGIN).content.decode()
    assert re.findall(r"<input[^>]*autofocus[^>]*>", page) == re.findall(r'<input[^>]*name="login"[^>]*>', page)


def test_only_the_admin_may_hold_scripts_and_styles_inline(client: Client, db: None) -> None:
    def directives(path: str) -> dict[str, list[str]]:
        policy = client.get(path).headers["Content-Security-Policy"]
        return {name: sources for name, *sources in (directive.split() for directive in policy.split(";"))}

    pages, admin = directives(LOGIN), directives("/admin/login/")
    assert pages["script-src"] == pages["style-src"] == ["'self'"]
    assert pages["default-src"] == pages["base-uri"] == ["'none'"]
    assert set(admin.pop("script-src")) == {"'self'", "'unsafe-inline'", "'unsafe-eval'"}
    assert set(admin.pop("style-src")) == {"'self'", "'unsafe-inline'"}
    assert admin.items() <= pages.items()


@pytest.mark.parametrize("debug", [False, True])
def test_developer_error_pages_alone_have_no_policy(debug: bool, client: Client, settings: Settings, db: None) -> None:
    settings.DEBUG = debug
    assert ("Content-Security-Policy" in client.get("/nothing/at/all/").headers) is not debug
    assert "Content-Security-Policy" in client.get(LOGIN).headers


@pytest.mark.parametrize("away", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_a_sign_in_leads_nowhere_else(away: str, ana: Member) -> None:
    assert sign_in(Client(), next=away) == "/"


def test_a_session_from_before_the_sign_in_is_worth_nothing(ana: Member, home: str) -> None:
    planted = Client()
    planted.get(LOGIN)
    session = planted.session
    session["invitation"] = ""
    session.save()
    before = session.session_key
    planted.cookies["sessionid"] = str(before)
    sign_in(planted)
    assert planted.cookies["sessionid"].value != before
    thief = Client()
    thief.cookies["sessionid"] = str(before)
    assert thief.get(home).status_code == 302


def test_other_hosts_are_not_answered(ana: Member) -> None:
    assert Client().get(LOGIN, headers={"Host": "evil.example"}).status_code == 400


def views(patterns: list[URLPattern | URLResolver]) -> list[URLPattern]:
    return [
        each
        for pattern in patterns
        for each in (views(pattern.url_patterns) if isinstance(pattern, URLResolver) else [pattern])
    ]


def test_no_page_is_exempt_from_the_form_key() -> None:
    """The API is, which then asks for the key itself where a session calls (`MemberSession`); and the link that ends
    e-mails, which mail programs post to (RFC 8058) and whose token is all it needs."""
    exempt = [view for view in views(get_resolver().url_patterns) if getattr(view.callback, "csrf_exempt", False)]
    assert [view.name for view in exempt if not hasattr(view.callback, "cls")] == ["unsubscribe"]

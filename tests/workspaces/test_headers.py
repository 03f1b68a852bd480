"""What every answer says to browsers, and what it takes from whoever asks."""

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django.fixtures import Settings

from openvibe.workspaces.models import Member
from tests.factories import PASSWORD

LOGIN = "/accounts/login/"


def sign_in(browser: Client, **extra: str) -> str:
    fields = {"login": "ana@example.org", "password": PASSWORD, **extra}
    return str(browser.post(LOGIN, fields).headers.get("Location", ""))


def test_a_private_page_is_kept_by_nobody_and_framed_by_nobody(ana: Member, home: str) -> None:
    browser = Client()
    sign_in(browser)
    headers = browser.get(home).headers
    assert headers["Cache-Control"] == "private, no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert browser.cookies["sessionid"]["httponly"]
    assert browser.cookies["sessionid"]["samesite"] == "Lax"
    assert browser.cookies["known_browser"]["httponly"]


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

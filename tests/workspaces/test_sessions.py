"""The sessions: where one is signed in: seen, ended one by one or all at once, and what streams from there ends with
it."""

from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.db.models import F
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.workspaces.middleware import SEEN_SECONDS
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import describe_browser
from openvibe.workspaces.sessions import SessionStore
from tests.factories import PASSWORD

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
EDGE = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0"
PAGE = "/accounts/sessions/"


def sign_in(user: User, user_agent: str = FIREFOX) -> Client:
    browser = Client(headers={"User-Agent": user_agent})
    answer = browser.post("/accounts/login/", {"login": user.email, "password": PASSWORD})
    assert answer.status_code == 302
    return browser


def row_of(browser: Client) -> UserSession:
    return UserSession.objects.get(session_key=browser.session.session_key)


def is_signed_in(browser: Client) -> bool:
    return SESSION_KEY in browser.session


def test_somebody_sees_her_sessions_and_ends_them(ana: Member, dora: Member, home: str) -> None:
    here, work, phone, other = sign_in(ana.user), sign_in(ana.user, EDGE), sign_in(ana.user), sign_in(dora.user)
    page = here.get(PAGE).content.decode()
    assert page.count("Firefox on Linux") == 3  # two of them, and the name on one's button
    assert "Edge on Windows" in page
    here.post(PAGE, {"session": row_of(other).pk})
    here.post(PAGE, {"session": row_of(work).pk})
    assert [is_signed_in(browser) for browser in (here, work, phone, other)] == [True, False, True, True]
    unlisted = sign_in(ana.user)
    row_of(unlisted).delete()  # a session from before they were listed
    here.post(PAGE)
    assert [is_signed_in(browser) for browser in (here, phone, unlisted, other)] == [True, False, False, True]
    assert phone.get(home).status_code == 302
    assert here.post(PAGE, {"session": "x"}).status_code == 302
    assert is_signed_in(here)


def _change_password(session: SessionStore, user: User) -> None:
    user.set_password(f"{PASSWORD}2")
    user.save()


def _switch_off(session: SessionStore, user: User) -> None:
    user.is_active = False
    user.save()


def _forget_hash(session: SessionStore, user: User) -> None:
    del session[HASH_SESSION_KEY]
    session.save()


def _name_unknown_backend(session: SessionStore, user: User) -> None:
    session[BACKEND_SESSION_KEY] = "gone.Backend"
    session.save()


@pytest.mark.parametrize(
    "end", [_change_password, _switch_off, _forget_hash, _name_unknown_backend], ids=lambda end: end.__name__
)
def test_a_session_that_no_longer_holds_opens_no_page(
    end: Callable[[SessionStore, User], None], ana: Member, home: str
) -> None:
    browser = sign_in(ana.user)
    assert browser.get(home).status_code == 200
    end(cast(SessionStore, browser.session), ana.user)
    for answer in (browser.get(home), browser.get(home)):
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/accounts/login/")


def test_a_secret_key_of_before_still_opens_pages(ana: Member, home: str, settings: Settings) -> None:
    browser = sign_in(ana.user)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another" * 8
    assert browser.get(home).status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert browser.get(home).status_code == 200  # its key was made anew


def test_a_session_is_renewed_once_in_a_while(ana: Member, home: str) -> None:
    browser = sign_in(ana.user)
    browser.get(home)  # it remembers the workspace
    long_ago = timezone.now() - timedelta(days=2)
    UserSession.objects.update(last_seen_at=long_ago)
    assert settings.SESSION_COOKIE_NAME not in browser.get(home).cookies
    assert row_of(browser).last_seen_at == long_ago
    Session.objects.update(expire_date=F("expire_date") - timedelta(seconds=SEEN_SECONDS + 1))
    before = Session.objects.get()
    cookie = browser.get(home).cookies[settings.SESSION_COOKIE_NAME]
    after = Session.objects.get()
    assert cookie["max-age"] == settings.SESSION_COOKIE_AGE
    assert row_of(browser).last_seen_at > long_ago
    assert after.expire_date - before.expire_date > timedelta(seconds=SEEN_SECONDS)
    assert after.session_data == before.session_data
    assert settings.SESSION_COOKIE_NAME not in browser.get(home).cookies


def test_a_renewal_leaves_what_another_request_wrote(ana: Member) -> None:
    key = sign_in(ana.user).session.session_key
    slow, quick = SessionStore(key), SessionStore(key)
    assert slow.get("colour") is None
    quick["colour"] = "green"
    quick.save()
    slow.save()
    assert SessionStore(key)["colour"] == "green"
    slow["size"] = "small"
    slow.save()
    assert SessionStore(key)["size"] == "small"
    del slow["size"]
    slow.save()
    assert "size" not in SessionStore(key)
    Session.objects.all().delete()
    with pytest.raises(UpdateError):
        quick.save()


def sign_out(browser: Client, user: User) -> None:
    browser.post("/accounts/logout/")


def change_password(browser: Client, user: User) -> None:
    user.set_password("another horse battery")
    user.save()


def deactivate(browser: Client, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def delete_session(browser: Client, user: User) -> None:
    Session.objects.all().delete()


def expire_session(browser: Client, user: User) -> None:
    Session.objects.update(expire_date=timezone.now())


def end_elsewhere(browser: Client, user: User) -> None:
    sign_in(user).post(PAGE)


def may_listen(viewer: Viewer) -> bool:
    refresh_viewers([viewer])
    return viewer.access is not None


@pytest.mark.parametrize("end", [sign_out, change_password, deactivate, delete_session, expire_session, end_elsewhere])
def test_a_stream_ends_with_its_session(end: Callable[[Client, User], None], ana: Member, home: str) -> None:
    """A stream's session is asked anew every `REFRESH_SECONDS` by every process that has a stream."""
    browser = sign_in(ana.user)
    key = browser.session.session_key
    viewer = Viewer(ana.workspace_id, ana.participant_id, session_key=key, password=ana.user.password)
    assert may_listen(viewer)
    end(browser, ana.user)
    assert not may_listen(viewer)
    assert browser.get(f"{home}events/").status_code == 401
    assert browser.get(f"{home}sidebar/", headers={"HX-Request": "true"}).status_code == 401


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (EDGE, "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0) Version/18.0 Mobile/15E148 Safari/604.1", "Safari on iOS"),
        ("Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
        ("curl/8", "Unknown browser"),
    ],
)
def test_browsers_have_names(user_agent: str, name: str) -> None:
    assert describe_browser(user_agent) == name

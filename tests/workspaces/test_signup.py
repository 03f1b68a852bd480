"""Signing up by invitation: whoever holds the link learns of nobody whether she has an account."""

import re
import threading

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from openvibe.base.mail import send_due_mail
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import create_invitation
from tests.factories import PASSWORD, access

pytestmark = pytest.mark.django_db
CHOSEN = "correct horse battery staple"
EMIL = {"name": "Emil", "email": "emil@example.org", "password1": CHOSEN}


@pytest.fixture
def token(ana: Member) -> str:
    return create_invitation(workspace=ana.workspace, by=access(ana), role="member", uses=9)[1]


@pytest.fixture
def mailing(settings: Settings) -> None:
    settings.EMAIL_CONFIGURED = True


def sign_up(token: str, browser: Client | None = None, **changes: str) -> HttpResponse:
    browser = browser or Client()
    browser.get(f"/join/{token}/")
    answer = browser.post("/accounts/signup/", EMIL | changes, follow=True)
    assert isinstance(answer, HttpResponse)
    return answer


def link() -> str:
    send_due_mail()
    match = re.search(r"/accounts/signup/finish/\S+", str(mail.outbox[-1].body))
    assert match
    return match[0]


def told(answer: HttpResponse) -> tuple[object, ...]:
    names = sorted(name for name in answer.headers if name not in ("X-Request-ID", "Content-Length"))
    page = re.sub(r'csrf\w*"[^>]*>|nonce-\w+', "", answer.content.decode())
    return answer.status_code, answer.redirect_chain, names, page, sorted(answer.cookies)  # type: ignore[attr-defined]


def test_known_and_unknown_addresses_are_told_the_same(mailing: None, token: str, ana: Member, dora: Member) -> None:
    EmailAddress.objects.create(user=dora.user, email="second@example.org", verified=True)
    taken = ("ana@example.org", "ANA@example.org", "second@example.org")
    answers = [told(sign_up(token, email=address)) for address in ("emil@example.org", *taken)]
    assert answers[0][0] == 200
    assert all(answer == answers[0] for answer in answers)
    assert not User.objects.filter(email="emil@example.org").exists()
    ana.user.refresh_from_db()
    assert (ana.user.name, ana.user.check_password(PASSWORD)) == ("Ana", True)


def test_who_has_an_account_is_told_by_mail_where_to_go_on(mailing: None, token: str, ana: Member) -> None:
    sign_up(token, email="ana@example.org")
    send_due_mail()
    assert f"/join/{token}/" in str(mail.outbox[-1].body)
    assert "/accounts/password/reset/" in str(mail.outbox[-1].body)
    assert "/accounts/signup/finish/" not in str(mail.outbox[-1].body)


def test_the_link_makes_the_account_that_was_asked_for(mailing: None, token: str, home: str) -> None:
    browser = Client()
    sign_up(token, browser)
    assert "emil@example.org" in browser.get(link()).content.decode()
    assert not User.objects.filter(email="emil@example.org").exists()
    assert browser.post(link())["Location"] == f"/join/{token}/"
    assert browser.post(f"/join/{token}/")["Location"] == home
    user = User.objects.get(email="emil@example.org")
    assert (user.name, user.check_password(CHOSEN)) == ("Emil", True)
    assert EmailAddress.objects.get(user=user).verified
    later = Client().post(link(), follow=True)
    assert "has an account already" in later.content.decode()


def test_in_another_browser_its_reader_says_who_she_is(mailing: None, token: str, home: str) -> None:
    """A person who asked may be somebody else: neither name nor password are theirs to choose."""
    sign_up(token)
    owner = Client()
    assert "Password" in owner.get(link()).content.decode()
    assert "too short" in owner.post(link(), {"name": "Emilia", "password1": "short"}).content.decode()
    assert owner.post(link(), {"name": "\u200b", "password1": "her own words"}).status_code == 200
    assert owner.post(link(), {"name": "Emilia", "password1": "her own words"})["Location"] == f"/join/{token}/"
    assert owner.post(f"/join/{token}/")["Location"] == home
    user = User.objects.get(email="emil@example.org")
    assert (user.name, user.check_password("her own words")) == ("Emilia", True)


def test_a_link_opens_nothing_once_the_invitation_is_taken_back(mailing: None, token: str, ana: Member) -> None:
    browser = Client()
    sign_up(token, browser)
    ana.workspace.invitations.update(uses_left=0)
    assert "Accounts come by invitation" in browser.post(link()).content.decode()
    assert browser.post(f"{link()[:-3]}xx/").status_code == 404
    assert not User.objects.filter(email="emil@example.org").exists()


def test_nobody_is_mailed_without_end(mailing: None, token: str) -> None:
    for _ in range(8):
        sign_up(token)
    send_due_mail()
    assert len(mail.outbox) == 5


def test_without_e_mail_the_account_is_made_at_once(token: str) -> None:
    assert sign_up(token).redirect_chain[-1][0] == f"/join/{token}/"  # type: ignore[attr-defined]
    assert "already" in sign_up(token).content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_mailing", [False, True])
def test_two_who_are_equally_fast_make_one_account(is_mailing: bool, token: str, settings: Settings) -> None:
    settings.EMAIL_CONFIGURED = is_mailing
    browsers = [Client(), Client()]
    paths = ["/accounts/signup/"] * 2
    for number, browser in enumerate(browsers):
        browser.get(f"/join/{token}/")
        if is_mailing:
            sign_up(token, browser)
            paths[number] = link()
    barrier, statuses = threading.Barrier(2), list[int]()

    def post(browser: Client, path: str) -> None:
        barrier.wait()
        statuses.append(browser.post(path, EMIL).status_code)
        connection.close()

    threads = [threading.Thread(target=post, args=pair) for pair in zip(browsers, paths, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 302}
    assert User.objects.filter(email="emil@example.org").count() == 1

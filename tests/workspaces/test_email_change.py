"""The address of an account is one that its person showed to be theirs; what somebody only claims stands nowhere."""

import re

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from openvibe.base.mail import send_due_mail
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import create_invitation
from tests.factories import PASSWORD, access, signed_in

pytestmark = pytest.mark.django_db
PAGE = "/accounts/email/"
NEW = "dora@garden.example"


@pytest.fixture(autouse=True)
def mailing(settings: Settings) -> None:
    settings.EMAIL_CONFIGURED = True


@pytest.fixture
def browser(dora: Member) -> Client:
    return signed_in(dora)


def claim(browser: Client, address: str) -> HttpResponse:
    """What a page that is made by hand sends, too."""
    browser.post(PAGE, {"action_add": "", "email": address})
    browser.post(PAGE, {"action_primary": "", "email": address})
    send_due_mail()
    answer = browser.get(PAGE)
    assert isinstance(answer, HttpResponse)
    return answer


def link_of(number: int = -1) -> str:
    match = re.search(r"/accounts/email/new/\S+", str(mail.outbox[number].body))
    assert match
    return match[0]


def test_nobody_takes_an_address_that_is_somebody_elses(ana: Member, dora: Member, browser: Client) -> None:
    """An address of an account is not taken: whoever also had it could try its password without end, and be taken for
    it."""
    strangers = claim(browser, "nobody@garden.example").content.decode()
    anas = claim(browser, ana.user.email).content.decode()

    dora.user.refresh_from_db()
    assert dora.user.email == "dora@example.org"
    assert not EmailAddress.objects.exclude(email="dora@example.org").exists()
    assert [message.to for message in mail.outbox] == [["nobody@garden.example"], ["ana@example.org"]]
    assert "belongs to another account" in browser.post(link_of()).content.decode()
    told = [re.findall(r"A link is on its way to [^<\s]+", page) for page in (strangers, anas)]
    assert told == [["A link is on its way to nobody@garden.example."], ["A link is on its way to ana@example.org."]]
    for address, name in ((ana.user.email, "Ana"), ("dora@example.org", "Dora")):
        back = Client()
        back.post("/accounts/login/", {"login": address, "password": PASSWORD})
        assert User.objects.get(pk=back.session["_auth_user_id"]).name == name


def test_right_passwords_of_ones_own_do_not_buy_guesses_at_others(ana: Member, dora: Member, browser: Client) -> None:
    dora.user.set_password("dora's own words")
    dora.user.save()
    browser.force_login(dora.user)
    browser.post(PAGE, {"action_add": "", "email": ana.user.email})
    for password in (*["a guess at Ana's"] * 4, "dora's own words", *["a guess at Ana's"] * 4):
        Client().post("/accounts/login/", {"login": ana.user.email, "password": password})
    assert Client().post("/accounts/login/", {"login": ana.user.email, "password": PASSWORD}).status_code == 200


def test_an_address_that_somebody_claims_is_still_free(ana: Member, browser: Client) -> None:
    claim(browser, "boss@garden.example")
    _, token = create_invitation(workspace=ana.workspace, by=access(ana), role="admin")
    boss = Client()
    boss.get(f"/join/{token}/")
    form = {"name": "Boss", "email": "boss@garden.example", "password1": "correct horse battery"}
    boss.post("/accounts/signup/", form)
    send_due_mail()
    finish = re.search(r"/accounts/signup/finish/\S+", str(mail.outbox[-1].body))
    assert finish
    assert boss.post(finish[0])["Location"] == f"/join/{token}/"

    answer = browser.post(link_of(0))

    assert "belongs to another account" in answer.content.decode()
    assert User.objects.get(email="boss@garden.example").name == "Boss"


def test_an_address_is_changed_by_the_link_that_was_sent_to_it(dora: Member, browser: Client) -> None:
    claim(browser, NEW)
    link = link_of()
    assert NEW in browser.get(link).content.decode()
    dora.user.refresh_from_db()
    assert dora.user.email == "dora@example.org"

    assert browser.post(link)["Location"] == PAGE

    dora.user.refresh_from_db()
    assert dora.user.email == NEW
    rows = EmailAddress.objects.filter(user=dora.user).values_list("email", "verified", "primary")
    assert list(rows) == [(NEW, True, True)]
    assert Client().post("/accounts/login/", {"login": NEW, "password": PASSWORD})["Location"] == "/"
    assert browser.post(link)["Location"] == PAGE  # once more changes nothing


def test_a_link_is_good_for_whoever_asked_for_it(ana: Member, dora: Member, browser: Client) -> None:
    claim(browser, NEW)
    link = link_of()
    assert "/accounts/login/" in Client().post(link)["Location"]
    for address in (link, f"{PAGE}new/{link.split('/')[-2]}x/", f"{PAGE}new/x/"):
        assert "used up or too old" in signed_in(ana).post(address).content.decode()
    dora.user.refresh_from_db()
    ana.user.refresh_from_db()
    assert (ana.user.email, dora.user.email) == ("ana@example.org", "dora@example.org")


def test_a_link_ends_when_the_address_has_changed_since(dora: Member, browser: Client) -> None:
    claim(browser, NEW)
    claim(browser, "dora@other.example")
    browser.post(link_of(1))
    assert "used up or too old" in browser.post(link_of(0)).content.decode()
    dora.user.refresh_from_db()
    assert dora.user.email == "dora@other.example"


def test_without_e_mail_whoever_runs_the_server_changes_it(browser: Client, settings: Settings) -> None:
    settings.EMAIL_CONFIGURED = False
    assert "action_add" not in browser.get(PAGE).content.decode()
    answer = browser.post(PAGE, {"action_add": "", "email": NEW})
    assert "whoever runs it changes your address" in answer.content.decode()
    assert send_due_mail() == 0
    assert mail.outbox == []

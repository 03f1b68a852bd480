"""Addresses of every length and shape, in every form that takes one, before anybody is signed in."""

import json
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import Settings

from openvibe.base.mail import send_due_mail
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import create_invitation
from tests.factories import PASSWORD, access, signed_in

pytestmark = pytest.mark.django_db


def address_of(length: int) -> str:
    """One that Django's validator takes: labels have at most 63 characters."""
    room = length - len("uuuu@.example")
    return "uuuu@" + ".".join(["d" * 60] * (room // 61) + ["d" * (room % 61 or 1)]) + ".example"


LONG = [address_of(length) for length in (253, 254, 255, 258, 265, 272, 300, 319, 320, 321, 5_000)]
ODD = [
    "a\x00b@example.org",
    "ana@exam\x00ple.org",
    "İ" * 40 + "@example.org",
    "ana@" + "İ" * 50 + ".example.org",
    "ß@ß",
    "@",
    "",
]


def sign_up(browser: Client, address: str) -> int:
    form = {"name": "Emil", "email": address, "password1": "correct horse battery staple"}
    return browser.post("/accounts/signup/", form).status_code


def sign_in(browser: Client, address: str) -> int:
    return browser.post("/accounts/login/", {"login": address, "password": PASSWORD}).status_code


def reset(browser: Client, address: str) -> int:
    return browser.post("/accounts/password/reset/", {"email": address}).status_code


def suggest(browser: Client, address: str) -> int:
    return browser.get("/accounts/signup/", {"email": address}).status_code


@pytest.mark.parametrize("form", [sign_up, sign_in, reset, suggest])
@pytest.mark.parametrize("is_mailing", [False, True])
def test_no_address_breaks_a_form(
    form: Callable[[Client, str], int], is_mailing: bool, ana: Member, settings: Settings
) -> None:
    settings.EMAIL_CONFIGURED = is_mailing
    settings.ACCOUNT_RATE_LIMITS = False
    _, token = create_invitation(workspace=ana.workspace, by=access(ana), role="member", uses=50)
    for address in LONG + ODD:
        browser = Client()
        browser.get(f"/join/{token}/")
        assert form(browser, address) in (200, 302), address
    send_due_mail()
    assert all(len(email) <= 254 for email in User.objects.values_list("email", flat=True))


def test_no_address_breaks_the_change_of_ones_own(ana: Member, settings: Settings) -> None:
    settings.EMAIL_CONFIGURED, settings.ACCOUNT_RATE_LIMITS = True, False
    browser = signed_in(ana)
    for address in LONG + ODD:
        for action in ("action_add", "action_send", "action_primary", "action_remove"):
            assert browser.post("/accounts/email/", {action: "", "email": address}).status_code in (200, 302), address
    send_due_mail()


@pytest.mark.parametrize("key", ["zzzzzzzzzzzzz-abc", "0-x", "-", "%00-%00", "1-set-password", "z" * 300 + "-a"])
def test_no_link_breaks_a_page(key: str, ana: Member) -> None:
    for page in ("password/reset/key/", "confirm-email/", "email/new/"):
        assert Client().get(f"/accounts/{page}{key}/").status_code in (200, 302, 404), page


WORDS: list[object] = [None, 1, "", "x", "\x00", "\ud800", [], {}, True]


@pytest.mark.parametrize("value", WORDS, ids=ascii)
def test_nothing_sent_as_a_passkey_breaks_the_sign_in(value: object, settings: Settings) -> None:
    settings.MFA_RATE_LIMITS = False
    parts = ("clientDataJSON", "authenticatorData", "signature", "userHandle")
    whole: dict[str, object] = {
        "id": "AAAA",
        "rawId": "AAAA",
        "type": "public-key",
        "response": dict.fromkeys(parts, "AAAA"),
    }
    answers = [
        value,
        {"response": value},
        {**whole, "response": value},
        {**whole, "id": value},
        {**whole, "rawId": value},
    ]
    answers += [{**whole, "response": {**dict.fromkeys(parts, "AAAA"), part: value}} for part in parts]
    numbers = ["MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw", "enp6enp6enp6enp6eg", "_w", "AA"]
    answers += [{**whole, "response": {**dict.fromkeys(parts, "AAAA"), "userHandle": number}} for number in numbers]
    for answer in answers:
        browser = Client()
        page = "/accounts/2fa/webauthn/login/"
        assert browser.get(page, headers={"X-Requested-With": "XMLHttpRequest"}).status_code == 200
        assert browser.post(page, {"credential": json.dumps(answer)}).status_code == 302, answer
        assert "_auth_user_id" not in browser.session

"""The second factor: an app's codes, recovery codes, who must have one, and what is kept of it."""

import base64
import hmac
import re
import struct
import time

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from pytest_django import Settings

from openvibe.api.services import issue_token
from openvibe.base.models import AuditRecord
from openvibe.workspaces.models import Member, User
from tests.factories import PASSWORD

INDEX = "/accounts/2fa/"


def code_of(secret: str, steps: int = 0) -> str:
    """RFC 6238: six digits for the present half minute, or one so many steps from it."""
    counter = struct.pack(">Q", int(time.time()) // 30 + steps)
    digest = hmac.digest(base64.b32decode(secret), counter, "sha1")
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06}"


def sign_in(member: Member, password: str = PASSWORD) -> tuple[Client, str]:
    browser = Client()
    answer = browser.post("/accounts/login/", {"login": member.user.email, "password": password})
    return browser, answer.headers.get("Location", "")


def set_up(browser: Client) -> str:
    confirm = browser.get(f"{INDEX}totp/activate/").headers["Location"]
    assert confirm.startswith("/accounts/reauthenticate/")
    assert browser.post(confirm, {"password": "wrong horse battery"}).status_code == 200
    assert browser.post(confirm, {"password": PASSWORD}).headers["Location"] == f"{INDEX}totp/activate/"
    page = browser.get(f"{INDEX}totp/activate/").content.decode()
    assert "data:image/svg+xml" in page
    match = re.search(r'value="([A-Z2-7]{32})"', page)
    assert match, page
    assert browser.post(f"{INDEX}totp/activate/", {"code": "000000"}).status_code == 200
    assert browser.post(f"{INDEX}totp/activate/", {"code": code_of(match[1])}).status_code == 302
    return match[1]


def test_an_app_and_its_recovery_codes(ana: Member, home: str) -> None:
    browser, _ = sign_in(ana)
    secret = set_up(browser)
    assert secret not in str(list(Authenticator.objects.values_list("data")))
    codes = re.findall(r"\b\d{8}\b", browser.get(f"{INDEX}recovery-codes/").content.decode())
    assert len(codes) == 10

    later, path = sign_in(ana)
    assert path == f"{INDEX}authenticate/"
    assert later.get(home).status_code == 302
    assert "Incorrect code" in later.post(path, {"code": "000000"}).content.decode()
    code = code_of(secret, 1)  # the one before was seen
    assert later.post(path, {"code": code}).status_code == 302
    assert later.get(home).status_code == 200

    again, _ = sign_in(ana)
    assert again.post(path, {"code": code}).status_code == 200  # a code that was seen is worth nothing
    assert again.post(path, {"code": codes[0]}).status_code == 302
    assert again.get(home).status_code == 200
    once_more, _ = sign_in(ana)
    assert once_more.post(path, {"code": codes[0]}).status_code == 200

    assert again.post(f"{INDEX}totp/deactivate/").status_code == 302  # to be confirmed
    assert Authenticator.objects.exists()
    assert browser.post(f"{INDEX}totp/deactivate/").status_code == 302
    assert not Authenticator.objects.exists()
    assert sign_in(ana)[1] == "/"


@pytest.mark.django_db(transaction=True)  # the factor is told of at the commit
def test_admins_must_have_one_where_the_operator_says_so(
    ana: Member, dora: Member, home: str, settings: Settings
) -> None:
    settings.TWO_FACTOR_REQUIRED = "admins"
    member, _ = sign_in(dora)
    assert member.get(home).status_code == 200
    admin, _ = sign_in(ana)
    for path in (home, f"{home}events/", "/admin/", "/"):
        assert admin.get(path).headers["Location"] == INDEX, path
    assert admin.get("/api/v1/threads/").json()["code"] == "two_factor_required"
    assert admin.get(f"{home}sidebar/", headers={"HX-Request": "true"}).status_code == 403
    _, token = issue_token(participant=ana.participant, name="Script", scopes=["read"])
    assert Client().get("/api/v1/threads/", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    set_up(admin)
    assert admin.get(home).status_code == 200
    assert admin.post(f"{INDEX}totp/deactivate/").status_code == 302
    for browser in (admin, sign_in(ana)[0]):
        assert browser.get(home).headers["Location"] == INDEX  # who took the last one away adds another first
    settings.TWO_FACTOR_REQUIRED = "everyone"
    assert member.get(home).headers["Location"] == INDEX


@pytest.mark.parametrize("page", ["", "totp/activate/", "webauthn/", "webauthn/add/", "recovery-codes/generate/"])
def test_its_pages_run_no_script_that_stands_in_them(page: str, ana: Member) -> None:
    browser, _ = sign_in(ana)
    set_up(browser)
    shown = browser.get(INDEX + page, follow=True)
    assert shown.status_code == 200
    tags = re.findall(r"<script\b[^>]*>", shown.content.decode())
    assert tags
    assert all(" src=" in tag or 'type="application/json"' in tag for tag in tags)
    assert "unsafe" not in shown.headers["Content-Security-Policy"]


def test_who_lost_it_is_helped_by_a_superuser_who_must_have_one_and_is_on_record(
    ana: Member, dora: Member, settings: Settings
) -> None:
    User.objects.filter(pk=dora.user_id).update(is_superuser=True)
    superuser, _ = sign_in(dora)
    Authenticator.objects.create(user=ana.user, type="totp", data={})
    values = {"action": "remove_second_factors", "_selected_action": [ana.user_id]}
    assert superuser.post("/admin/workspaces/user/", values).status_code == 302
    assert not Authenticator.objects.exists()
    record = AuditRecord.objects.latest("pk")
    assert (record.actor, record.subject, record.after) == (
        "Dora (dora@example.org), in the admin",
        "second factors of Ana",
        "removed",
    )
    settings.TWO_FACTOR_REQUIRED = "admins"
    assert superuser.get("/admin/").headers["Location"] == INDEX

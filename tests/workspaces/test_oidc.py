"""Signing in by a provider that the operator named."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.http import HttpResponse
from django.test import Client

from openvibe.api.services import issue_token
from openvibe.base.models import AuditRecord
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import create_invitation
from tests.factories import PASSWORD, access
from tests.workspaces.conftest import ANA
from tests.workspaces.oidc_provider import Provider

LOGIN = "/accounts/oidc/sso/login/"
EMIL = {"sub": "2", "email": "Emil@example.org", "email_verified": True, "name": "Emil"}


def come_back(browser: Client, **params: str) -> HttpResponse:
    leaving = browser.get(LOGIN, params)
    assert leaving.status_code == 302
    state = parse_qs(urlsplit(leaving["Location"]).query)["state"][0]
    answer = browser.get(f"{LOGIN}callback/", {"code": "a-code", "state": state})
    assert isinstance(answer, HttpResponse)
    return answer


def test_a_verified_address_is_the_account_that_has_it(provider: type[Provider], ana: Member, home: str) -> None:
    browser = Client()
    assert "Sign in with Garden ID" in browser.get("/accounts/login/").content.decode()
    assert come_back(browser).status_code == 302
    assert browser.get(home).status_code == 200
    assert SocialAccount.objects.get().user == ana.user
    ana.user.refresh_from_db()
    assert not ana.user.has_usable_password()  # whoever chose it had not shown that the address is theirs


def test_what_was_made_before_the_address_was_shown_lets_nobody_in(
    provider: type[Provider], ana: Member, cleo: Member
) -> None:
    """A person who signed up with it first keeps no token of the account that is Ana's from now on."""
    secrets = [_token(member) for member in (ana, cleo)]
    assert [_status(secret) for secret in secrets] == [200, 200]
    assert come_back(Client()).status_code == 302
    assert [_status(secret) for secret in secrets] == [401, 200]
    record = AuditRecord.objects.get(action="token", after="revoked")
    assert (record.actor, record.subject[:8]) == ("the identity provider", "“laptop”")

    own = _token(ana)
    assert come_back(Client()).status_code == 302
    assert _status(own) == 200  # made by whoever showed it


def test_a_token_stays_where_the_address_was_shown_before(provider: type[Provider], ana: Member) -> None:
    EmailAddress.objects.update_or_create(user=ana.user, defaults={"email": ana.user.email, "verified": True})
    secret = _token(ana)
    assert come_back(Client()).status_code == 302
    assert _status(secret) == 200


@pytest.mark.parametrize("row", [None, {"email": "ana@example.org"}, {"email": "ana@example.org", "primary": True}])
def test_what_the_provider_verified_is_confirmed(
    row: dict[str, Any] | None, provider: type[Provider], ana: Member
) -> None:
    if row:
        EmailAddress.objects.create(user=ana.user, **row)
    browser = Client()
    come_back(browser)
    assert EmailAddress.objects.get(user=ana.user).verified
    assert EmailAddress.objects.get(user=ana.user).primary
    page = browser.get("/accounts/email/").content.decode()
    assert "not confirmed" not in page
    assert ">confirmed<" in page


def test_it_is_confirmed_at_a_later_sign_in_as_well(provider: type[Provider], ana: Member) -> None:
    come_back(Client())
    EmailAddress.objects.update(verified=False)  # as versions before this one left it
    provider.claims = {**ANA, "email_verified": False}
    come_back(Client())
    assert not EmailAddress.objects.get(user=ana.user).verified
    provider.claims = {**ANA, "email": "another@example.org"}
    come_back(Client())
    assert not EmailAddress.objects.get(user=ana.user).verified
    provider.claims = ANA
    come_back(Client())
    assert EmailAddress.objects.get(user=ana.user).verified


def test_what_somebody_else_has_confirmed_stays_theirs(provider: type[Provider], ana: Member, cleo: Member) -> None:
    come_back(Client())
    EmailAddress.objects.all().delete()
    EmailAddress.objects.create(user=cleo.user, email="ana@example.org", verified=True)
    assert come_back(Client()).status_code == 302
    assert not EmailAddress.objects.filter(user=ana.user, verified=True).exists()


def _token(member: Member) -> str:
    return issue_token(participant=member.participant, name="laptop", scopes=["read"])[1]


def _status(secret: str) -> int:
    return Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).status_code


@pytest.mark.parametrize("verified", [False, None, "false", "true", 1, [True], {"a": True}])
def test_an_address_nobody_verified_is_nobodys(
    verified: object, provider: type[Provider], ana: Member, home: str
) -> None:
    provider.claims = {**ANA, "email_verified": verified}
    browser = Client()
    come_back(browser)
    assert browser.get(home).status_code == 302
    assert not SocialAccount.objects.exists()
    assert Client().post("/accounts/login/", {"login": "ana@example.org", "password": PASSWORD}).status_code == 302


def test_a_new_person_needs_an_invitation(provider: type[Provider], ana: Member, home: str) -> None:
    provider.claims = EMIL
    assert "Accounts come by invitation" in come_back(Client()).content.decode()
    assert not User.objects.filter(email="emil@example.org").exists()
    _, token = create_invitation(workspace=ana.workspace, by=access(ana), role="member")
    browser = Client()
    browser.get(f"/join/{token}/")
    assert come_back(browser)["Location"] == f"/join/{token}/"
    assert browser.post(f"/join/{token}/")["Location"] == home
    member = Member.objects.get(user__email="emil@example.org")
    assert member.participant.name == "Emil"


@pytest.mark.parametrize(
    "changes",
    [
        {"document": b"<html>down</html>"},
        {"document": [1]},
        {"document": b"[" + b"1," * 600_000 + b"1]"},
        {"token_endpoint": "http://127.0.0.2:9/token"},
        {"userinfo": ["nobody"]},
        {"userinfo": {"email": "ana@example.org"}},
    ],
    ids=["html", "a list", "large", "inward", "no claims", "no subject"],
)
def test_what_a_provider_answers_wrongly_is_said(
    changes: dict[str, object], provider: type[Provider], ana: Member, home: str
) -> None:
    provider.changes = changes
    browser = Client()
    leaving = browser.get(LOGIN)
    if leaving.status_code == 302:
        state = parse_qs(urlsplit(leaving["Location"]).query)["state"][0]
        leaving = browser.get(f"{LOGIN}callback/", {"code": "a-code", "state": state})
    assert "You are not signed in" in leaving.content.decode()
    assert browser.get(home).status_code == 302


HOSTILE = ["a\x00b", "\ud800", "x" * 100_000, 7, None, True, [[]], {"a\x00": "\ud800"}, float("inf"), ""]


@pytest.mark.parametrize("value", HOSTILE, ids=[ascii(value)[:20] for value in HOSTILE])
@pytest.mark.parametrize("claim", ["sub", "email", "name", "picture", "preferred_username", "locale", "a\x00\udfff"])
def test_no_claim_of_a_provider_breaks_anything(
    claim: str, value: object, provider: type[Provider], ana: Member
) -> None:
    """The person is refused or is Ana; whatever else it says is left out or cleaned."""
    provider.claims = {**ANA, claim: value}
    answer = come_back(Client())
    assert answer.status_code in (200, 302, 502)
    if claim not in ("sub", "email"):
        assert answer.status_code == 302
        assert SocialAccount.objects.get().user == ana.user
    elif claim == "email":
        assert not SocialAccount.objects.exists()  # a stranger, who has no invitation
    else:
        assert (answer.status_code == 502) is (value != 7)


@pytest.mark.parametrize("claim", ["email", "name", "sub", "picture"])
def test_a_new_person_of_odd_claims_has_an_account_that_can_be_kept(
    claim: str, provider: type[Provider], ana: Member
) -> None:
    _, token = create_invitation(workspace=ana.workspace, by=access(ana), role="member", uses=20)
    for number, value in enumerate(HOSTILE):
        provider.claims = {**EMIL, "sub": f"s{number}", "email": f"e{number}@example.org", claim: value}
        browser = Client()
        browser.get(f"/join/{token}/")
        assert come_back(browser).status_code in (200, 302, 502)
        if "_auth_user_id" in browser.session:
            assert browser.post(f"/join/{token}/", follow=True).status_code == 200
    for account in SocialAccount.objects.all():
        assert set(account.extra_data["userinfo"]) <= {"sub", "email", "email_verified", "name", "preferred_username"}


def test_claims_of_two_subjects_sign_nobody_in(provider: type[Provider], ana: Member) -> None:
    provider.changes = {"userinfo": {**ANA, "sub": "2"}}
    assert come_back(Client()).status_code == 502


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"sub": "1", "email": 1e999}', b"\xff\xfe", b'"ana"'])
def test_what_is_hardly_json_is_said(body: bytes, provider: type[Provider], ana: Member) -> None:
    provider.changes = {"userinfo": body}
    assert come_back(Client()).status_code in (200, 502)
    assert not SocialAccount.objects.exists()


def test_who_signs_in_by_the_provider_is_nobody_elses_to_decide(provider: type[Provider], ana: Member) -> None:
    """A link on another site starts nothing; a state from elsewhere ends nowhere; without a provider there is none."""
    away = Client().get(LOGIN, headers={"Sec-Fetch-Site": "cross-site"})
    assert away["Location"] == "/accounts/login/"
    assert provider.calls == []
    assert "not signed in" in Client().get(f"{LOGIN}callback/", {"code": "a-code", "state": "x"}).content.decode()
    assert Client().get("/accounts/oidc/other/login/").status_code == 404

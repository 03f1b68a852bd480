"""Guesses are limited for all processes together; a wrong guesser locks nobody else out; answers tell no account."""

from datetime import timedelta

from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from openvibe.base.mail import send_due_mail
from openvibe.base.models import CacheEntry
from openvibe.workspaces.models import Invitation, Member
from openvibe.workspaces.services import accept_invitation, create_invitation, revoke_invitation
from tests.factories import PASSWORD, access, make_user

LOGIN = "/accounts/login/"


def guess(browser: Client, address: str, password: str = "wrong", email: str = "ana@example.org") -> HttpResponse:
    answer = browser.post(LOGIN, {"login": email, "password": password}, REMOTE_ADDR=address)
    assert isinstance(answer, HttpResponse)
    return answer


def test_a_wrong_guesser_locks_nobody_else_out(ana: Member) -> None:
    known = Client()
    assert guess(known, "10.0.0.1", PASSWORD).status_code == 302
    known.post("/accounts/logout/")
    attacker = Client()
    answers = [guess(attacker, "10.0.0.1").content.decode() for _ in range(6)]
    assert "Too many failed" in answers[5]
    assert "Too many failed" not in answers[4]
    assert guess(attacker, "10.0.0.1", PASSWORD).status_code == 200
    assert CacheEntry.objects.exists()  # not in one process's memory
    assert guess(Client(), "10.0.0.2", PASSWORD).status_code == 302
    assert guess(known, "10.0.0.1", PASSWORD).status_code == 302


def test_many_addresses_do_not_guess_for_long_and_a_known_browser_still_gets_in(
    ana: Member, settings: Settings
) -> None:
    settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, "login_account": "6/h/key"}
    known = Client()
    assert guess(known, "10.1.0.1", PASSWORD).status_code == 302
    known.post("/accounts/logout/")
    for number in range(5):
        guess(Client(), f"10.2.0.{number}")
    assert "Too many failed" in guess(Client(), "10.3.0.1", PASSWORD).content.decode()
    assert guess(known, "10.1.0.1", PASSWORD).status_code == 302
    forged = Client()
    forged.cookies["known_browser"] = known.cookies["known_browser"].value[:-1] + "x"
    assert guess(forged, "10.3.0.2", PASSWORD).status_code == 200
    known.post("/accounts/logout/")
    for _ in range(10):
        guess(known, "10.1.0.1")
    assert guess(known, "10.1.0.1", PASSWORD).status_code == 200


def test_answers_do_not_tell_whether_an_account_exists(ana: Member, mailoutbox: list[object]) -> None:
    def shown(answer: HttpResponse, email: str) -> str:
        page = answer.content.decode().replace(email, "")
        return "\n".join(line for line in page.splitlines() if "csrf" not in line)

    wrong = [shown(guess(Client(), "10.4.0.1", email=email), email) for email in ("ana@example.org", "x@example.org")]
    assert wrong[0] == wrong[1]
    resets = [Client().post("/accounts/password/reset/", {"email": email}) for email in ("ana@example.org", "x@y.org")]
    assert [answer.status_code for answer in resets] == [302, 302]
    assert resets[0]["Location"] == resets[1]["Location"]
    assert send_due_mail() == 2  # "there is no account" is mailed, too
    assert len(mailoutbox) == 2


def test_a_closed_invitation_says_why(ana: Member) -> None:
    def page(token: str) -> str:
        answer = Client().get(f"/join/{token}/")
        assert answer.status_code in (200, 404)
        return answer.content.decode()

    _, used = create_invitation(workspace=ana.workspace, by=access(ana), role="member")
    assert "good until" in page(used)
    accept_invitation(token=used, user=make_user("Emil"))
    assert "has been used up" in page(used)
    invitation, revoked = create_invitation(workspace=ana.workspace, by=access(ana), role="member")
    revoke_invitation(invitation=invitation, by=access(ana))
    assert "was taken back" in page(revoked)
    invitation, expired = create_invitation(workspace=ana.workspace, by=access(ana), role="member", days=30)
    Invitation.objects.filter(pk=invitation.pk).update(expires_at=timezone.now() - timedelta(days=1))
    assert "expired on" in page(expired)
    assert "is no invitation" in page("nothing")


def test_nobody_makes_links_without_end(ana: Member, home: str, settings: Settings) -> None:
    settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, "invitation": "2/h/user"}
    browser = Client()
    guess(browser, "10.5.0.1", PASSWORD)
    answers = [browser.post(f"{home}invitations/", {"role": "member"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 403]
    assert "Wait a little" in answers[2].content.decode()


def test_a_request_that_came_past_a_trusted_proxy_is_answered(ana: Member, settings: Settings) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 2
    values = {"login": "ana@example.org", "password": PASSWORD}
    answer = Client().post("/accounts/login/", values, headers={"X-Forwarded-For": "192.0.2.1"})
    assert answer.status_code == 302

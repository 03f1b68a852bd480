"""The proof of an address: once somebody shows that an account's address is theirs, nothing that was there before lets
anybody in: password, sessions, tokens, passkeys, other second factors, what else was linked."""

import re
from dataclasses import dataclass

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.core import mail
from django.db.models.signals import pre_save
from django.test import Client
from pytest_django import Settings

from agents.models import Agent
from openvibe.api.services import issue_token
from openvibe.base.mail import send_due_mail
from openvibe.base.models import AuditRecord
from openvibe.webhooks.models import Webhook
from openvibe.workspaces.models import Invitation, Member
from openvibe.workspaces.services import create_invitation
from tests.factories import PASSWORD, access, make_agent
from tests.workspaces.oidc_provider import Provider
from tests.workspaces.passkey import Passkey
from tests.workspaces.test_oidc import come_back
from tests.workspaces.test_two_factor import set_up

pytestmark = pytest.mark.django_db
NEW_PASSWORD = "another horse battery"


@dataclass
class Stranger:
    """A stranger who signed up as Ana, with Ana's address, and has prepared to come back."""

    member: Member
    browser: Client
    passkey: Passkey
    secrets: tuple[str, str]  # tokens: her own, one of an agent

    def doors(self) -> set[str]:
        """The doors through which the stranger still comes in."""
        home = f"/w/{self.member.workspace.slug}/"
        open_doors = {name for name, secret in zip(("token", "agent"), self.secrets, strict=True) if _is_good(secret)}
        password = Client()
        password.post("/accounts/login/", {"login": self.member.user.email, "password": PASSWORD})
        is_opened = self.browser.get(home).status_code == 200
        checks = {"session": is_opened, "password": "_auth_user_id" in password.session}
        checks["passkey"] = self.passkey.sign_in(Client())
        checks["factors"] = Authenticator.objects.filter(user=self.member.user_id).exists()
        checks["provider"] = SocialAccount.objects.filter(user=self.member.user_id, uid="the stranger's").exists()
        checks["invitation"] = Invitation.objects.filter(revoked_at=None).exists()
        return open_doors | {name for name, is_open in checks.items() if is_open}


def _is_good(secret: str) -> bool:
    return Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


ALL = {"token", "agent", "session", "passkey", "factors", "provider", "invitation"}  # a password alone lets nobody in


@pytest.fixture
def agent(ana: Member) -> Agent:
    return make_agent(ana)


@pytest.fixture
def stranger(ana: Member, agent: Agent) -> Stranger:
    browser = Client()
    browser.post("/accounts/login/", {"login": ana.user.email, "password": PASSWORD})
    passkey = Passkey()
    passkey.add(browser)
    own, of_agent = (
        issue_token(participant=one, name="laptop", scopes=["read"], made_by_id=ana.participant_id)[1]
        for one in (ana.participant, agent.participant)
    )
    SocialAccount.objects.create(user=ana.user, provider="other", uid="the stranger's")
    create_invitation(workspace=ana.workspace, by=access(ana), role="admin")
    stranger = Stranger(ana, browser, passkey, (own, of_agent))
    assert stranger.doors() == ALL
    return stranger


def proven(member: Member) -> bool:
    return bool(EmailAddress.objects.filter(user=member.user_id, email=member.user.email, verified=True).exists())


def test_a_passkey_planted_before_the_owner_came_by_the_provider_signs_nobody_in(
    provider: type[Provider], stranger: Stranger, ana: Member, home: str
) -> None:
    browser = Client()
    assert come_back(browser).status_code == 302
    assert stranger.doors() == set()
    assert browser.get(home).status_code == 200
    assert proven(ana)
    record = AuditRecord.objects.filter(action="token").latest("pk")
    assert (record.actor, record.after) == ("the identity provider", "revoked")
    assert AuditRecord.objects.get(action="account").subject == "Ana"

    own = Passkey()  # hers from now on: neither the provider nor a reset takes it away
    come_back(browser)
    ana.user.refresh_from_db()
    ana.user.set_password(PASSWORD)
    ana.user.save()
    own.add(reauthenticated := _signed_in_by_password(ana))
    assert reauthenticated.get(home).status_code == 200
    come_back(Client())
    assert own.sign_in(Client())


def _signed_in_by_password(member: Member) -> Client:
    browser = Client()
    browser.post("/accounts/login/", {"login": member.user.email, "password": PASSWORD})
    assert "_auth_user_id" in browser.session
    return browser


def test_an_account_that_the_provider_knew_before_is_cleared_when_it_verifies_the_address(
    provider: type[Provider], stranger: Stranger, ana: Member
) -> None:
    """The link was made before addresses that a provider verified counted as shown."""
    SocialAccount.objects.create(user=ana.user, provider="sso", uid="1")
    come_back(Client())
    assert stranger.doors() == set()
    assert SocialAccount.objects.get(user=ana.user).uid == "1"


def test_who_links_the_provider_while_signed_in_keeps_what_she_has(
    provider: type[Provider], ana: Member, home: str
) -> None:
    browser, passkey = _signed_in_by_password(ana), Passkey()
    passkey.add(browser)
    come_back(browser, process="connect")
    assert proven(ana)
    come_back(Client())
    assert passkey.sign_in(Client())
    assert browser.get(home).status_code == 200


def reset(member: Member, password: str = NEW_PASSWORD, *, address: str = "") -> str:
    """Resets the password by the link in the mail, as its reader; returns the last page."""
    browser = Client()
    browser.post("/accounts/password/reset/", {"email": address or member.user.email})
    send_due_mail()
    match = re.search(r"/accounts/password/reset/key/\S+", str(mail.outbox[-1].body))
    assert match
    form = browser.get(match[0]).headers["Location"]
    answer = browser.post(form, {"password1": password, "password2": password}, follow=True)
    return answer.content.decode()


def test_a_reset_shows_whose_the_address_is(stranger: Stranger, ana: Member, home: str) -> None:
    page = reset(ana)
    assert "The password is changed" in page
    assert stranger.doors() == set()
    assert proven(ana)
    owner = Client()
    owner.post("/accounts/login/", {"login": ana.user.email, "password": NEW_PASSWORD})
    assert owner.get(home).status_code == 200


def test_a_reset_is_no_way_around_factors_that_were_added_since(ana: Member, agent: Agent, home: str) -> None:
    EmailAddress.objects.create(user=ana.user, email=ana.user.email, verified=True, primary=True)
    browser = _signed_in_by_password(ana)
    set_up(browser)
    own, of_agent = (
        issue_token(participant=one, name="laptop", scopes=["read"], made_by_id=ana.participant_id)[1]
        for one in (ana.participant, agent.participant)
    )
    page = reset(ana)
    assert "second factor" in page
    assert "tokens" in page
    assert browser.get(home).status_code == 302
    assert (_is_good(own), _is_good(of_agent)) == (False, True)
    back = Client()
    path = back.post("/accounts/login/", {"login": ana.user.email, "password": NEW_PASSWORD}).headers["Location"]
    assert path == "/accounts/2fa/authenticate/"
    assert back.get(home).status_code == 302


def test_an_address_that_is_only_claimed_gets_no_link(ana: Member, dora: Member) -> None:
    """Rows of earlier versions: a second address nobody has shown opens no account, by mail or by the provider."""
    EmailAddress.objects.create(user=dora.user, email="boss@garden.example")
    Client().post("/accounts/password/reset/", {"email": "boss@garden.example"})
    send_due_mail()
    assert "/password/reset/key/" not in str(mail.outbox[-1].body)


def test_the_provider_does_not_link_by_an_address_that_is_only_claimed(
    provider: type[Provider], dora: Member, home: str
) -> None:
    EmailAddress.objects.create(user=dora.user, email="boss@garden.example")
    provider.claims = {"sub": "7", "email": "boss@garden.example", "email_verified": True, "name": "Boss"}
    browser = Client()
    come_back(browser)
    assert "_auth_user_id" not in browser.session
    assert not SocialAccount.objects.exists()


@pytest.fixture
def mailing(settings: Settings) -> None:
    settings.EMAIL_CONFIGURED = True


def test_a_change_of_an_address_nobody_had_shown_clears_the_account(
    mailing: None, stranger: Stranger, ana: Member, home: str
) -> None:
    """Ana has the account from whoever runs the server, who set her a password; the passkey is not hers."""
    ana.user.set_password(NEW_PASSWORD)
    ana.user.save()
    browser = Client()
    stage = browser.post("/accounts/login/", {"login": ana.user.email, "password": NEW_PASSWORD}).headers["Location"]
    assert stage == "/accounts/2fa/authenticate/"  # that of the stranger's: it is taken away for her
    Authenticator.objects.exclude(user=None).filter(type="recovery_codes").delete()
    browser = _browser_of(ana)
    browser.post("/accounts/email/", {"action_add": "", "email": "ana@new.example"})
    send_due_mail()
    match = re.search(r"/accounts/email/new/\S+", str(mail.outbox[-1].body))
    assert match
    confirm = browser.post(match[0]).headers["Location"]
    assert confirm.startswith("/accounts/reauthenticate/")  # factors go: a session alone must not take them
    assert stranger.passkey.sign_in(Client())
    assert "its passkeys, second factors, tokens" in browser.get(match[0]).content.decode()
    browser.post(confirm, {"password": NEW_PASSWORD})
    browser.post(match[0])
    ana.user.refresh_from_db()
    assert ana.user.email == "ana@new.example"
    assert proven(ana)
    assert stranger.doors() == set()
    assert browser.get(home).status_code == 200
    assert ana.user.check_password(NEW_PASSWORD)


def _browser_of(member: Member) -> Client:
    browser = Client()
    browser.force_login(member.user, "allauth.account.auth_backends.AuthenticationBackend")
    return browser


def test_a_later_change_of_the_address_ends_nothing(mailing: None, ana: Member) -> None:
    EmailAddress.objects.create(user=ana.user, email=ana.user.email, verified=True, primary=True)
    browser, passkey = _signed_in_by_password(ana), Passkey()
    passkey.add(browser)
    browser.post("/accounts/email/", {"action_add": "", "email": "ana@new.example"})
    send_due_mail()
    match = re.search(r"/accounts/email/new/\S+", str(mail.outbox[-1].body))
    assert match
    browser.post(match[0])
    ana.user.refresh_from_db()
    assert ana.user.email == "ana@new.example"
    assert passkey.sign_in(Client())


def confirmation_link(browser: Client, address: str) -> str:
    browser.post("/accounts/email/", {"action_send": "", "email": address})
    send_due_mail()
    match = re.search(r"/accounts/confirm-email/\S+", str(mail.outbox[-1].body))
    assert match
    return match[0]


def test_who_confirms_the_address_without_being_signed_in_clears_the_account(
    mailing: None, stranger: Stranger, ana: Member
) -> None:
    EmailAddress.objects.create(user=ana.user, email=ana.user.email, primary=True)
    link = confirmation_link(stranger.browser, ana.user.email)
    owner = Client()
    assert "You are not signed in" in owner.get(link).content.decode()
    answer = owner.post(link, follow=True).content.decode()
    assert proven(ana)
    assert stranger.doors() == set()
    assert "/accounts/password/reset/" in answer
    assert owner.post(link).status_code == 404
    reset(ana)
    owner.post("/accounts/login/", {"login": ana.user.email, "password": NEW_PASSWORD})
    assert "_auth_user_id" in owner.session


def test_who_confirms_her_own_address_keeps_what_she_has(mailing: None, ana: Member) -> None:
    EmailAddress.objects.create(user=ana.user, email=ana.user.email, primary=True)
    browser, passkey = _signed_in_by_password(ana), Passkey()
    passkey.add(browser)
    link = confirmation_link(browser, ana.user.email)
    assert "You are not signed in" not in browser.get(link).content.decode()
    browser.post(link)
    assert proven(ana)
    assert passkey.sign_in(Client())


def test_a_second_address_is_confirmed_by_nobody_who_is_not_signed_in(mailing: None, dora: Member) -> None:
    """The address of another person would become a door to an account that is not theirs, and stay taken."""
    browser = _signed_in_by_password(dora)
    EmailAddress.objects.create(user=dora.user, email=dora.user.email, primary=True)
    EmailAddress.objects.create(user=dora.user, email="boss@garden.example")
    link = confirmation_link(browser, "boss@garden.example")
    Client().post(link)
    assert not EmailAddress.objects.filter(verified=True).exists()
    browser.post(link)
    assert EmailAddress.objects.get(verified=True).email == "boss@garden.example"


def test_a_passkey_that_is_on_its_way_when_the_address_is_shown_is_not_kept(stranger: Stranger, ana: Member) -> None:
    """The page was asked for by a session that is over by the time the passkey is stored."""

    def reset_first(sender: type[Authenticator], **_: object) -> None:
        pre_save.disconnect(reset_first, sender=Authenticator)
        reset(ana)

    late = Passkey()
    pre_save.connect(reset_first, sender=Authenticator)
    assert late.add(stranger.browser) == 400
    assert not Authenticator.objects.filter(user=ana.user_id).exists()
    assert stranger.doors() == set()
    assert not late.sign_in(Client())


def test_webhooks_of_the_account_tell_nobody_until_an_admin_looks(ana: Member, agent: Agent) -> None:
    rows = [_webhook(ana, ana), _webhook(agent, ana), _webhook(agent, None)]
    reset(ana)
    states = [Webhook.objects.get(pk=row.pk).state for row in rows]
    assert states == ["resting", "resting", "active"]


def _webhook(participant: Member | Agent, made_by: Member | None) -> Webhook:
    return Webhook.objects.create(
        workspace_id=participant.workspace_id,
        participant_id=participant.participant_id,
        made_by_id=made_by.participant_id if made_by else None,
        url="https://hooks.example/in",
        kinds=["mention"],
        secret="s",
    )

"""Pages of webhooks: made by admins, the secret shown once, what is refused stays in the form."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone

from agents.models import Agent
from openvibe.api.services import issue_token
from openvibe.base.problems import Refused
from openvibe.chat.services import add_to_channel
from openvibe.webhooks.models import Delivery, Webhook, mask_url
from openvibe.webhooks.services import create_webhook
from openvibe.workspaces.models import Member, User
from tests.admin.conftest import as_superuser
from tests.api.client import Api
from tests.factories import access, make_channel, make_member, signed_in


def test_an_admin_makes_one_and_sees_its_secret_once(ana: Member, dora: Member, vibe: Agent) -> None:
    browser, address = signed_in(ana), f"/w/{ana.workspace.slug}/webhooks/"
    inward = "http://169.254.169.254/x"
    response = browser.post(address, {"url": inward, "kinds": ["mention"], "agent": "vibe"})
    assert response.status_code == 400
    assert "never called" in response.content.decode()
    assert inward in response.content.decode()
    values = {"url": "https://93.184.216.34/x", "kinds": ["mention"], "agent": "vibe"}
    answer = browser.post(address, values)
    assert "no-store" in answer["Cache-Control"]
    html = answer.content.decode()
    webhook = Webhook.objects.get()
    assert (webhook.participant, webhook.secret in html) == (vibe.participant, True)
    page = f"{address}{webhook.pk}/"
    assert webhook.secret not in browser.get(page).content.decode()
    assert browser.post(page, {"act": "test"}).status_code == 302
    assert browser.post(page, {"act": "save", "url": "ftp://x", "kinds": ["mention"]}).status_code == 400
    assert browser.post(page, {"act": "pause"}).status_code == 302
    assert browser.post(page, {"act": "test"}).status_code == 409
    rotated = browser.post(page, {"act": "rotate"}).content.decode()
    webhook.refresh_from_db()
    assert webhook.secret in rotated
    assert signed_in(dora).get(address).status_code == 403
    assert signed_in(dora).get(page).status_code == 404
    assert browser.post(page, {"act": "delete"}).status_code == 302
    assert not Webhook.objects.exists()


def test_saving_one_from_before_standard_webhooks_shows_its_new_secret_once(ana: Member) -> None:
    url = "https://93.184.216.34/x"
    webhook, _ = create_webhook(by=access(ana), participant=ana.participant, url=url, kinds=["mention"])
    Webhook.objects.filter(pk=webhook.pk).update(secret="whsec_made-with-another-alphabet_")
    browser, page = signed_in(ana), f"/w/{ana.workspace.slug}/webhooks/{webhook.pk}/"
    assert "Save the webhook to get a secret" in browser.get(page).content.decode()
    saved = browser.post(page, {"act": "save", "url": webhook.masked_url, "kinds": ["mention"]}).content.decode()
    webhook.refresh_from_db()
    assert webhook.secret in saved
    again = browser.get(page).content.decode()
    assert webhook.secret not in again
    assert "Save the webhook to get a secret" not in again
    assert browser.post(page, {"act": "save", "url": url, "kinds": ["mention"]}).status_code == 302


def test_a_password_in_an_address_is_refused_in_words_about_webhooks(ana: Member) -> None:
    """A password is refused through both doors, and never given back by the API."""
    values = {"url": "https://ana:tulip77@93.184.216.34/x", "kinds": ["mention"]}
    _, token = issue_token(participant=ana.participant, name="Elsewhere", scopes=["admin"])
    made = Api(Client(), {"Authorization": f"Bearer {token}"}).post("webhooks/", values)
    page = signed_in(ana).post(f"/w/{ana.workspace.slug}/webhooks/", values)
    assert [made.status_code, page.status_code] == [400, 400]
    words = "No user name or password belongs in an address: others read it."
    assert words in made.json()["detail"]
    assert words in page.content.decode()
    assert "key field" not in made.json()["detail"]
    assert "tulip77" not in made.content.decode()
    assert not Webhook.objects.exists()


def test_another_admin_does_not_have_it_sent_elsewhere_nor_reads_the_answers(ana: Member) -> None:
    """A webhook tells what Ana alone may see, in channels where Eve is not."""
    eve, url = make_member("Eve", ana.workspace, role="admin"), "https://93.184.216.34/ana"
    webhook, _ = create_webhook(by=access(ana), participant=ana.participant, url=url, kinds=["message_posted"])
    Delivery.objects.create(webhook=webhook, kind="message_posted", state="delivered", response="the salary list")
    page = f"/w/{ana.workspace.slug}/webhooks/{webhook.pk}/"
    for values in ({"act": "save", "url": "https://93.184.216.34/eve", "kinds": ["mention"]}, {"act": "rotate"}):
        assert signed_in(eve).post(page, values).status_code == 403
    webhook.refresh_from_db()
    assert (webhook.url, webhook.previous_secret) == (url, "")
    assert "salary" not in signed_in(eve).get(page).content.decode()
    assert "salary" in signed_in(ana).get(page).content.decode()
    assert signed_in(eve).post(page, {"act": "pause"}).status_code == 302


def test_the_next_attempt_is_said_in_the_time_of_the_reader(ana: Member) -> None:
    at, zone = timezone.now() + timedelta(minutes=5), "Asia/Kathmandu"
    User.objects.filter(pk=ana.user_id).update(time_zone=zone)
    url = "https://93.184.216.34/ana"
    webhook, _ = create_webhook(by=access(ana), participant=ana.participant, url=url, kinds=["mention"])
    Webhook.objects.filter(pk=webhook.pk).update(failing_since=at, next_attempt_at=at)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/webhooks/{webhook.pk}/").content.decode()
    assert f"next attempt {at.astimezone(ZoneInfo(zone)):%H:%M:%S}</p>" in page


def test_nobody_is_told_by_an_agent_of_a_private_channel_she_is_not_in(ana: Member, vibe: Agent) -> None:
    eve, url = make_member("Eve", ana.workspace, role="admin"), "https://93.184.216.34/ana"
    closed = make_channel(ana, "closed", private=True)
    add_to_channel(channel=closed, participant=vibe.participant, by=access(ana))
    webhook, _ = create_webhook(by=access(ana), participant=vibe.participant, url=url, kinds=["message_posted"])
    Delivery.objects.create(webhook=webhook, kind="message_posted", state="delivered", response="the salary list")
    with pytest.raises(Refused, match="private channel"):
        create_webhook(by=access(eve), participant=vibe.participant, url=url, kinds=["message_posted"])
    address = f"/w/{ana.workspace.slug}/webhooks/"
    made = {"url": "https://93.184.216.34/eve", "kinds": ["mention"], "agent": "vibe"}
    assert signed_in(eve).post(address, made).status_code == 400
    page = f"{address}{webhook.pk}/"
    assert signed_in(eve).post(page, {"act": "save", **made}).status_code == 403
    assert "salary" not in signed_in(eve).get(page).content.decode()
    assert signed_in(eve).post(page, {"act": "pause"}).status_code == 302


SECRET_URL = "https://93.184.216.34/services/T0TULIP/B77/xyz"


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://hooks.example", "https://hooks.example"),
        ("https://hooks.example/", "https://hooks.example/"),
        ("https://hooks.example:8443/services/", "https://hooks.example:8443/…"),
        ("https://hooks.example/services/T0/B7/x", "https://hooks.example/services/…"),
        ("https://hooks.example/0f8fad5bd9cb469fa165", "https://hooks.example/…"),
        ("https://hooks.example/bot110201543:AAHdqTcvCH1vGWJxfS/send", "https://hooks.example/…"),
        ("https://hooks.example?key=tulip", "https://hooks.example/…"),
    ],
)
def test_of_an_address_its_host_and_how_the_path_begins_are_shown(url: str, masked: str) -> None:
    assert mask_url(url) == masked


def test_an_address_is_shown_masked_wherever_it_stands(ana: Member) -> None:
    _, token = issue_token(participant=ana.participant, name="Elsewhere", scopes=["admin"])
    api, browser = Api(Client(), {"Authorization": f"Bearer {token}"}), as_superuser(ana)
    made = api.post("webhooks/", {"url": SECRET_URL, "kinds": ["mention"]})
    Webhook.objects.update(state="resting", reason="Nothing came through.")
    home, admin = f"/w/{ana.workspace.slug}/", "/admin/webhooks/webhook/"
    pages = [browser.get(home), *(browser.get(f"{home}webhooks/{end}") for end in ("", f"{made.json()['id']}/"))]
    pages += [browser.get(f"{admin}{end}") for end in ("", f"{made.json()['id']}/change/")]
    for answer in (made, api.get("webhooks/"), api.get(f"webhooks/{made.json()['id']}/"), *pages):
        assert answer.status_code in (200, 201)
        assert "TULIP" not in answer.content.decode()
        assert "https://93.184.216.34/services/…" in answer.content.decode()


def test_an_address_sent_back_as_it_was_shown_stays_and_another_takes_its_place(ana: Member) -> None:
    webhook, _ = create_webhook(by=access(ana), participant=ana.participant, url=SECRET_URL, kinds=["mention"])
    page = f"/w/{ana.workspace.slug}/webhooks/{webhook.pk}/"
    for url, status, stored in (
        ("https://93.184.216.34/services/…", 302, SECRET_URL),
        ("https://93.184.216.34/others/…", 400, SECRET_URL),
        ("https://93.184.216.34/others/1", 302, "https://93.184.216.34/others/1"),
    ):
        values = {"act": "save", "url": url, "kinds": ["message_posted"]}
        answer = signed_in(ana).post(page, values)
        assert (answer.status_code, b"Write the whole address" in answer.content) == (status, status == 400)
        webhook.refresh_from_db()
        assert (webhook.url, webhook.kinds) == (stored, ["message_posted"])

"""An admin makes tokens for agents and for herself in the app; nobody opens through one what is closed to them."""

import re
from typing import Any

from django.test import Client
from django.urls import reverse

from agents.models import Agent
from openvibe.api.models import Token
from openvibe.api.services import issue_token
from openvibe.chat.services import add_to_channel, open_direct_messages
from openvibe.workspaces.models import Member
from tests import factories
from tests.factories import signed_in


def test_an_admin_makes_and_revokes_a_token_of_an_agent(ana: Member, vibe: Agent) -> None:
    browser, page = signed_in(ana), reverse("tokens", args=[ana.workspace.slug])
    form = {"owner": vibe.participant_id, "name": "watering", "scopes": ["read", "memory"], "days": "30"}

    made = browser.post(page, form).content.decode()
    (secret,) = set(re.findall(r"ovk_[\w-]+", made))
    bearer = {"Authorization": f"Bearer {secret}"}
    me = Client().get("/api/v1/me/", headers=bearer).json()
    assert (me["participant"]["handle"], me["scopes"]) == ("vibe", ["memory", "read"])

    html = browser.get(page).content.decode()
    assert "watering" in html
    assert secret not in html
    browser.post(reverse("token-revoke", args=[ana.workspace.slug, Token.objects.get().pk]))
    assert Client().get("/api/v1/me/", headers=bearer).status_code == 401
    assert "watering" not in browser.get(page).content.decode()


def test_the_list_says_who_made_a_token_for_another(ana: Member, dora: Member, vibe: Agent) -> None:
    """A token that was made on the command line, which nobody of the workspace did."""
    dora.role = "admin"
    dora.save()
    for owner, by in ((vibe, dora), (vibe, None), (ana, None), (ana, ana)):
        maker_id = by.participant_id if by else None
        issue_token(participant=owner.participant, name="x", scopes=["read"], made_by_id=maker_id)
    html = signed_in(ana).get(reverse("tokens", args=[ana.workspace.slug])).content.decode()
    makers = re.findall(r"made \d+ \w+ \d+( by [^,]*)?,", html)
    assert makers == ["", " by whoever runs the server", " by whoever runs the server", " by @dora"]


def test_what_is_wrong_is_said_and_kept(ana: Member, vibe: Agent) -> None:
    browser, page = signed_in(ana), reverse("tokens", args=[ana.workspace.slug])
    right = {"owner": vibe.participant_id, "name": "watering", "scopes": ["read"], "days": "30"}
    owners = ({"owner": value} for value in ("x", str(9**30)))
    days = ({"days": value} for value in ("1e3", "0"))
    wrongs: list[dict[str, Any]] = [*owners, *days, {"scopes": []}, {"scopes": ["all"]}]
    for wrong in wrongs:
        answer = browser.post(page, {**right, **wrong})
        assert answer.status_code == 400
        assert 'value="watering"' in answer.content.decode()
    assert not Token.objects.exists()


def test_only_of_whom_the_admin_sees_all_that_they_see(ana: Member, dora: Member, cleo: Member, vibe: Agent) -> None:
    other = factories.make_member("Otto", ana.workspace, role="admin")
    closed = factories.make_channel(ana, "secret", private=True)
    add_to_channel(channel=closed, participant=vibe.participant, by=factories.access(ana))
    form = {"name": "watering", "scopes": ["read"], "days": ""}
    page = reverse("tokens", args=[ana.workspace.slug])
    for participant in (vibe.participant, dora.participant, cleo.participant):
        assert signed_in(other).post(page, {**form, "owner": participant.pk}).status_code == 400
    assert signed_in(ana).post(page, {**form, "owner": vibe.participant_id}).status_code == 200
    token = Token.objects.get()
    assert token.expires_at is None
    revoke = reverse("token-revoke", args=[ana.workspace.slug, token.pk])
    assert [signed_in(dora).get(page).status_code, signed_in(dora).post(revoke).status_code] == [403, 403]
    assert [signed_in(cleo).get(page).status_code, signed_in(cleo).post(revoke).status_code] == [404, 404]
    token.refresh_from_db()
    assert token.is_valid


def test_what_people_write_to_an_agent_leaves_its_tokens_to_admins(ana: Member, dora: Member, vibe: Agent) -> None:
    otto = factories.make_member("Otto", ana.workspace, role="admin")
    for member in (ana, dora):
        open_direct_messages(by=factories.access(member), recipient=vibe.participant)
    page = reverse("tokens", args=[ana.workspace.slug])
    form = {"owner": vibe.participant_id, "name": "watering", "scopes": ["read"], "days": ""}
    assert signed_in(otto).post(page, form).status_code == 200
    revoke = reverse("token-revoke", args=[ana.workspace.slug, Token.objects.get().pk])
    assert signed_in(otto).post(revoke).status_code == 302
    assert not Token.objects.get().is_valid


def test_an_admin_revokes_every_token_of_the_workspace(ana: Member, dora: Member, vibe: Agent) -> None:
    """Tokens that she may not make are among them: what leaked is shut out."""
    otto = factories.make_member("Otto", ana.workspace, role="admin")
    closed = factories.make_channel(ana, "secret", private=True)
    add_to_channel(channel=closed, participant=vibe.participant, by=factories.access(ana))
    for number, owner in enumerate((dora.participant, vibe.participant)):
        issue_token(participant=owner, name=f"leak {number}", scopes=["read"])
    browser, page = signed_in(otto), reverse("tokens", args=[ana.workspace.slug])
    assert browser.get(page).content.decode().count("leak ") >= 2
    for token in Token.objects.all():
        assert browser.post(reverse("token-revoke", args=[ana.workspace.slug, token.pk])).status_code == 302
    assert not Token.objects.filter(revoked_at=None).exists()

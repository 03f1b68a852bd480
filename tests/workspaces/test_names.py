"""No name reads as another's: what cannot be seen in one is removed, whichever door it comes through."""

import json
from collections.abc import Callable

import pytest
from django.test import Client

from agents.agent.services import create_agent
from knowledge.models import Entry
from openvibe.api.models import SCOPES
from openvibe.api.services import issue_token
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services import clean_speaker_name, get_or_create_speaker
from openvibe.workspaces.models import Member, Participant, User, Workspace
from openvibe.workspaces.services import create_invitation
from tests.factories import PASSWORD, SOUL, access

TYPED = "Be\u202en \u200b"
SHOWN = "Ben"
UNSEEN = "\u202e\u200b"


@pytest.fixture
def browser(signed_in: Callable[[Member], Client], ana: Member) -> Client:
    return signed_in(ana)


@pytest.fixture
def api(ana: Member) -> Client:
    token = issue_token(participant=ana.participant, name="script", scopes=SCOPES)[1]
    return Client(headers={"Authorization": f"Bearer {token}"})


def test_of_a_person(browser: Client, home: str, ana: Member) -> None:
    form = {"name": TYPED, "theme": "dark"}
    assert browser.post(f"{home}profile/", form).status_code == 302
    assert set(Participant.objects.filter(member=ana).values_list("name", "member__user__name")) == {(SHOWN, SHOWN)}
    response = browser.post(f"{home}profile/", form | {"name": UNSEEN})
    assert "Give a name of 1 to 80 characters." in response.content.decode()


def test_of_somebody_who_signs_up(ana: Member) -> None:
    _, token = create_invitation(workspace=ana.workspace, by=access(ana), role="member")
    client = Client()
    client.get(f"/join/{token}/")
    form = {"email": "ben@example.org", "password1": PASSWORD, "name": UNSEEN}
    assert "Give a name" in client.post("/accounts/signup/", form).content.decode()
    assert client.post("/accounts/signup/", form | {"name": TYPED}).status_code == 302
    assert User.objects.get(email="ben@example.org").name == SHOWN


def test_of_an_account_and_a_workspace_in_the_admin(ana: Member) -> None:
    root = Client()
    root.force_login(User.objects.create_superuser(email="root@example.org", password=PASSWORD, name="Root"))
    account = {"name": TYPED, "email": ana.user.email, "is_active": "on", "new_password": ""}
    address = f"/admin/workspaces/user/{ana.user_id}/change/"
    assert root.post(address, account).status_code == 302
    assert User.objects.get(pk=ana.user_id).name == SHOWN
    assert root.post(address, account | {"name": UNSEEN}).status_code == 200
    workspace = {"name": TYPED, "description": "", "instructions": "", "budgets": "{}", "daily_token_budget": "1000"}
    assert root.post(f"/admin/workspaces/workspace/{ana.workspace_id}/change/", workspace).status_code == 302
    assert Workspace.objects.get(pk=ana.workspace_id).name == SHOWN


def test_of_a_workspace(browser: Client, home: str, ana: Member) -> None:
    Member.objects.filter(pk=ana.pk).update(role="owner")
    assert browser.post(f"{home}settings/general/", {"name": TYPED, "description": ""}).status_code == 302
    assert Workspace.objects.get(pk=ana.workspace_id).name == SHOWN
    assert browser.post("/workspaces/new/", {"name": TYPED}).status_code == 302
    assert Workspace.objects.exclude(pk=ana.workspace_id).get().name == SHOWN


def test_of_an_agent_and_of_somebody_imported(ana: Member) -> None:
    speaker = get_or_create_speaker(ana.workspace, clean_speaker_name(TYPED))
    assert get_or_create_speaker(ana.workspace, clean_speaker_name(SHOWN)) == speaker
    agent = create_agent(
        by=access(ana), workspace=ana.workspace, handle="ben-2", name=TYPED, soul=SOUL.format(name="Ben")
    )
    assert agent.participant.name == SHOWN
    Participant.objects.filter(pk=speaker).update(name=TYPED)  # past all services
    assert Participant.objects.get(pk=speaker).name == SHOWN


@pytest.mark.parametrize("by_api", [False, True])
def test_of_a_thread_and_a_topic(by_api: bool, browser: Client, home: str, channel: Channel, api: Client) -> None:
    if by_api:
        answers = [
            api.post("/api/v1/threads/", json.dumps({"channel": channel.pk, "title": TYPED}), "application/json"),
            api.post("/api/v1/knowledge/", json.dumps({"topic": TYPED, "content": "Yes."}), "application/json"),
        ]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert [answer.json()[name] for answer, name in zip(answers, ("title", "topic"), strict=True)] == [SHOWN, SHOWN]
    else:
        browser.post(f"{home}c/{channel.pk}/threads/", {"title": TYPED, "body": "Hello."})
        browser.post(
            f"{home}knowledge/new/", {"topic": TYPED, "content": "Yes.", "kind": "fact", "visibility": "shared"}
        )
    assert Thread.objects.get().title == SHOWN
    assert Entry.objects.get().topic == SHOWN

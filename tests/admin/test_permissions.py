"""Endpoints, workspaces, members, tokens, channels: the same rules as everywhere."""

import re

import pytest
from pytest_django.fixtures import Settings

from memory.episodes.models import Episode
from openvibe.api.models import Token
from openvibe.api.services import issue_token
from openvibe.chat.models import Channel
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests import factories
from tests.admin.conftest import KEY, as_superuser
from tests.engines.llm.model_server import Answer, serving
from tests.factories import make_channel


def endpoint_form(endpoint: Endpoint, **changes: object) -> dict[str, object]:
    names = ("name", "kind", "base_url", "model", "context_window", "output_reserve", "timeout_seconds")
    values = {name: getattr(endpoint, name) for name in names}
    return {**values, "workspace": endpoint.workspace_id, "api_key": "", "price_in": "", "price_out": "", **changes}


def save(member: Member, endpoint: Endpoint, **changes: object) -> Endpoint:
    response = as_superuser(member).post(
        f"/admin/llm/endpoint/{endpoint.pk}/change/", endpoint_form(endpoint, **changes)
    )
    assert response.status_code == 302, response.context["errors"]
    return Endpoint.objects.get(pk=endpoint.pk)


@pytest.fixture
def endpoint(garden: Member) -> Endpoint:
    return Endpoint.objects.get(workspace=garden.workspace)


def test_an_empty_key_keeps_the_old_one(garden: Member, endpoint: Endpoint) -> None:
    assert save(garden, endpoint, name="Renamed").api_key == KEY


def test_a_new_key_replaces_it_and_can_be_forgotten(garden: Member, endpoint: Endpoint) -> None:
    assert save(garden, endpoint, api_key="sk-new-key-0123456789").api_key == "sk-new-key-0123456789"
    assert save(garden, endpoint, forget="on").api_key == ""


def test_one_default_per_workspace(garden: Member, endpoint: Endpoint) -> None:
    save(garden, endpoint, is_default="on")
    other = {**endpoint_form(endpoint, name="Second", is_default="on"), "api_key": KEY}
    page = as_superuser(garden).post("/admin/llm/endpoint/add/", other).content.decode()
    assert "is the default of this workspace" in page
    assert KEY not in page


def test_one_writer_of_summaries_per_workspace(garden: Member, endpoint: Endpoint) -> None:
    assert save(garden, endpoint, is_for_summaries="on").is_for_summaries
    other = {**endpoint_form(endpoint, name="Second", is_for_summaries="on"), "api_key": KEY}
    page = as_superuser(garden).post("/admin/llm/endpoint/add/", other).content.decode()
    assert "writes the summaries of this workspace already" in page
    assert Endpoint.objects.filter(workspace=garden.workspace).count() == 1


def test_a_key_does_not_follow_to_a_new_address(garden: Member, endpoint: Endpoint) -> None:
    assert save(garden, endpoint, base_url="https://elsewhere.example/v1").api_key == ""


def test_a_test_asks_first_and_says_how_it_went(garden: Member, endpoint: Endpoint, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    client, address = as_superuser(garden), f"/admin/llm/endpoint/{endpoint.pk}/test/"
    with serving(Answer("Hello!", cached_tokens=5)) as server:
        Endpoint.objects.filter(pk=endpoint.pk).update(base_url=server.base_url)
        client.get(address)
        assert not server.asked
        page = client.post(address, follow=True).content.decode()
    assert re.search(
        r"m answered: [\d.]+ s, \d+ tokens read \(5 from its cache\), \d+ answered\. It said: Hello!", page
    )
    assert [asked.path for asked in server.asked if asked.path.endswith("/chat/completions")] == [
        "/v1/chat/completions"
    ]
    assert all(KEY in asked.headers["authorization"] for asked in server.asked)


def test_a_preset_fills_the_form_and_a_stored_key_goes_to_its_own_address_only(
    garden: Member, endpoint: Endpoint, cleo: Member, settings: Settings
) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    page = as_superuser(garden).get("/admin/llm/endpoint/add/").content.decode()
    assert 'href="?name=Anthropic&amp;kind=anthropic&amp;base_url=https%3A%2F%2Fapi.anthropic.com"' in page
    filled = (
        as_superuser(garden).get("/admin/llm/endpoint/add/?name=Groq&base_url=https://api.groq.com/openai/v1").content
    )
    assert b'value="https://api.groq.com/openai/v1"' in filled
    with serving(Answer("large small")) as server:
        form = {"kind": "openai", "base_url": server.base_url, "endpoint": endpoint.pk}
        response = as_superuser(garden).post("/admin/llm/endpoint/models/", form)
        assert response.json()["models"] == ["large", "small"]
        Endpoint.objects.filter(pk=endpoint.pk).update(base_url=server.base_url)
        as_superuser(garden).post("/admin/llm/endpoint/models/", form)
        as_superuser(cleo).post("/admin/llm/endpoint/models/", {**form, "endpoint": 0})
    lists = [asked for asked in server.asked if asked.path == "/v1/models"]
    assert [KEY in asked.headers["authorization"] for asked in lists] == [False, True, False]
    assert sum(KEY in asked.headers["authorization"] for asked in server.asked) == len(server.asked) // 3


def workspace_form(member: Member, **changes: str) -> dict[str, str]:
    base = {"name": "Garden", "description": "", "instructions": "", "budgets": "{}", "daily_token_budget": "1000"}
    return {**base, **changes}


def test_instructions_over_2000_tokens_are_refused(ana: Member) -> None:
    address = f"/admin/workspaces/workspace/{ana.workspace_id}/change/"
    response = as_superuser(ana).post(address, workspace_form(ana, instructions="word " * 2500))
    assert "at most 2,000 fit" in response.content.decode()


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        ('{"thread": {"ceiling": 100}}', "must be at least"),
        ('{"lunch": {"ceiling": 9000}}', "no task type"),
        ('{"thread": {"P9": 1}}', "no part called"),
        ('{"thread": 5}', "must name its parts"),
        ("[1]", "written by task type"),
    ],
)
def test_budgets_that_cannot_work_are_refused(budgets: str, words: str, ana: Member) -> None:
    address = f"/admin/workspaces/workspace/{ana.workspace_id}/change/"
    assert words in as_superuser(ana).post(address, workspace_form(ana, budgets=budgets)).content.decode()
    ana.workspace.refresh_from_db()
    assert ana.workspace.budgets == {}


def test_good_budgets_are_kept(ana: Member) -> None:
    address = f"/admin/workspaces/workspace/{ana.workspace_id}/change/"
    as_superuser(ana).post(address, workspace_form(ana, budgets='{"thread": {"ceiling": 12000}}'))
    ana.workspace.refresh_from_db()
    assert ana.workspace.budgets == {"thread": {"ceiling": 12000}}


def test_roles_follow_the_rules_of_the_app(ana: Member, dora: Member) -> None:
    client = as_superuser(ana)
    client.post(f"/admin/workspaces/member/{dora.pk}/change/", {"role": "admin"})
    dora.refresh_from_db()
    assert dora.role == "admin"
    page = client.post(f"/admin/workspaces/member/{ana.pk}/change/", {"role": "member"}, follow=True).content.decode()
    ana.refresh_from_db()
    assert ana.role == "owner"
    assert "keeps at least one owner" in page


def test_a_token_is_shown_once(ana: Member) -> None:
    client = as_superuser(ana)
    data = {"participant": ana.participant_id, "name": "Script", "scopes": ["read"], "days": "30"}
    page = client.post("/admin/api/token/add/", data, follow=True).content.decode()
    token = Token.objects.get()
    assert "ovk_" in page
    assert token.expires_at is not None
    again = (
        client.get("/admin/api/token/").content.decode()
        + client.get(f"/admin/api/token/{token.pk}/change/").content.decode()
    )
    assert "ovk_" not in again
    assert token.token_hash not in again
    assert again.lower().count("made by") >= 2, "in the list and on its page"
    issue_token(participant=ana.participant, name="server", scopes=["read"])
    assert "whoever runs the server" in client.get("/admin/api/token/").content.decode()


def test_bulk_actions_ask_with_names_first(garden: Member) -> None:
    client, token = as_superuser(garden), Token.objects.get()
    data = {"action": "revoke", "_selected_action": [token.pk]}
    page = client.post("/admin/api/token/", data).content.decode()
    assert token.name in page
    token.refresh_from_db()
    assert token.revoked_at is None
    client.post("/admin/api/token/", {**data, "confirmed": "yes"})
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_feedback_is_settled_in_bulk(garden: Member) -> None:
    feedback = Episode.objects.get(kind="feedback_received")
    data = {"action": "settle", "_selected_action": [feedback.pk], "confirmed": "yes"}
    as_superuser(garden).post("/admin/memory/episode/", data)
    feedback.refresh_from_db()
    assert feedback.applied_by == garden.participant


def test_channels_take_people_of_their_own_workspace(garden: Member, other_garden: Member, dora: Member) -> None:
    channel = Channel.objects.get(workspace=garden.workspace, name="general")
    form: dict[str, object] = {
        "name": "general",
        "description": "",
        "instructions": "",
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "0",
        "memberships-0-participant": other_garden.participant_id,
    }
    client, address = as_superuser(garden), f"/admin/chat/channel/{channel.pk}/change/"
    client.post(address, form)
    assert not channel.memberships.filter(participant=other_garden.participant).exists()
    client.post(address, {**form, "memberships-0-participant": dora.participant_id})
    assert channel.memberships.filter(participant=dora.participant).exists()


@pytest.mark.parametrize("becomes_private", [True, False])
def test_tokens_end_here_too_when_an_agent_comes_to_read_without_their_maker(
    ana: Member, dora: Member, becomes_private: bool
) -> None:
    Member.objects.filter(pk=dora.pk).update(role="admin")
    dora.refresh_from_db()
    room = make_channel(ana, "board", private=not becomes_private)
    agent = factories.make_agent(ana, channel=room if becomes_private else None)
    token, _ = issue_token(
        participant=agent.participant, name="Dora's", scopes=["read"], made_by_id=dora.participant_id
    )
    rows = {"memberships-TOTAL_FORMS": "1", "memberships-INITIAL_FORMS": "0"}
    added = {"memberships-0-participant": "" if becomes_private else agent.participant_id}
    form: dict[str, object] = {"name": "board", "description": "", "instructions": "", "is_private": "on"}
    assert (
        as_superuser(ana).post(f"/admin/chat/channel/{room.pk}/change/", {**form, **rows, **added}).status_code == 302
    )
    token.refresh_from_db()
    room.refresh_from_db()
    assert (room.is_private, agent.participant in room.participants.all()) == (True, True)
    assert token.revoked_at is not None


@pytest.mark.parametrize("model", ["workspaces/invitation", "api/token", "memory/episode", "llm/endpoint"])
def test_ticks_made_by_hand_choose_nothing(garden: Member, model: str) -> None:
    action = {"workspaces/invitation": "take_back", "api/token": "revoke", "memory/episode": "settle"}
    made_up = {"action": action.get(model, "delete_selected"), "_selected_action": ["zz", "1" * 40], "confirmed": "yes"}
    assert as_superuser(garden).post(f"/admin/{model}/", made_up).status_code == 302

"""What holds for agents in a channel: who sets it, by page and API, and what is refused."""

import pytest
from django.db import IntegrityError, transaction

from agents.models import Agent, McpServer
from openvibe.base.models import AuditRecord
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Channel
from openvibe.chat.services import KEEP, create_channel, set_agent_limits
from openvibe.workspaces.models import Member
from tests.agents.factories import McpServerFactory, McpToolFactory
from tests.api.client import is_problem
from tests.api.conftest import Enter, by_token
from tests.factories import ChannelFactory, access, signed_in

__all__ = ["by_token"]


@pytest.fixture
def shop(ana: Member) -> McpServer:
    server = McpServerFactory.create(workspace=ana.workspace)
    McpToolFactory.create(server=server)
    McpToolFactory.create(server=server, name="cancel")
    return server


def kept(channel: Channel) -> tuple[bool, list[str] | None, int | None]:
    channel.refresh_from_db()
    return channel.added_agents_only, channel.agent_tools, channel.daily_token_budget


def test_what_is_set_is_kept_in_one_order_and_written_down(ana: Member, channel: Channel, shop: McpServer) -> None:
    assert kept(channel) == (False, None, None)
    tools = ["call:read", "mcp:shop/order", "memory", "memory"]
    set_agent_limits(channel=channel, by=access(ana), added_agents_only=True, tools=tools, daily_token_budget=5_000)
    assert kept(channel) == (True, ["memory", "mcp:shop/order", "call:read"], 5_000)
    set_agent_limits(channel=channel, by=access(ana), tools=None)
    assert kept(channel) == (True, None, 5_000)
    rows = AuditRecord.objects.order_by("pk").values_list("action", "subject", "before", "after")
    assert list(rows)[-4:] == [
        ("channel", "agents that answer in #general", "all that read it", "only those that were added"),
        ("tools", "agents in #general", "all tools", "memory, mcp:shop/order, call:read"),
        ("budget", "#general", "no budget of its own", "5,000 tokens a day"),
        ("tools", "agents in #general", "memory, mcp:shop/order, call:read", "all tools"),
    ]
    before = AuditRecord.objects.count()
    set_agent_limits(channel=channel, by=access(ana), tools=None, daily_token_budget=5_000)
    assert AuditRecord.objects.count() == before, "nothing changed"


def test_a_private_channel_is_not_named_in_the_log(ana: Member) -> None:
    secret = create_channel(by=access(ana), name="takeover", is_private=True)
    set_agent_limits(channel=secret, by=access(ana), daily_token_budget=1)
    assert not AuditRecord.objects.filter(subject__contains="takeover").exists()


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"tools": ["memry"]}, "unknown_tool"),
        ({"tools": ["mcp:elsewhere"]}, "unknown_tool"),
        ({"daily_token_budget": -1}, "bad_budget"),
        ({"daily_token_budget": 2_000_000_000}, "bad_budget"),
    ],
)
def test_what_means_nothing_is_refused(ana: Member, channel: Channel, limits: dict[str, object], code: str) -> None:
    with pytest.raises(Problem) as problem:
        set_agent_limits(channel=channel, by=access(ana), **limits)  # type: ignore[arg-type]  # of the parameters
    assert problem.value.code == code
    assert kept(channel) == (False, None, None)


def test_who_made_the_channel_says_who_answers_and_admins_the_rest(dora: Member, ben: Member, ana: Member) -> None:
    beds = create_channel(by=access(dora), name="beds")
    set_agent_limits(channel=beds, by=access(dora), added_agents_only=True)
    for limits in ({"tools": ["memory"]}, {"daily_token_budget": 5}):
        with pytest.raises(Refused, match="Only owners and admins"):
            set_agent_limits(channel=beds, by=access(dora), **limits)
    with pytest.raises(Refused, match="person who made"):
        set_agent_limits(channel=beds, by=access(ben), added_agents_only=False)
    assert kept(beds) == (True, None, None)
    set_agent_limits(channel=beds, by=access(ana), tools=KEEP, daily_token_budget=0)
    assert kept(beds) == (True, None, 0)


def test_a_server_keeps_its_place_under_a_new_name_and_leaves_with_its_deletion(
    ana: Member, channel: Channel, shop: McpServer
) -> None:
    McpToolFactory.create(server=McpServerFactory.create(workspace=ana.workspace, name="shop-2"))
    tools = ["memory", "mcp:shop", "mcp:shop/order", "mcp:shop-2"]
    set_agent_limits(channel=channel, by=access(ana), tools=tools)
    shop.name = "store"
    shop.save()
    assert kept(channel)[1] == ["memory", "mcp:store", "mcp:store/order", "mcp:shop-2"]
    shop.delete()
    assert kept(channel)[1] == ["memory", "mcp:shop-2"]
    set_agent_limits(channel=channel, by=access(ana), tools=["mcp:shop-2"])
    McpServer.objects.all().delete()
    assert kept(channel)[1] == [], "nothing is left, which is not all"


def test_direct_messages_have_no_limits(ana: Member, ben: Member) -> None:
    first, second = sorted((ana.participant_id, ben.participant_id))
    facts = {"workspace": ana.workspace, "name": "", "is_private": True}
    with pytest.raises(IntegrityError, match="direct_messages_have_no_limits"), transaction.atomic():
        ChannelFactory.create(
            **facts,
            by=ana,
            membership=None,
            first_participant_id=first,
            second_participant_id=second,
            daily_token_budget=1,
        )


def test_the_api_shows_and_sets_it(ana: Member, dora: Member, channel: Channel, by_token: Enter, vibe: Agent) -> None:
    api = by_token(ana.participant)
    body = {"added_agents_only": True, "agent_tools": ["memory"], "daily_token_budget": 7_000}
    answer = api.patch(f"channels/{channel.pk}/", body)
    assert answer.status_code == 200
    assert {name: answer.json()[name] for name in body} == body
    assert api.patch(f"channels/{channel.pk}/", {"agent_tools": None}).json()["agent_tools"] is None
    assert api.get(f"channels/{channel.pk}/").json()["daily_token_budget"] == 7_000
    assert is_problem(api.patch(f"channels/{channel.pk}/", {}), 400, "required")
    assert is_problem(api.patch(f"channels/{channel.pk}/", {"agent_tools": ["rm"]}), 400, "unknown_tool")
    assert is_problem(api.patch(f"channels/{channel.pk}/", {"daily_token_budget": 10**12}), 400, "bad_budget")
    both = {"instructions": "Be brief.", "daily_token_budget": 1, "instructions_version": "stale"}
    assert api.patch(f"channels/{channel.pk}/", both).status_code == 409
    assert kept(channel) == (True, None, 7_000), "all of it or nothing"
    for other in (dora.participant, vibe.participant):
        answer = by_token(other).patch(f"channels/{channel.pk}/", {"daily_token_budget": 1})
        assert answer.status_code == 403


def test_the_page_sets_it(ana: Member, channel: Channel, shop: McpServer) -> None:
    client, path = signed_in(ana), f"/w/anas-garden/c/{channel.pk}/edit/"
    form = {"limits": "1", "added_agents_only": "on", "which_tools": "some", "daily_token_budget": "900"}
    answer = client.post(path, {**form, "agent_tools": ["mcp:shop", "memory"]})
    assert answer.status_code == 302
    assert kept(channel) == (True, ["memory", "mcp:shop"], 900)
    page = client.get(path).content.decode()
    assert 'value="mcp:shop" checked' in page
    assert 'value="read_file" checked' not in page
    assert 'value="900"' in page
    client.post(path, {"limits": "1", "which_tools": "all", "agent_tools": ["memory"], "daily_token_budget": ""})
    assert kept(channel) == (False, None, None)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"daily_token_budget": "many"}, "Write a whole number"),
        ({"daily_token_budget": "-4"}, "0 or more"),
        ({"which_tools": "some", "agent_tools": ["rm"]}, "rm is not one of"),
    ],
)
def test_the_page_says_what_is_wrong(ana: Member, channel: Channel, typed: dict[str, object], words: str) -> None:
    answer = signed_in(ana).post(f"/w/anas-garden/c/{channel.pk}/edit/", {"limits": "1", **typed})
    assert (answer.status_code, kept(channel)) == (400, (False, None, None))
    assert words in answer.content.decode()


def test_whoever_made_the_channel_is_shown_what_she_may_set(dora: Member) -> None:
    beds = create_channel(by=access(dora), name="beds")
    client, path = signed_in(dora), f"/w/anas-garden/c/{beds.pk}/edit/"
    page = client.get(path).content.decode()
    assert "were added answer here" in page
    assert "Tokens a day" not in page
    client.post(path, {"limits": "1", "added_agents_only": "on", "daily_token_budget": "1", "which_tools": "some"})
    assert kept(beds) == (True, None, None)

"""What holds in a place, and why: the same by page and API, for each as far as she may know it."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.agent.call_rules import create_call_rule
from agents.models import Agent
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services import add_to_channel, set_agent_limits, set_instructions, set_thread_access, start_dive
from openvibe.workspaces.models import Member
from tests.agents.factories import McpServerFactory, McpToolFactory, SpendingFactory
from tests.api.client import is_problem
from tests.api.conftest import token_client
from tests.factories import (
    access,
    make_agent,
    make_channel,
    make_entry,
    make_paid_endpoint,
    make_thread,
    say,
    signed_in,
)

Effective = dict[str, Any]


def of_channel(member: Member | Agent, channel: Channel) -> Effective:
    answer = token_client(member.participant).get(f"channels/{channel.pk}/effective/")
    assert answer.status_code == 200, answer.json()
    body: Effective = answer.json()
    return body


def of_thread(member: Member | Agent, thread: Thread) -> Effective:
    answer = token_client(member.participant).get(f"threads/{thread.pk}/effective/")
    assert answer.status_code == 200, answer.json()
    body: Effective = answer.json()
    return body


def agent_in(effective: Effective, handle: str) -> Effective:
    return next(agent for agent in effective["agents"] if agent["handle"] == handle)


def states(rows: list[Effective]) -> dict[str, str]:
    return {row["name"]: row["state"] for row in rows}


def test_instructions_stand_in_the_order_of_prompts(ana: Member, dora: Member, thread: Thread, vibe: Agent) -> None:
    ana.workspace.instructions = "Speak plainly."
    ana.workspace.save()
    set_instructions(scope=thread.channel, by=access(ana), text="Name your source.")
    set_instructions(scope=thread, by=access(ana), text="Roses only.")
    rows = of_thread(ana, thread)["instructions"]
    assert [row["text"] for row in rows[2:]] == ["Speak plainly.", "Name your source.", "Roses only."]
    assert [row["origin"] for row in rows] == [
        *("OpenVibe itself", "each agent", "the whole workspace", "#general", "this thread")
    ]
    assert [bool(row["change_url"]) for row in rows] == [False, False, True, True, True]
    assert not any(row["change_url"] for row in of_thread(dora, thread)["instructions"])
    assert len(of_channel(dora, thread.channel)["instructions"]) == 4


def test_each_agent_says_whether_it_answers_and_why_not(ana: Member, vibe: Agent, channel: Channel) -> None:
    make_agent(ana, "sage", level=3)
    make_agent(ana, "l1", level=1)
    effective = of_channel(ana, channel)
    assert [(agent["handle"], agent["answers"]) for agent in effective["agents"]] == [("sage", True), ("vibe", True)]
    assert agent_in(effective, "sage")["level_origin"] == "everywhere in the workspace"
    set_agent_limits(channel=channel, by=access(ana), added_agents_only=True, daily_token_budget=0)
    effective = of_channel(ana, channel)
    assert effective["added_agents_only"]
    assert "only agents answer that were added" in agent_in(effective, "sage")["why_not"]
    assert agent_in(effective, "vibe")["answers"], "its model costs nothing"
    make_paid_endpoint(ana)
    assert "token budget of #general" in agent_in(of_channel(ana, channel), "vibe")["why_not"]


def test_tools_say_why(ana: Member, vibe: Agent, channel: Channel) -> None:
    server = McpServerFactory.create(workspace=ana.workspace)
    effects = {"stock": "reads", "order": "external"}.items()
    tools = [McpToolFactory.create(server=server, name=name, effect=effect) for name, effect in effects]
    vibe.mcp_tools.set(tools)
    found = agent_in(of_channel(ana, channel), "vibe")["tools"]
    assert states(found) == {
        **dict.fromkeys(("memory", "read_file", "update_context_block", "log_progress", "work_update"), "allowed"),
        **dict.fromkeys(("request_approval", "knowledge_suggest", "load_skill", "unload_skill"), "allowed"),
        **{"knowledge_search": "refused", "shop__order": "refused", "shop__stock": "allowed"},
    }
    why = {tool["name"]: tool["why"] for tool in found}
    assert why["knowledge_search"] == "A tool which agents have from L3 on."
    assert why["shop__stock"].startswith("An admin allowed it")
    set_agent_limits(channel=channel, by=access(ana), tools=["memory", "mcp:shop/order"])
    effective = of_channel(ana, channel)
    found = agent_in(effective, "vibe")["tools"]
    assert {name for name, state in states(found).items() if state == "allowed"} == {"memory"}
    assert {tool["why"] for tool in found if tool["name"] == "shop__stock"} == {
        "A tool which agents may not use in #general."
    }
    assert effective["tools"]["names"] == ["memory", "mcp:shop/order"]
    assert effective["tools"]["labels"][1] == "order"


def test_calls_of_agents_elsewhere_say_why(ana: Member, channel: Channel) -> None:
    reed = make_agent(ana, "reed", level=3, channel=channel, answers_itself=True)
    create_call_rule(agent=reed, by=access(ana), kind="edit", effect="allow", pattern="src/**")
    found = agent_in(of_channel(ana, channel), "reed")
    assert found["runs_elsewhere"]
    by_kind = states(found["calls"])
    assert (by_kind["read"], by_kind["edit"], by_kind["fetch"]) == ("allowed", "asks", "asks")
    assert "1 rule that admins made says otherwise" in next(c["why"] for c in found["calls"] if c["name"] == "edit")
    set_agent_limits(channel=channel, by=access(ana), tools=["call:read"])
    by_kind = states(agent_in(of_channel(ana, channel), "reed")["calls"])
    assert {kind for kind, state in by_kind.items() if state != "refused"} == {"read"}


def test_budgets_say_what_was_spent_today(ana: Member, vibe: Agent, channel: Channel) -> None:
    spent = {"workspace": vibe.workspace, "agent": vibe.participant, "purpose": "review"}
    SpendingFactory.create(channel=channel, input_tokens=40, **spent)
    SpendingFactory.create(input_tokens=2, **spent)
    set_agent_limits(channel=channel, by=access(ana), daily_token_budget=500)
    effective = of_channel(ana, channel)
    assert [(row["limit"], row["used"]) for row in effective["budgets"]] == [(500, 40), (2_000_000, 42)]
    assert agent_in(effective, "vibe")["budget"]["used"] == 42


def test_knowledge_and_memory_are_told(ana: Member, dora: Member, channel: Channel, thread: Thread) -> None:
    make_entry(ana)
    make_entry(ana, topic="Costs", visibility="restricted")
    knowledge = of_channel(ana, channel)["knowledge"]
    assert (knowledge["shared"], knowledge["restricted"]) == (1, 1)
    assert of_channel(dora, channel)["knowledge"]["restricted"] == 0
    assert of_channel(dora, channel)["memory"]["mode"] == "full"
    set_thread_access(thread=thread, by=access(ana), access="human_only", allowed_agents=[])
    closed = of_thread(ana, thread)
    assert (closed["knowledge"], closed["agents"]) == (None, [])
    assert "for people only" in closed["agents_origin"]


def test_in_a_dive_the_channel_above_holds(ana: Member, vibe: Agent, thread: Thread) -> None:
    dive = start_dive(source=say(thread, ana, "Roses."), agent=vibe.participant, by=access(ana), body="Look closer.")
    make_agent(ana, "sage", level=3)
    set_agent_limits(channel=thread.channel, by=access(ana), tools=["memory"])
    effective = of_thread(ana, dive.thread)
    assert effective["channel"] == thread.channel_id
    assert "only @vibe answers" in agent_in(effective, "sage")["why_not"]
    assert effective["tools"]["names"] == ["memory"]


def test_guests_and_agents_meet_faces(ana: Member, ben: Member, vibe: Agent, channel: Channel) -> None:
    add_to_channel(channel=channel, participant=ben.participant, by=access(ana))
    make_agent(ana, "sage", level=3)
    ana.workspace.instructions = "Speak plainly."
    ana.workspace.save()
    seen = of_channel(ben, channel)
    assert "Speak plainly." not in str(seen)
    for agent in seen["agents"]:
        assert (agent["tools"], agent["calls"], agent["budget"], agent["soul"]) == ([], [], None, None)
    assert [budget["origin"] for budget in seen["budgets"]] == ["the settings of #general"]
    own = of_channel(vibe, channel)
    assert agent_in(own, "vibe")["tools"]
    assert not agent_in(own, "sage")["tools"]


def test_what_one_does_not_see_is_not_there(ana: Member, dora: Member, cleo: Member) -> None:
    secret = make_channel(ana, "secret", private=True)
    thread = make_thread(secret, ana)
    for stranger in (dora, cleo):
        client = token_client(stranger.participant)
        assert is_problem(client.get(f"channels/{secret.pk}/effective/"), 404, "not_found")
        assert is_problem(client.get(f"threads/{thread.pk}/effective/"), 404, "not_found")
        for path in (f"c/{secret.pk}/effective/", f"t/{thread.pk}/effective/"):
            assert signed_in(stranger).get(f"/w/{stranger.workspace.slug}/{path}").status_code == 404


@pytest.mark.parametrize("place", ["channel", "thread"])
def test_many_agents_and_tools_cost_no_more_queries(ana: Member, thread: Thread, place: str) -> None:
    path = f"c/{thread.channel_id}/effective/" if place == "channel" else f"t/{thread.pk}/effective/"
    client, server = signed_in(ana), McpServerFactory.create(workspace=ana.workspace)
    make_paid_endpoint(ana)
    set_agent_limits(channel=thread.channel, by=access(ana), added_agents_only=True, daily_token_budget=0)

    def add(handle: str, *, elsewhere: bool) -> None:
        agent = make_agent(ana, handle, level=3, channel=thread.channel, answers_itself=elsewhere)
        agent.mcp_tools.add(McpToolFactory.create(server=server, name=f"tool-of-{handle}"))

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(f"/w/anas-garden/{path}").status_code == 200
        return len(captured)

    add("one", elsewhere=False)
    add("two", elsewhere=True)
    queries()
    few = queries()
    for number in range(4):
        add(f"more-{number}", elsewhere=number % 2 == 0)
    assert queries() == few


def test_the_page_says_it_in_words(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    set_instructions(scope=thread.channel, by=access(ana), text="Name your <source>.")
    set_agent_limits(channel=thread.channel, by=access(ana), tools=["memory"], daily_token_budget=500)
    page = signed_in(dora).get(f"/w/anas-garden/c/{thread.channel_id}/effective/").content.decode()
    for words in ("Name your &lt;source&gt;.", "Answers here", "L2 Advisor", "0 tokens used today of 500"):
        assert words in page
    assert f"/c/{thread.channel_id}/edit/" not in page, "Dora may not change it"
    assert f"/c/{thread.channel_id}/edit/" in (
        signed_in(ana).get(f"/w/anas-garden/t/{thread.pk}/effective/").content.decode()
    )
    assert f"/c/{thread.channel_id}/effective/" in (
        signed_in(dora).get(f"/w/anas-garden/c/{thread.channel_id}/").content.decode()
    )

"""What a channel lets agents use: in prompts, calls, permissions of agents elsewhere, and the API."""

import pytest

from agents.models import Agent, McpTool, Permission, Run
from agents.runs.permissions.answers import allow_always
from agents.tools.channel_tools import TOOL_LABELS, list_tool_choices
from agents.tools.toolbox import TOOLS, Toolbox
from agents.tools.values import Decision
from memory.work.approvals import decide_approval
from memory.work.models import Approval, ProgressEntry
from openvibe.base.problems import Refused
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services import start_dive
from openvibe.workspaces.models import Member
from tests.agents.conftest import WriteFile
from tests.agents.factories import McpServerFactory, McpToolFactory
from tests.agents.runs.scripted_runs import LOG, ask, calling, results
from tests.agents.runs.scripted_runs import told as run_with
from tests.agents.tools.tool_calls import call
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter, by_token
from tests.api.test_external_runs import api, question, reed, run
from tests.api.test_permissions import ask as ask_leave
from tests.api.test_permissions import lift, look
from tests.factories import access, attach, make_agent, make_channel, make_entry, make_thread, say

__all__ = ["api", "by_token", "question", "reed", "run"]


def limit(channel: Channel, *names: str) -> None:
    Channel.objects.filter(pk=channel.pk).update(agent_tools=list(names))


def box(agent: Agent, thread: Thread) -> Toolbox:
    return Toolbox.for_agent(agent, Thread.objects.select_related("channel").get(pk=thread.pk))


@pytest.fixture
def orders(ana: Member) -> list[McpTool]:
    server = McpServerFactory.create(workspace=ana.workspace)
    return [McpToolFactory.create(server=server, name=name, effect="reads") for name in ("order", "stock")]


def test_every_tool_of_ours_has_words_for_people(ana: Member) -> None:
    assert list(TOOL_LABELS) == [tool.name for tool in TOOLS]
    names = [choice.name for choice in list_tool_choices(ana.workspace_id)]
    assert len(names) == len(set(names)) == len(TOOLS) + 10


def test_what_is_not_named_is_neither_offered_nor_called(vibe: Agent, thread: Thread) -> None:
    before = {spec.name for spec in box(vibe, thread).specs}
    assert {"log_progress", "work_update"} <= before
    limit(thread.channel, "log_progress", "knowledge_search")
    narrowed = box(vibe, thread)
    assert [spec.name for spec in narrowed.specs] == ["log_progress"], "a channel gives no tool that the level does not"
    outcome = narrowed.execute(call("work_update", action="add", kind="todo", text="Prune"))
    assert outcome.decision == Decision.REFUSED
    assert "work_update, which agents may not use in #general" in outcome.why
    assert "knowledge_search, which agents have from L3 on" in narrowed.execute(call("knowledge_search", query="x")).why
    limit(thread.channel)
    assert box(vibe, thread).specs == box(vibe, thread).offered_specs == ()


def test_servers_are_let_in_whole_or_tool_by_tool(
    ana: Member, vibe: Agent, thread: Thread, orders: list[McpTool]
) -> None:
    vibe.mcp_tools.set(orders)
    limit(thread.channel, "mcp:shop/stock", "memory")
    assert [spec.name for spec in box(vibe, thread).specs] == ["memory", "shop__stock"]
    assert "may not use in #general" in box(vibe, thread).execute(call("shop__order")).why
    limit(thread.channel, "mcp:shop")
    assert [spec.name for spec in box(vibe, thread).specs] == ["shop__order", "shop__stock"]
    sage = make_agent(ana, "sage", channel=thread.channel)
    assert not box(sage, thread).specs, "no tool that no admin allowed"


def test_inside_a_dive_the_channel_of_its_thread_holds(ana: Member, vibe: Agent, thread: Thread) -> None:
    dive = start_dive(source=say(thread, ana, "Roses."), agent=vibe.participant, by=access(ana), body="Look closer.")
    limit(thread.channel, "log_progress")
    assert [spec.name for spec in box(vibe, dive.thread).specs] == ["log_progress"]


def test_a_run_that_calls_it_all_the_same_is_told(ana: Member, vibe: Agent, thread: Thread) -> None:
    limit(thread.channel, "memory")
    run = ask(thread, ana)
    model = run_with(run, calling(LOG), "In March.")
    assert "log_progress" not in {tool.name for tool in model.calls[0].tools}
    assert any("may not use in #general" in result for result in results(model.calls[1]))
    assert not ProgressEntry.objects.exists()


def test_a_prompt_says_nothing_of_what_may_not_be_used(
    ana: Member, vibe: Agent, thread: Thread, skill: WriteFile
) -> None:
    skill("pruning", "# Pruning\nIn March.")
    first = run_with(ask(thread, ana), "In March.")
    assert "load_skill takes one up" in str(first.calls[0].messages)
    limit(thread.channel, "memory")
    second = run_with(ask(thread, ana), "In March.")
    assert "load_skill takes one up" not in str(second.calls[0].messages)


# --- agents elsewhere ---------------------------------------------------------------------------------------
def test_calls_of_agents_elsewhere_are_held_by_kind(api: Api, run: Run, reed: Agent, ana: Member) -> None:
    lift(reed, ana, 4)
    limit(run.thread.channel, "call:read", "call:execute")
    assert ask_leave(api, run, "k1", kind="read")[1]["state"] == "allowed"
    assert ask_leave(api, run, "k2", kind="execute")[1]["state"] == "allowed"
    denied = ask_leave(api, run, "k3", kind="edit")[1]
    assert (denied["state"], denied["approval"]) == ("denied", None)
    assert "In #general agents make no calls of this kind" in denied["why"]
    assert not Approval.objects.exists()


def test_a_card_that_waits_is_answered_by_the_channel_as_it_is_then(
    api: Api, run: Run, reed: Agent, ana: Member
) -> None:
    lift(reed, ana, 3)
    ask_leave(api, run)
    card = Approval.objects.get()
    limit(run.thread.channel, "call:read")
    with pytest.raises(Refused, match="make no calls of this kind"):
        allow_always(approval_id=card.pk, by=access(ana))
    with pytest.raises(Refused, match=r"make no calls of this kind.* It can only be denied\."):
        decide_approval(approval=card, by=access(ana), is_granted=True)
    card.refresh_from_db()
    assert (card.state, look(api, run)["state"]) == ("requested", "waiting")
    decide_approval(approval=card, by=access(ana), is_granted=False)
    assert look(api, run)["state"] == "denied"
    assert Permission.objects.get().state == "denied"


def test_their_doors_to_the_api_are_held_in_the_thread(
    api: Api, run: Run, reed: Agent, ana: Member, thread: Thread
) -> None:
    file = attach(thread, ana, plan_md="Prune in March.").attachments.get()
    limit(thread.channel, "call:read")
    bodies = {
        "work/": {"thread": thread.pk, "kind": "todo", "text": "Prune"},
        "progress/": {"thread": thread.pk, "checkpoint": "Half"},
        "approvals/": {"thread": thread.pk, "what": "Prune"},
        "memory/tool/": {"thread": thread.pk, "action": "search", "query": "roses"},
        "knowledge/suggest/": {"topic": "Pruning", "content": "In March."},
        "blocks/": {"label": "beds", "content": "Six."},
    }
    for path, body in bodies.items():
        assert is_problem(api.post(path, body), 403, "tool_not_allowed_here"), path
    for path in (f"attachments/{file.pk}/", "knowledge/", "knowledge/search/?q=roses"):
        assert is_problem(api.get(path), 403, "tool_not_allowed_here"), path
    Channel.objects.update(agent_tools=None)
    for path, body in bodies.items():
        assert api.post(path, body).status_code in (200, 201), path


def test_what_is_tied_to_no_thread_is_held_while_it_answers_there(
    api: Api, run: Run, reed: Agent, ana: Member, thread: Thread
) -> None:
    make_entry(ana)
    limit(thread.channel, "memory")
    assert is_problem(api.get("knowledge/"), 403, "tool_not_allowed_here")
    beds = make_channel(ana, "beds")
    assert api.post(f"runs/{run.pk}/finish/", {"attempt": 1, "body": "In March."}).status_code == 200
    assert api.get("knowledge/").status_code == 200, "it answers nowhere now"
    assert not make_thread(beds, ana).channel.agent_tools


def test_people_are_held_by_none_of_it(ana: Member, thread: Thread, by_token: Enter) -> None:
    limit(thread.channel)
    client = by_token(ana.participant)
    assert client.post("work/", {"thread": thread.pk, "kind": "todo", "text": "Prune"}).status_code == 201
    assert client.get("knowledge/").status_code == 200


def test_an_agent_that_was_not_added_posts_nothing_where_only_added_ones_answer(
    ana: Member, thread: Thread, by_token: Enter
) -> None:
    rook = make_agent(ana, "rook", level=3, answers_itself=True)
    client = by_token(rook.participant)
    assert client.post(f"threads/{thread.pk}/messages/", {"body": "Hello."}).status_code == 201
    Channel.objects.update(added_agents_only=True)
    answer = client.post(f"threads/{thread.pk}/messages/", {"body": "Hello again."})
    assert is_problem(answer, 403, "not_added_here")

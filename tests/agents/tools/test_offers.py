"""Many tools of connected servers: all can be called, few stand in a prompt, and the others are found."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from agents.models import Agent, McpServer, Run, ToolCall
from agents.prompts.assembler.assemble import assemble
from agents.prompts.assembler.stack import FIND_TOOL, MORE_TOOLS
from agents.tools.mcp_servers.tools import allow_tools, refresh_tools
from agents.tools.offers import (
    MAX_AT_ONCE_EXTRA_TOKENS,
    MAX_DIRECT_EXTRA_TOKENS,
    MAX_EXTRA_DEFINITION_TOKENS,
    MAX_FOUND_TOKENS,
    choose_at_once,
    find_tool,
    found_names,
)
from agents.tools.tool_search import rank_tools
from agents.tools.toolbox import Toolbox
from agents.tools.values import thread_source
from openvibe.chat.models import Channel, Thread
from openvibe.engines.llm.tokens import count_tool, counter_for
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.models import Member
from tests.agents.factories import McpServerFactory, McpToolFactory
from tests.agents.mcp.remote_server import Remote, remote_server
from tests.agents.runs.scripted_runs import WorkerDied, ask, calling, results, told
from tests.agents.tools.tool_calls import call
from tests.factories import access, make_agent, make_thread, say

EXACT = counter_for("offline")
THINGS = ("order", "invoice", "customer", "refund", "shipment", "coupon", "supplier", "product", "warehouse")
VERBS = {
    "list": "Lists every {}, page by page, the newest first, with who made it and when it was changed last.",
    "get": "Gives one {} by its number, with all of its lines, notes and the people who worked on it.",
    "create": "Makes a new {}. Everything that it needs is named in its arguments; the rest has good defaults.",
    "update": "Changes fields of one {}: those that are left out stay as they are, and the change is logged.",
    "archive": "Puts one {} away for good: it is shown in no list any more, and can be read by its number alone.",
}
PREFIXES = ("shop", "store", "stock")


TOOLS = {
    f"{prefix}_{verb}_{thing}": text.format(f"{thing} of the {prefix}")
    for prefix in PREFIXES
    for verb, text in VERBS.items()
    for thing in THINGS
}
"""135 tools."""


SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}, "note": {"type": "string"}}}


@pytest.fixture
def remote(settings: Settings) -> Iterator[Remote]:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with remote_server() as server:
        server.further_tools = TOOLS
        yield server


def allowed_to_all(ana: Member, channel: Channel, server: McpServer) -> Agent:
    agent = make_agent(ana, "fern", level=4, channel=channel)
    server.tools.update(effect="reads")
    tools = server.tools.filter(name__in=TOOLS).select_related("server")
    allow_tools(agent=agent, tools=tools, by=access(ana))
    assert len(tools) == 135
    return agent


@pytest.fixture
def fern(ana: Member, channel: Channel) -> Agent:
    """An agent that may use all of them, as they were fetched once from a server that nothing reaches."""
    server = McpServerFactory.create(workspace=ana.workspace, name="crm", url="http://127.0.0.1:9/mcp")
    for name, text in TOOLS.items():
        McpToolFactory.create(server=server, name=name, description=text, input_schema=SCHEMA)
    return allowed_to_all(ana, channel, server)


@pytest.fixture
def connected_fern(remote: Remote, ana: Member, channel: Channel) -> Agent:
    """The same with a server that answers."""
    server = McpServerFactory.create(workspace=ana.workspace, name="crm", url=remote.url, timeout_seconds=30)
    refresh_tools(server=server)
    return allowed_to_all(ana, channel, server)


def extras(specs: object) -> list[str]:
    return [spec.name for spec in specs if spec.name.startswith("crm__")]  # type: ignore[attr-defined]


def test_of_135_tools_all_can_be_called_and_few_take_room(fern: Agent, thread: Thread) -> None:
    box = Toolbox.for_agent(fern, thread)
    assert len(extras(box.specs)) == 135
    offered = box.offered_specs
    assert FIND_TOOL in [spec.name for spec in offered]
    extra = [spec for spec in offered if spec.name in extras(offered)]
    assert 0 < sum(count_tool(spec, EXACT) for spec in extra) <= MAX_DIRECT_EXTRA_TOKENS
    find = next(spec for spec in offered if spec.name == FIND_TOOL)
    assert "crm: 135" in find.description
    assert len(find.leads_to) == 135 - len(extra)
    assert count_tool(find, EXACT) <= 100
    assert not box.check(call("crm__stock_archive_warehouse", number=1)), "it is not offered, and can be called"


def test_a_prompt_says_how_many_are_left_out(fern: Agent, ana: Member, thread: Thread) -> None:
    say(thread, ana, "@fern hello")
    box = Toolbox.for_agent(fern, thread)
    prompt = assemble(agent=fern, thread=thread, task="mention", tools=box.offered_specs)
    count = 135 - len(extras(box.offered_specs))
    (line,) = [item for item in prompt.dropped if item.section == "tools"]
    assert (line.source, line.reason) == (f"{count} tools of MCP servers can be looked for", "on demand")


def test_a_tool_is_found_offered_and_called(remote: Remote, connected_fern: Agent, ana: Member, thread: Thread) -> None:
    run = ask(thread, ana, "@fern put the third warehouse of the stock away")
    model = told(
        run,
        calling((FIND_TOOL, {"query": "archive a warehouse of the stock"})),
        calling(("crm__stock_archive_warehouse", {"number": 3})),
        "Done.",
    )
    first, second, third = ([tool.name for tool in each.tools] for each in model.calls)
    assert "crm__stock_archive_warehouse" not in first
    assert second[: len(first)] == first, "what was offered stays in its place"
    assert second[len(first)] == "crm__stock_archive_warehouse"
    assert third == second
    assert "- crm__stock_archive_warehouse: Puts one warehouse of the stock away" in results(model.calls[1])[0]
    record = ToolCall.objects.get(run=run, name="crm__stock_archive_warehouse")
    assert record.decision == "allowed"
    assert remote.calls == [("stock_archive_warehouse", {"number": 3, "note": ""})]
    assert run.state == "done"


def test_the_next_prompt_begins_with_the_same_tools_and_has_those_that_were_called(
    fern: Agent, ana: Member, thread: Thread
) -> None:
    before = [spec.name for spec in Toolbox.for_agent(fern, thread).offered_specs]
    names = ["crm__stock_archive_warehouse", "crm__store_update_coupon"]
    for name in names:
        model = told(ask(thread, ana, "@fern go on"), calling((name, {"number": 1})), "Done.")
        assert [tool.name for tool in model.calls[0].tools] == before
        before.append(name)
    assert [spec.name for spec in Toolbox.for_agent(fern, thread).offered_specs] == before
    told(ask(thread, ana, "@fern again"), calling((names[0], {"number": 2})), "Done.")
    assert [spec.name for spec in Toolbox.for_agent(fern, thread).offered_specs] == before


def test_a_tool_that_the_request_names_is_offered_last(fern: Agent, ana: Member, thread: Thread) -> None:
    before = [spec.name for spec in Toolbox.for_agent(fern, thread).offered_specs]
    model = told(ask(thread, ana, "@fern use stock_get_refund for number 7"), "Done.")
    assert [tool.name for tool in model.calls[0].tools] == [*before, "crm__stock_get_refund"]


def test_the_title_of_a_thread_says_which_ones_come_first(fern: Agent, ana: Member, channel: Channel) -> None:
    refunds = make_thread(channel, ana, title="Refunds of the stock")
    offered = extras(Toolbox.for_agent(fern, refunds).offered_specs)
    assert all("refund" in name or "stock" in name for name in offered)
    assert {f"crm__stock_{verb}_refund" for verb in VERBS} <= {*offered}


def test_many_searches_stay_within_the_room_for_definitions(fern: Agent, ana: Member, thread: Thread) -> None:
    searches = [calling((FIND_TOOL, {"query": f"{verb} {thing} store"})) for verb in VERBS for thing in THINGS[:1]]
    model = told(ask(thread, ana, "@fern look around"), *searches, "Done.")
    base = [tool.name for tool in model.calls[0].tools]
    for each in model.calls:
        names = [tool.name for tool in each.tools]
        assert names[: len(base)] == base
        extra = [tool for tool in each.tools if tool.name.startswith("crm__")]
        assert sum(count_tool(tool, EXACT) for tool in extra) <= MAX_EXTRA_DEFINITION_TOKENS
    assert "crm__store_archive_order" in [tool.name for tool in model.calls[-1].tools], "what was found last is there"


def test_the_next_attempt_has_what_the_last_one_found(fern: Agent, ana: Member, thread: Thread) -> None:
    def die(_: object) -> None:
        raise WorkerDied

    run = ask(thread, ana, "@fern look around")
    with pytest.raises(WorkerDied):
        told(run, calling((FIND_TOOL, {"query": "archive a warehouse of the stock"})), die)  # type: ignore[arg-type]
    Run.objects.filter(pk=run.pk).update(attempt=2)
    run.refresh_from_db()
    names = [spec.name for spec in Toolbox.for_agent(run.agent, thread, run=run).offered_specs]
    assert "crm__stock_archive_warehouse" in names


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"query": "sonnets"}, "No tool fits these words. There are 135: crm: 135. Try other words."),
        ({"query": ""}, "No tool fits these words."),
        ({"query": 7}, "query must be of type string."),
        ({}, "query is missing."),
        ({"query": "refund " * 9_000}, "You have these from your next step on:"),
    ],
)
def test_odd_searches_are_answered(fern: Agent, thread: Thread, arguments: dict[str, object], answer: str) -> None:
    assert Toolbox.for_agent(fern, thread).execute(call(FIND_TOOL, **arguments)).result.startswith(answer)


def test_what_is_taken_away_is_found_no_more(fern: Agent, ana: Member, thread: Thread) -> None:
    tools = fern.mcp_tools.exclude(name="stock_archive_warehouse").select_related("server")
    allow_tools(agent=fern, tools=tools, by=access(ana))
    result = Toolbox.for_agent(fern, thread).execute(call(FIND_TOOL, query="archive warehouse stock")).result
    assert "crm__stock_archive_warehouse" not in result


def test_a_change_of_many_tools_is_told_in_short(fern: Agent, ana: Member, thread: Thread) -> None:
    told(ask(thread, ana, "@fern hello"), "Hello.")
    allow_tools(agent=fern, tools=[], by=access(ana))
    model = told(ask(thread, ana, "@fern and now?"), "Nothing.")
    text = "".join(message.content for message in model.calls[0].messages)
    assert "you no longer have crm__" in text
    assert "and 115 more" in text.replace(f"{FIND_TOOL}, ", "")


def spec(name: str, description: str = "Sells roses.", words: int = 0) -> ToolSpec:
    return ToolSpec(name, description + " rose" * words, {"type": "object", "properties": {}})


def test_a_definition_without_room_is_told_in_place_of_being_offered(thread: Thread) -> None:
    specs = [spec("shop__huge", "Grafts scions.", words=MAX_FOUND_TOKENS + 200), spec("shop__graft", "Grafts scions.")]
    assert found_names("graft scions", specs) == ["shop__graft"]
    said = find_tool(specs, ["shop__huge"], thread_source(thread)).run({"query": "graft scions"})
    assert "shop__huge takes too much room to be offered. Call it by this name; its arguments: {" in str(said)


def test_of_many_that_were_called_the_latest_stay_in_the_order_of_their_first_calls() -> None:
    specs = [spec(f"shop__{number}", words=80) for number in range(60)]
    called = {f"shop__{number}": 1_000 - number for number in range(59, 20, -1)}
    chosen = choose_at_once(specs, called, title="", request="")
    kept = [name for name in chosen if name in called]
    assert 3 <= len(kept) < len(called)
    assert kept == [f"shop__{number}" for number in range(20 + len(kept), 20, -1)]
    by_name = {each.name: each for each in specs}
    assert sum(count_tool(by_name[name], EXACT) for name in chosen) <= MAX_AT_ONCE_EXTRA_TOKENS


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("pull requests", "hub__create_pull_request"),
        ("createIssue", "hub__createIssue"),
        ("hub__list_files", "hub__list_files"),
        ("opening of an issue", "hub__createIssue"),
        ("files", "hub__list_files"),
        ("Rechnungen", "hub__rechnung"),
        ("issues, closed", "hub__close"),
    ],
)
def test_words_in_any_form_find_a_tool(query: str, best: str) -> None:
    specs = [
        spec("hub__create_pull_request", "Opens a request to merge a branch."),
        spec("hub__list_files", "Names the files of a folder."),
        spec("hub__createIssue", "Opens one."),
        spec("hub__close", "Closing of an issue."),
        spec("hub__rechnung", "Schreibt eine Rechnung für die Kundin und legt sie ab."),
    ]
    assert rank_tools(query, specs)[0] == best
    assert rank_tools("sonnets", specs) == []


def test_few_tools_are_named_as_before(fern: Agent, ana: Member, thread: Thread) -> None:
    few = McpServer.objects.get().tools.filter(name__startswith="stock_list").select_related("server")
    allow_tools(agent=fern, tools=few, by=access(ana))
    names = [each.name for each in Toolbox.for_agent(fern, thread).offered_specs]
    assert (MORE_TOOLS in names, FIND_TOOL in names) == (True, False)
    prompt = assemble(agent=fern, thread=thread, task="thread", tools=Toolbox.for_agent(fern, thread).offered_specs)
    assert [item for item in prompt.dropped if item.reason == "on demand"] == []

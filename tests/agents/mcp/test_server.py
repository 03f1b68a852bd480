"""What other programs' models find at `/mcp`."""

import asyncio
import base64
import json
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import httpx2
import mcp_types as types
import pytest
from django.test import Client as DjangoClient
from mcp import Client, MCPError
from pytest_django.fixtures import Settings

from agents.mcp.operations import OPERATIONS, operations
from agents.mcp.server import McpApplication
from agents.models import Agent
from openvibe.api.problems import INTERNAL_PROBLEM
from openvibe.api.services import issue_token, revoke_token
from openvibe.chat.models import Channel, Message, Thread
from openvibe.workspaces.models import Member
from tests import factories

pytestmark = pytest.mark.django_db
Visit = Callable[..., Any]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_reads_and_posts_like_at_the_rest_api(
    visit: Visit, ana: Member, vibe: Agent, thread: Thread, mode: str
) -> None:
    factories.say(thread, ana, "When do I prune?")

    async def story(client: Client) -> Any:
        tools = await client.list_tools()
        read = await client.call_tool("messages_list", {"thread": thread.pk})
        result = await client.call_tool("messages_create", {"thread": thread.pk, "body": "In March.", "client_id": "1"})
        second_result = await client.call_tool(
            "messages_create", {"thread": thread.pk, "body": "In March.", "client_id": "1"}
        )
        return tools, read, result, second_result

    tools, read, posted, again = visit(vibe.participant, story, mode=mode)

    assert {tool.name for tool in tools.tools} == set(OPERATIONS)
    assert [row["body"] for row in read.structured_content["results"]] == ["When do I prune?"]
    assert "When do I prune?" in read.content[0].text
    assert posted.structured_content["id"] == again.structured_content["id"]
    assert Message.objects.get(thread=thread, author=vibe.participant).body == "In March."


def test_what_the_token_may_not_is_refused_and_what_its_owner_may_not_see_is_unknown(
    visit: Visit, ana: Member, vibe: Agent, thread: Thread, cleo: Member
) -> None:
    async def story(client: Client) -> Any:
        tools = await client.list_tools()
        result = await client.call_tool("messages_create", {"thread": thread.pk, "body": "Hello."})
        unknown = await client.call_tool("threads_get", {"thread": thread.pk, "colour": "red"})
        return {tool.name for tool in tools.tools}, result, unknown

    names, refused, unknown = visit(vibe.participant, story, scopes=("read",))

    assert "messages_list" in names
    assert "messages_create" not in names
    assert refused.is_error
    assert refused.content[0].text.endswith("Make one that has it, or use another call. (missing_scope)")
    assert unknown.is_error
    assert unknown.content[0].text.startswith("threads_get has no argument 'colour'. It has: thread.")

    async def of_a_stranger(client: Client) -> Any:
        answers: list[Any] = [
            await client.call_tool("messages_list", {"thread": number})
            for number in (thread.pk, 2**40, "12/../messages")
        ]
        with pytest.raises(MCPError) as error:
            await client.read_resource(f"openvibe://thread/{thread.pk}")
        return [(answer.is_error, answer.content[0].text) for answer in answers], error.value

    answers, error = visit(cleo.participant, of_a_stranger)

    assert answers == [answers[0]] * 3
    assert answers[0][1].endswith("(not_found)")
    assert (error.code, error.data["code"]) == (-32002, "not_found")


def test_an_image_is_a_resource_of_who_sees_its_message(
    visit: Visit, ana: Member, vibe: Agent, thread: Thread, cleo: Member
) -> None:
    image = factories.show(thread, ana, "The wall.", description="A wall").images.get()

    async def story(client: Client) -> Any:
        read = await client.call_tool("messages_list", {"thread": thread.pk})
        contents: list[Any] = (await client.read_resource(f"openvibe://image/{image.pk}")).contents
        return read.structured_content["results"][0]["images"], contents[0]

    async def of_a_stranger(client: Client) -> Any:
        with pytest.raises(MCPError) as error:
            await client.read_resource(f"openvibe://image/{image.pk}")
        return error.value

    (listed,), content = visit(vibe.participant, story)
    assert (listed["id"], listed["description"]) == (image.pk, "A wall")
    assert (content.mime_type, base64.b64decode(content.blob)) == ("image/png", bytes(image.content))
    assert visit(cleo.participant, of_a_stranger).code == -32002


def test_resources_and_prompts_are_the_same_context(visit: Visit, ana: Member, vibe: Agent, thread: Thread) -> None:
    factories.say(thread, ana, "When do I prune?")

    async def story(client: Client) -> Any:
        listed = await client.list_resources()
        uris = (listed.resources[0].uri, f"openvibe://context/{thread.pk}/mention")
        contents: list[Any] = [(await client.read_resource(uri)).contents[0] for uri in uris]
        prompts = await client.list_prompts()
        prompt = await client.get_prompt("mention", {"thread": str(thread.pk), "request": "And the roses?"})
        return [content.text for content in contents], [prompt.name for prompt in prompts.prompts], prompt

    (thread_text, context_text), names, prompt = visit(vibe.participant, story)

    assert [row["body"] for row in json.loads(thread_text)["messages"]] == ["When do I prune?"]
    assert json.loads(context_text)["messages"][0]["role"] == "system"
    assert names == ["mention", "thread", "dive", "publish"]
    assert "And the roses?" in prompt.messages[-1].content.text


def test_answers_keep_to_the_schemas_that_tools_name(
    visit: Visit, ana: Member, channel: Channel, thread: Thread
) -> None:
    """The client holds each answer against the tool's schema, and raises when it does not fit."""
    vibe = factories.make_agent(ana, "fern", level=4, channel=channel)
    factories.say(thread, ana, "When do I prune?")
    factories.make_entry(ana)
    at = {"thread": thread.pk}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("me_get", {}),
        ("messages_list", at),
        ("threads_search", {**at, "q": "prune", "budget": 500}),
        ("context_assemble", {**at, "task": "mention", "budget": None}),
        ("memory_call_tool", {**at, "action": "search", "query": "prune"}),
        ("blocks_append", {"label": "learned", "content": "Brief."}),
        ("profile_update", {"person": "ana", "content": "Likes roses.", "if_match": "0"}),
        ("knowledge_list", {}),
        ("knowledge_suggest", {"topic": "Roses", "content": "Prune in March.", "why": "Ana said so."}),
        ("work_create", {**at, "kind": "todo", "text": "Prune."}),
    ]

    async def story(client: Client) -> list[tuple[str, Any]]:
        await client.list_tools()
        return [(name, await client.call_tool(name, arguments)) for name, arguments in calls]

    answers = visit(vibe.participant, story)

    assert [(name, answer.content[0].text) for name, answer in answers if answer.is_error] == []


def test_an_error_is_text_alone_whatever_the_schema_of_its_tool_asks_for(
    visit: Visit, ana: Member, vibe: Agent, thread: Thread
) -> None:
    """Other clients hold the structured part of an error against the schema too, and show that it does not fit in place
    of the sentence."""

    async def story(client: Client) -> list[Any]:
        tools = await client.list_tools()
        schemas = {tool.name: tool.output_schema for tool in tools.tools}
        assert all(schemas.values())
        answers = [await client.call_tool(name, {"colour": "red"}) for name in schemas]
        answers.append(await client.call_tool("work_create", {"thread": thread.pk, "kind": "x" * 99}))
        return answers

    answers = visit(vibe.participant, story)

    assert len(answers) == len(OPERATIONS) + 1
    assert [answer for answer in answers if not answer.is_error or answer.structured_content is not None] == []
    assert [answer for answer in answers if [part.type for part in answer.content] != ["text"]] == []
    *_, last = answers
    assert "kind: " in last.content[0].text
    assert "text: " in last.content[0].text
    assert last.content[0].text.endswith("(invalid, field kind)")


COMPLETED = [
    ("prompt", "mention", "thread", "", ["2", "1"]),
    ("prompt", "mention", "thread", "rose", ["1"]),
    ("prompt", "dive", "agent", "@fe", ["fern"]),
    ("prompt", "dive", "request", "When", []),
    ("resource", "openvibe://thread/{thread}", "thread", "1", ["1"]),
    ("resource", "openvibe://context/{thread}/{task}", "task", "m", ["mention"]),
    ("resource", "openvibe://context/{thread}/{task}", "task", "", ["mention", "thread", "dive", "publish"]),
    ("resource", "openvibe://knowledge/{entry}", "entry", "prun", ["e"]),
    ("resource", "openvibe://knowledge/{entry}", "entry", "nothing\x00%", []),
]


def reference(kind: str, name: str) -> types.PromptReference | types.ResourceTemplateReference:
    return types.PromptReference(name=name) if kind == "prompt" else types.ResourceTemplateReference(uri=name)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_arguments_are_completed_with_what_the_caller_sees(
    visit: Visit, ana: Member, cleo: Member, channel: Channel, mode: str
) -> None:
    fern = factories.make_agent(ana, "fern", level=4, channel=channel)
    roses = factories.make_thread(channel, ana, title="Roses")
    bulbs = factories.make_thread(channel, ana, title="Bulbs")
    entry = factories.make_entry(ana, topic="Pruning")
    ids = {"1": str(roses.pk), "2": str(bulbs.pk), "e": str(entry.pk)}
    questions = [
        (reference(kind, name), {"name": argument, "value": ids.get(value, value)})
        for kind, name, argument, value, _ in COMPLETED
    ]

    async def story(client: Client) -> list[list[str]]:
        assert client.server_capabilities.completions is not None
        return [(await client.complete(ref, argument)).completion.values for ref, argument in questions]

    answers = visit(fern.participant, story, mode=mode)
    strangers = visit(cleo.participant, story, mode=mode)

    assert answers == [[ids.get(value, value) for value in expected] for *_, expected in COMPLETED]
    assert [answer for answer in strangers if {*answer} & {*ids.values()}] == []


def test_what_cannot_be_completed_is_refused_by_name(visit: Visit, vibe: Agent) -> None:
    refs = [
        (reference("prompt", "sonnet"), "thread"),
        (reference("prompt", "mention"), "colour"),
        (reference("resource", "openvibe://shed/{tool}"), "tool"),
    ]

    async def story(client: Client) -> list[str]:
        said = []
        for ref, argument in refs:
            with pytest.raises(MCPError) as error:
                await client.complete(ref, {"name": argument, "value": ""})
            said.append(str(error.value))
        return said

    sonnet, colour, shed = visit(vibe.participant, story)
    assert ("'sonnet'" in sonnet, "prompts/list" in sonnet, "'openvibe://shed/{tool}'" in shed) == (True, True, True)
    assert "There are: thread, request, agent." in colour

    async def complete_thread(client: Client) -> str:
        with pytest.raises(MCPError) as error:
            await client.complete(reference("prompt", "mention"), {"name": "thread", "value": ""})
        return str(error.value)

    assert "(missing_scope)" in visit(vibe.participant, complete_thread, scopes=("write",))


def test_of_many_threads_the_newest_hundred_are_proposed(
    visit: Visit, ana: Member, vibe: Agent, channel: Channel
) -> None:
    threads = [factories.make_thread(channel, ana, title=f"Bed {number}") for number in range(101)]

    async def story(client: Client) -> types.Completion:
        answer = await client.complete(reference("prompt", "mention"), {"name": "thread", "value": "bed"})
        return answer.completion

    completion = visit(vibe.participant, story)
    assert completion.values == [str(thread.pk) for thread in threads[:0:-1]]
    assert (completion.has_more, completion.total) == (True, None)


def test_a_level_of_log_messages_is_taken_and_none_are_promised(visit: Visit, vibe: Agent) -> None:
    async def story(client: Client) -> tuple[object, object]:
        result = await client.session.send_request(
            types.SetLevelRequest(params=types.SetLevelRequestParams(level="warning")), types.EmptyResult
        )
        return client.server_capabilities.logging, result

    logging, result = visit(vibe.participant, story, mode="legacy")
    assert logging is None
    assert isinstance(result, types.EmptyResult)


def test_without_a_token_that_holds_clients_are_told_where_to_look(
    executor: Executor, vibe: Agent, client: DjangoClient
) -> None:
    token, secret = issue_token(participant=vibe.participant, name="tests", scopes=["read"])
    revoke_token(token=token)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    answers = [
        post(executor, body),
        post(executor, body, authorization=f"Bearer {secret}"),
        post(executor, body, origin="http://evil.example"),
        post(executor, body, host="evil.example"),
    ]
    metadata = client.get("/.well-known/oauth-protected-resource/mcp").json()

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [
        (401, "not_authenticated"),
        (401, "bad_token"),
        (403, "csrf"),
        (400, "bad_request"),
    ]
    where = 'resource_metadata="http://testserver/.well-known/oauth-protected-resource/mcp"'
    assert all(where in answer.headers["WWW-Authenticate"] for answer in answers[:2])
    assert metadata["resource"] == "http://testserver/mcp"
    assert "authorization_servers" not in metadata


def test_calls_are_counted_with_those_of_the_rest_api(executor: Executor, vibe: Agent, settings: Settings) -> None:
    settings.API_CALLS_PER_MINUTE = 2
    _, secret = issue_token(participant=vibe.participant, name="tests", scopes=["read"])
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "me_get", "arguments": {}}}

    answers = [post(executor, call, authorization=f"Bearer {secret}") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]
    assert int(answers[2].headers["Retry-After"]) > 0


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}', b"[" * 50_000]
)
def test_what_is_no_call_is_answered_with_an_error(executor: Executor, vibe: Agent, body: bytes) -> None:
    _, secret = issue_token(participant=vibe.participant, name="tests", scopes=["read"])

    answer = post(executor, body, authorization=f"Bearer {secret}")

    assert answer.status_code < 500
    assert "error" in answer.json()


def post(executor: Executor, body: Any, **headers: str) -> httpx2.Response:
    """The answer to one POST to `/mcp`, as a client of the newest protocol with a handshake sends it."""
    content = body if isinstance(body, bytes) else json.dumps(body)
    accepted = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}

    async def main() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=McpApplication(executor))
        async with httpx2.AsyncClient(transport=transport) as http:
            return await http.post("http://testserver/mcp", content=content, headers=accepted)

    return asyncio.run(main())


def test_a_fault_of_ours_is_told_without_its_text(
    executor: Executor, vibe: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = issue_token(participant=vibe.participant, name="tests", scopes=["read"])
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    monkeypatch.delitem(operations(), "me_get")

    error = post(executor, call, authorization=f"Bearer {secret}").json()["error"]

    assert (error["message"], error["data"]["code"]) == (INTERNAL_PROBLEM["detail"], "internal")

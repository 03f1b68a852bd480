"""The scenarios of the protocol's conformance suite, with the official Python client: the suite itself needs Node, and
runs at night (`tests/nightly`)."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from agents.mcp.server import McpApplication
from agents.models import Agent
from openvibe.api.services import issue_token
from tests.agents.mcp.conftest import executor
from tests.operations.conformance_server import ERROR_TEXT, HANDLERS, SCHEMA_2020, over_http

__all__ = ["executor"]
pytestmark = pytest.mark.django_db
Story = Callable[[Client], Awaitable[Any]]
Visit = Callable[[Story], Any]


@pytest.fixture(params=["auto", "legacy"])
def visit(request: pytest.FixtureRequest, executor: Executor, vibe: Agent) -> Visit:
    """What `story(client)` returns, of the fixture's server, in the protocol of today and in the one before."""
    _, secret = issue_token(participant=vibe.participant, name="tests", scopes=["read"])

    async def main(story: Story) -> Any:
        transport = httpx2.ASGITransport(app=McpApplication(executor, HANDLERS))
        async with httpx2.AsyncClient(transport=transport, headers={"Authorization": f"Bearer {secret}"}) as http:
            server = streamable_http_client("http://testserver/mcp", http_client=http)
            async with Client(server, mode=request.param) as client:
                return await story(client)

    return lambda story: asyncio.run(main(story))


def test_what_it_is_and_can_do_is_said(visit: Visit) -> None:
    async def story(client: Client) -> Any:
        return client.server_info, client.server_capabilities

    info, abilities = visit(story)
    assert (info.name, info.version) == ("openvibe", "1")
    assert None not in (abilities.tools, abilities.resources, abilities.prompts, abilities.completions)
    assert abilities.logging is None
    assert not abilities.resources.subscribe


def test_tools_are_listed_with_their_schemas_as_they_are(visit: Visit) -> None:
    async def story(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in visit(story)}
    assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools.values())
    assert tools["json_schema_2020_12_tool"].input_schema == SCHEMA_2020


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("test_simple_text", ["text"]),
        ("test_image_content", ["image"]),
        ("test_audio_content", ["audio"]),
        ("test_embedded_resource", ["resource"]),
        ("test_multiple_content_types", ["text", "image", "resource"]),
    ],
)
def test_a_tool_answers_with_parts_of_each_kind(visit: Visit, name: str, kinds: list[str]) -> None:
    async def story(client: Client) -> Any:
        return await client.call_tool(name, {})

    answer = visit(story)
    assert ([part.type for part in answer.content], answer.is_error) == (kinds, False)


def test_an_error_of_a_tool_is_an_answer_and_of_the_protocol_none(visit: Visit) -> None:
    async def story(client: Client) -> Any:
        answer = await client.call_tool("test_error_handling", {})
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("no_such_tool", {})
        return answer, unknown.value

    answer, unknown = visit(story)
    assert (answer.is_error, answer.content[0].text, answer.structured_content) == (True, ERROR_TEXT, None)
    assert unknown.code == types.INVALID_PARAMS


def test_resources_are_listed_and_read_as_text_as_bytes_and_from_a_template(visit: Visit) -> None:
    async def story(client: Client) -> Any:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        uris = ("test://static-text", "test://static-binary", "test://template/123/data")
        return listed, templates, [(await client.read_resource(uri)).contents[0] for uri in uris]

    listed, templates, (text, binary, made) = visit(story)
    assert all(resource.uri and resource.name for resource in listed)
    assert [template.uri_template for template in templates] == ["test://template/{id}/data"]
    assert "static text resource" in text.text
    assert (binary.mime_type, bool(binary.blob)) == ("image/png", True)
    assert '"id": "123"' in made.text


def test_prompts_are_listed_and_filled_in(visit: Visit) -> None:
    async def story(client: Client) -> Any:
        listed = (await client.list_prompts()).prompts
        arguments: dict[str, dict[str, str]] = {
            "test_simple_prompt": {},
            "test_prompt_with_arguments": {"arg1": "hello", "arg2": "world"},
            "test_prompt_with_embedded_resource": {"resourceUri": "test://example"},
            "test_prompt_with_image": {},
        }
        return listed, [(await client.get_prompt(name, given)).messages for name, given in arguments.items()]

    listed, prompts = visit(story)
    assert [len(prompt.arguments) for prompt in listed] == [0, 2, 1, 0]
    assert [[message.content.type for message in messages] for messages in prompts] == [
        ["text"],
        ["text"],
        ["resource", "text"],
        ["image", "text"],
    ]
    assert "arg1='hello', arg2='world'" in prompts[1][0].content.text


def test_arguments_are_completed(visit: Visit) -> None:
    async def story(client: Client) -> Any:
        reference = types.PromptReference(name="test_prompt_with_arguments")
        return (await client.complete(reference, {"name": "arg1", "value": "test"})).completion

    completion = visit(story)
    assert (completion.values, completion.total, completion.has_more) == (["test1", "test2"], 2, False)


@pytest.mark.parametrize(("host", "is_taken"), [("127.0.0.1", True), ("localhost", True), ("evil.example.com", False)])
def test_a_page_elsewhere_does_not_speak_through_a_name_of_its_own(
    executor: Executor, vibe: Agent, host: str, is_taken: bool
) -> None:
    _, secret = issue_token(participant=vibe.participant, name="tests", scopes=["read"])
    client_info = {"name": "tests", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client_info}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with over_http(executor, secret, HANDLERS) as port:
        own_host = f"{host}:{port}" if is_taken else host
        headers = {"Host": own_host, "Origin": f"http://{own_host}", "Accept": "application/json, text/event-stream"}
        answer = httpx2.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=headers, timeout=60)
    assert answer.is_success == is_taken
    assert is_taken or 400 <= answer.status_code < 500


def test_there_is_no_stream_and_no_session_to_end(executor: Executor, vibe: Agent) -> None:
    _, secret = issue_token(participant=vibe.participant, name="tests", scopes=["read"])
    with over_http(executor, secret, HANDLERS) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        answers = [httpx2.get(url, timeout=60), httpx2.delete(url, timeout=60)]
    assert [(answer.status_code, answer.headers["allow"]) for answer in answers] == [(405, "POST")] * 2

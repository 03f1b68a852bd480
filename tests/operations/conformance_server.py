"""A server with the tools, resources and prompts that the protocol's conformance suite calls, made with our own door.

What it answers is a fixture's; sign-in, transport, errors and what is said of abilities are those of `/mcp`."""

import asyncio
import base64
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError

from agents.mcp.server import RESOURCE_NOT_FOUND, Handler, McpApplication, McpCall
from tests.http_server import serve_http

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = base64.b64encode(b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0\x80>\0\0\2\0\x10\0data\0\0\0\0").decode()
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
SCHEMA_2020: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
ERROR_TEXT = "This tool intentionally returns an error for testing"

NOT_OFFERED = (
    *("tools-call-with-logging", "tools-call-with-progress", "tools-call-sampling", "tools-call-elicitation"),
    *("elicitation-sep1034-defaults", "elicitation-sep1330-enums", "resources-subscribe", "resources-unsubscribe"),
    *("server-sse-polling", "server-sse-multiple-streams"),
)
"""Scenarios for what a server without sessions, whose answers are single JSON bodies, does not offer: messages while a
call goes on, questions back, subscriptions, streams. It declares none of them."""


def _text(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


IMAGE = types.ImageContent(data=PNG, mime_type="image/png")
TOOLS: Mapping[str, list[Any]] = {
    "test_simple_text": [_text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [types.AudioContent(data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [_embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        _text("Multiple content types test:"),
        IMAGE,
        _embedded("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json"),
    ],
    "test_error_handling": [_text(ERROR_TEXT)],
    "json_schema_2020_12_tool": [_text("It was called.")],
}
PROMPTS: Mapping[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}


def list_tools(call: McpCall, params: Any) -> types.ListToolsResult:
    schemas = {"json_schema_2020_12_tool": SCHEMA_2020}
    tools = [
        types.Tool(name=name, description=f"Fixture {name}.", input_schema=schemas.get(name, NO_ARGUMENTS))
        for name in TOOLS
    ]
    return types.ListToolsResult(tools=tools)


def call_tool(call: McpCall, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r}.")
    return types.CallToolResult(content=TOOLS[params.name], is_error=params.name == "test_error_handling")


def list_resources(call: McpCall, params: Any) -> types.ListResourcesResult:
    uris = {"static-text": "text/plain", "static-binary": "image/png", "watched-resource": "text/plain"}
    resources = [types.Resource(name=name, uri=f"test://{name}", mime_type=kind) for name, kind in uris.items()]
    return types.ListResourcesResult(resources=resources)


def list_templates(call: McpCall, params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        name="template", uri_template="test://template/{id}/data", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


def read_resource(call: McpCall, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = params.uri
    contents: types.TextResourceContents | types.BlobResourceContents
    match uri.removeprefix("test://").split("/"):
        case ["static-binary"]:
            contents = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
        case ["static-text" | "watched-resource"]:
            text = "This is the content of the static text resource."
            contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
        case ["template", number, "data"]:
            text = json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
            contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
        case _:
            raise MCPError(RESOURCE_NOT_FOUND, f"There is no resource {uri!r}.")
    return types.ReadResourceResult(contents=[contents])


def list_prompts(call: McpCall, params: Any) -> types.ListPromptsResult:
    prompts = [
        types.Prompt(
            name=name,
            description=f"Fixture {name}.",
            arguments=[types.PromptArgument(name=each, description=each, required=True) for each in arguments],
        )
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts)


def get_prompt(call: McpCall, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    arguments = params.arguments or {}
    parts: Mapping[str, list[Any]] = {
        "test_simple_prompt": [_text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            _text(f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            _embedded(arguments.get("resourceUri", "test://none"), "Embedded resource content for testing."),
            _text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [IMAGE, _text("Please analyze the image above.")],
    }
    if params.name not in parts:
        raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name!r}.")
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=content) for content in parts[params.name]]
    )


def complete(call: McpCall, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [value for value in ("test1", "test2", "paris") if value.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


HANDLERS: Mapping[str, Handler] = {
    "on_list_tools": list_tools,
    "on_call_tool": call_tool,
    "on_list_resources": list_resources,
    "on_list_resource_templates": list_templates,
    "on_read_resource": read_resource,
    "on_list_prompts": list_prompts,
    "on_get_prompt": get_prompt,
    "on_completion": complete,
}


@contextmanager
def over_http(executor: Executor, secret: str, handlers: Mapping[str, Handler] | None) -> Iterator[int]:
    """The door with these handlers, None for its own, at a port of the loopback. It adds the token: the suite sends
    none."""
    passed = ("accept", "content-type", "origin", "host")

    class Bridge(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(asyncio.run(self._ask("POST", body)))

        def do_GET(self) -> None:
            self._answer(asyncio.run(self._ask("GET", b"")))

        def do_DELETE(self) -> None:
            self._answer(asyncio.run(self._ask("DELETE", b"")))

        async def _ask(self, method: str, body: bytes) -> httpx2.Response:
            sent = {name.lower(): value for name, value in self.headers.items()}
            headers = {name: value for name, value in sent.items() if name in passed or name.startswith("mcp-")}
            headers["authorization"] = f"Bearer {secret}"
            transport = httpx2.ASGITransport(app=McpApplication(executor, handlers))
            async with httpx2.AsyncClient(transport=transport) as http:
                return await http.request(method, "http://127.0.0.1/mcp", content=body, headers=headers)

        def _answer(self, answer: httpx2.Response) -> None:
            self.send_response(answer.status_code)
            for name in ("content-type", "allow", "www-authenticate"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            pass

    with serve_http(Bridge) as server:
        yield server.server_port

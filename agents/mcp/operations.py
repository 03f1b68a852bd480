"""Operations of the REST API as MCP tools: the same name, the same view, the same rules.

A tool is called with one flat object. Where an argument belongs (path, query, header, body) stands in the OpenAPI
schema, and so do the tool's own schemas. `perform` calls the operation's view as the token's owner, without HTTP."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from io import BytesIO
from typing import Any, cast
from urllib.parse import quote, urlencode

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.urls import resolve
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.auth import Caller, required_scope
from openvibe.api.models import Token
from openvibe.api.problems import error_to_problem
from openvibe.api.schema import openapi_schema
from openvibe.base.problems import Missing, Problem

OPERATIONS = (
    *("me_get", "channels_list", "threads_list", "threads_get", "threads_create", "messages_list", "messages_search"),
    *("messages_create", "threads_search", "context_assemble", "memory_call_tool", "memory_get_stats"),
    *("blocks_list", "blocks_get", "blocks_update", "blocks_append", "profile_get", "profile_update"),
    *("knowledge_search", "knowledge_list", "knowledge_get", "knowledge_suggest", "knowledge_create"),
    *("work_list", "work_create", "work_update", "progress_list", "progress_create"),
    *("approvals_list", "approvals_create", "episodes_list", "feedback_list", "feedback_create"),
)
"""Operations that are tools, the most used first."""

MEMORY_TOOL, MEMORY_TOOL_SCHEMA = "memory_call_tool", "memory_get_tool"
"""What the memory tool takes depends on the workspace's memory plugin, which checks it too."""

IMAGE_OPERATION = "images_get"
"""Behind a resource, and no tool: its answer names an image, which a resource gives."""

ID_NAMES = {"threads": "thread", "knowledge": "entry", "work": "work", "images": "image"}
"""What a path's `{id}` is called as an argument, by the word before it."""

CALLER_KEY = "openvibe.mcp.caller"
Schema = dict[str, Any]


class CallerAuthentication(BaseAuthentication):
    """The authentication of a call from inside: whoever was signed in at the door, which also counted the call."""

    def authenticate(self, request: Request) -> tuple[Caller, Token | None]:
        caller: Caller = request._request.META[CALLER_KEY]
        return caller, caller.token


@dataclass(frozen=True)
class Argument:
    """`place`: path, query, header or body; `key` is its name there."""

    place: str
    key: str
    schema: Schema
    is_required: bool


@dataclass(frozen=True)
class Operation:
    """One operation, ready to be called."""

    name: str
    description: str
    method: str
    path: str
    scope: str
    arguments: Mapping[str, Argument]
    output_schema: Schema
    resolved_view: Callable[..., Any]
    view: Callable[..., Response]

    @cached_property
    def input_schema(self) -> Schema:
        """A JSON schema of the flat arguments."""
        properties = {name: argument.schema for name, argument in self.arguments.items()}
        required = [name for name, argument in self.arguments.items() if argument.is_required]
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return _with_definitions(schema)


@cache
def operations() -> dict[str, Operation]:
    """Every operation that is a tool, and those that describe the memory tool and an image, by name.

    Made once a process, from the API's own schema.
    """
    by_id = {
        operation["operationId"]: (path, method, operation)
        for path, methods in openapi_schema()["paths"].items()
        for method, operation in methods.items()
    }
    return {name: _operation(name, *by_id[name]) for name in (*OPERATIONS, MEMORY_TOOL_SCHEMA, IMAGE_OPERATION)}


def _operation(name: str, path: str, method: str, operation: Schema) -> Operation:
    resolved_view = resolve(path.replace("{id}", "1").replace("{label}", "x")).func
    view_class = cast(Any, resolved_view).view_class
    success = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    return Operation(
        name=name,
        description=operation["description"],
        method=method.upper(),
        path=path,
        scope=required_scope(view_class, method.upper()),
        arguments=_arguments(name, path, operation),
        output_schema=_with_definitions(success["content"]["application/json"]["schema"]),
        resolved_view=resolved_view,
        view=view_class.as_view(authentication_classes=(CallerAuthentication,), throttle_classes=()),
    )


def _arguments(name: str, path: str, operation: Schema) -> dict[str, Argument]:
    arguments: dict[str, Argument] = {}

    def add(argument_name: str, argument: Argument) -> None:
        assert argument_name not in arguments, f"{name} has two arguments {argument_name}"
        arguments[argument_name] = argument

    for parameter in operation.get("parameters", ()):
        place, key = parameter["in"], parameter["name"]
        description = {"description": parameter["description"]} if "description" in parameter else {}
        is_required = parameter.get("required", False)
        argument_name = ID_NAMES[path.split("/")[3]] if key == "id" else key.lower().replace("-", "_")
        add(argument_name, Argument(place, key, {**parameter["schema"], **description}, is_required))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    body = _component(body["$ref"]) if "$ref" in body else body
    if "oneOf" in body:  # by action: what the first takes is what they share, and the rest is passed on
        body = _component(body["oneOf"][0]["$ref"])
    for key, schema in body.get("properties", {}).items():
        add(key, Argument("body", key, schema, key in body.get("required", ())))
    return arguments


def _component(reference: str) -> Schema:
    schema: Schema = openapi_schema()["components"]["schemas"][reference.rpartition("/")[2]]
    return schema


def _with_definitions(schema: Schema) -> Schema:
    """The schema by itself: components it refers to become its `$defs`."""
    definitions: dict[str, Any] = {}

    def inline_references(value: Any) -> Any:
        if isinstance(value, list):
            return [inline_references(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str):
            component = reference.rpartition("/")[2]
            if component not in definitions:
                definitions[component] = {}  # before it is walked through: it may hold itself
                definitions[component] = inline_references(_component(reference))
            return {**value, "$ref": f"#/$defs/{component}"}
        return {key: inline_references(inner) for key, inner in value.items()}

    root = inline_references(schema)
    if set(root) == {"$ref"}:
        root = definitions.pop(root["$ref"].rpartition("/")[2])
    return {**root, **({"$defs": definitions} if definitions else {})}


@dataclass(frozen=True)
class OperationResponse:
    """What an operation answered: its JSON as text, and as an object. An error is a problem's body."""

    status: int
    text: str

    @property
    def is_error(self) -> bool:
        return self.status >= 400

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.text)
        return body


def perform(name: str, arguments: Mapping[str, Any], caller: Caller, environ: Mapping[str, Any]) -> OperationResponse:
    """Calls the operation as the caller. `environ` is that of the HTTP request the call came with.

    Never raises for what the caller can mend: that is an OperationResponse with a problem.
    """
    operation = operations()[name]
    try:
        request = _request(operation, arguments, environ)
        match = resolve(request.path_info)
        if match.func is not operation.resolved_view:
            raise Missing
    except Problem as problem:
        body = error_to_problem(problem) or {}
        return OperationResponse(problem.status, json.dumps(body))
    request.META[CALLER_KEY] = caller
    response = operation.view(request, *match.args, **match.kwargs).render()
    return OperationResponse(response.status_code, response.content.decode())


def _request(operation: Operation, arguments: Mapping[str, Any], environ: Mapping[str, Any]) -> HttpRequest:
    values_by_place = _place_arguments(operation, arguments)
    path = operation.path
    for key, value in values_by_place["path"].items():
        path = path.replace(f"{{{key}}}", quote(str(value), safe=""))
    body = b"" if operation.method == "GET" else json.dumps(values_by_place["body"]).encode()
    headers = {
        f"HTTP_{key.upper().replace('-', '_')}": _header(key, value) for key, value in values_by_place["header"].items()
    }
    inner = {
        **{key: environ[key] for key in INHERITED_META if key in environ},
        "REQUEST_METHOD": operation.method,
        "PATH_INFO": path,
        "QUERY_STRING": urlencode({key: _query(value) for key, value in values_by_place["query"].items()}, doseq=True),
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": BytesIO(body),
        **headers,
    }
    return WSGIRequest(inner)


INHERITED_META = (
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "HTTP_HOST",
    "HTTP_X_FORWARDED_PROTO",
    "REMOTE_ADDR",
    "wsgi.url_scheme",
)


def _place_arguments(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The arguments by their places. Raises Problem for one that is unknown or missing, or wants a plain value."""
    values_by_place: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}, "body": {}}
    for name, value in arguments.items():
        argument = operation.arguments.get(name)
        if argument is None and operation.name == MEMORY_TOOL:
            argument = Argument("body", name, {}, False)
        if argument is None:
            argument_names = ", ".join(operation.arguments) or "none"
            raise Problem(
                f"{operation.name} has no argument {name[:80]!r}. It has: {argument_names}.",
                code="invalid",
                field=name[:80],
            )
        if argument.place != "body" and not isinstance(value, str | int | float | list):
            if value is None and not argument.is_required:
                continue
            raise Problem(f"{name} must be a plain value.", code="invalid", field=name)
        values_by_place[argument.place][argument.key] = value
    for name, argument in operation.arguments.items():
        if argument.is_required and argument.place == "path" and argument.key not in values_by_place["path"]:
            raise Problem(f"{name} is missing.", code="invalid", field=name)
    return values_by_place


def _query(value: Any) -> Any:
    """The value as a query string has it: true and false in lower case."""
    return str(value).lower() if isinstance(value, bool) else value


def _header(key: str, value: Any) -> str:
    """An ETag stands in quotes."""
    text = str(value)
    if not (text.isascii() and text.isprintable()):
        raise Problem(f"{key} is plain ASCII text.", code="invalid", field=key)
    return f'"{text}"' if key == "If-Match" and not text.startswith('"') else text

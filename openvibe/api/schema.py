"""How the API describes itself: OpenAPI 3.1 through drf-spectacular."""

from functools import cache
from threading import RLock
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import OpenApiParameter
from rest_framework.serializers import ChoiceField, ListSerializer

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457. `code` is stable; `detail` says in words what happened and what to do.",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "description": "A URN made of the code, as in urn:openvibe:problem:stale."},
        "title": {"type": "string", "description": "The status in words."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "What happened and what to do, a sentence for people."},
        "code": {"type": "string", "description": "Which problem it is; stable, for programs."},
        "field": {"type": "string", "description": "The field or parameter that is wrong, where it is one."},
        "run": {
            "type": "object",
            "description": "The unfinished run of yours that `being_written` is about.",
            "required": ["id", "message", "heard_at", "attempt", "state", "reply", "length"],
            "properties": {
                "id": {"type": "integer", "description": "To go on with it: `POST runs/{id}/resume/`."},
                "message": {"type": "integer", "description": "The message that it answers."},
                "heard_at": {
                    "type": ["string", "null"],
                    "format": "date-time",
                    "description": "When its program was last heard.",
                },
                "attempt": {"type": "integer", "description": "The one that holds."},
                "state": {"type": "string", "description": "`reading` or `writing`."},
                "reply": {"type": ["integer", "null"], "description": "The message, once it has words."},
                "length": {"type": "integer", "description": "Characters of the reply by now."},
            },
        },
        "errors": {
            "type": "array",
            "description": "Each field that is wrong.",
            "items": {
                "type": "object",
                "required": ["field", "code", "message"],
                "properties": {
                    "field": {"type": "string", "description": "The field's name, with a dot before each inner one."},
                    "code": {"type": "string", "description": "What is wrong with it; stable, for programs."},
                    "message": {"type": "string", "description": "The same for people."},
                },
            },
        },
    },
}
PROBLEM_EXAMPLE: dict[str, Any] = {
    "type": "urn:openvibe:problem:not_found",
    "title": "Not Found",
    "status": 404,
    "detail": "There is nothing here, or it is not visible to you.",
    "code": "not_found",
}
HTTP_METHODS = ("get", "post", "put", "patch", "delete")


class ApiSchema(AutoSchema):
    """How operations and bodies are named, so that generated clients read well: `threads_list` is of `threads`,
    `ThreadOut` is `Thread`, `ThreadIn` is `ThreadRequest`."""

    def get_tags(self) -> list[str]:
        return [self.get_operation_id().partition("_")[0]]

    def get_serializer_name(self, serializer: Any, direction: Any) -> str:
        name = type(serializer).__name__
        return name.removesuffix("Out") if direction == "response" else name.removesuffix("In")

    def _map_serializer_field(self, field: Any, direction: Any, bypass_extensions: bool = False) -> Any:
        if isinstance(field, ChoiceField) and field.read_only and _is_blank_in_model(field):
            field.allow_blank = True  # a ModelSerializer forgets it of what is only read
        parent: Any = super()  # has no types
        return parent._map_serializer_field(field, direction, bypass_extensions)


def _is_blank_in_model(field: ChoiceField) -> bool:
    model = getattr(getattr(field.parent, "Meta", None), "model", None)
    columns = {column.name: column for column in model._meta.fields} if model else {}
    return field.source in columns and columns[field.source].blank


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # the library has no types
    target_class = "openvibe.api.auth.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "ovk_…"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # the library has no types
    target_class = "openvibe.workspaces.api.auth.MemberSession"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The browser's own session, with `X-CSRFToken` on writes; `X-Workspace: slug` (or "
            "`?workspace=`) chooses among several workspaces.",
        }


def add_problem_responses(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Every operation may answer with a problem."""
    result["components"].setdefault("schemas", {})["Problem"] = PROBLEM_SCHEMA
    problem_response = {
        "description": "A problem, with a stable code.",
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}, "example": PROBLEM_EXAMPLE}
        },
    }
    for path in result["paths"].values():
        for method, operation in path.items():
            if method in HTTP_METHODS:
                operation["responses"]["default"] = problem_response
    return result


_parameters: dict[Any, frozenset[str]] = {}


def query_parameters(view: Any, method: str) -> frozenset[str]:
    """What a view's method takes in the address, as its `extend_schema` says. Worked out once for each."""
    handler = getattr(type(view), method.lower(), None)
    if handler not in _parameters:
        _parameters[handler] = _declared_parameters(view, handler)
    return _parameters[handler]


def _declared_parameters(view: Any, handler: Any) -> frozenset[str]:
    names = {name for backend in [getattr(view, "filterset_class", None)] if backend for name in backend.base_filters}
    if "schema" not in getattr(handler, "kwargs", {}):
        return frozenset(names)
    schema = handler.kwargs["schema"]()
    schema.view = view
    for parameter in schema.get_override_parameters():
        if isinstance(parameter, OpenApiParameter):
            names |= {parameter.name} if parameter.location == OpenApiParameter.QUERY else set()
        else:
            names |= set(parameter().fields)
    if isinstance(schema.get_response_serializers(), ListSerializer):
        names |= {parameter["name"] for parameter in view.paginator.get_schema_operation_parameters(view)}
    return frozenset(names)


_making = RLock()


def openapi_schema() -> dict[str, Any]:
    """The schema, made once a process: it takes a second, and drf-spectacular is not safe for two threads."""
    with _making:
        return _generate_schema()


@cache
def _generate_schema() -> dict[str, Any]:
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]  # the library has no types
    return schema


def rendered_schema(media_format: str) -> bytes:
    """The schema as it is sent, "json" or "yaml", made once a process, however many ask for it at first."""
    with _making:
        return _render_schema(media_format)


@cache
def _render_schema(media_format: str) -> bytes:
    renderer: Any = OpenApiJsonRenderer() if media_format == "json" else OpenApiYamlRenderer()
    content: bytes = renderer.render(openapi_schema(), renderer_context={})
    return content


@cache
def operations_by_group() -> list[tuple[str, list[dict[str, Any]]]]:
    """Every operation by its first word in the address, for the page that lists them."""
    schema = openapi_schema()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in schema["paths"].items():
        group = groups.setdefault(path.removeprefix("/api/v1/").split("/")[0], [])
        group += [
            {
                "id": operation["operationId"],
                "method": method.upper(),
                "path": path,
                "summary": operation["summary"],
                "says": operation.get("description", ""),
                "parameters": operation.get("parameters", []),
                "fields": _body_fields(schema, operation),
            }
            for method, operation in methods.items()
            if method in HTTP_METHODS
        ]
    return sorted(groups.items())


def _body_fields(schema: dict[str, Any], operation: dict[str, Any]) -> list[dict[str, Any]]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    body = schema["components"]["schemas"].get(name, {})
    return [
        {"name": field, "required": field in body.get("required", ()), "says": field_schema.get("description", "")}
        for field, field_schema in body.get("properties", {}).items()
    ]

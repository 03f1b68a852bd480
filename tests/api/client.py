"""One caller of the API, in the words the tests use. Every answer is checked against the API's own description."""

import copy
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

import jsonschema_rs
from django.test import Client

from openvibe.api.models import Token
from openvibe.api.schema import openapi_schema

ROOT = "/api/v1/"


@dataclass
class Api:
    client: Client
    headers: dict[str, str]
    token: Token | None = None

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The response to `METHOD /api/v1/<path>`; a header's underscores stand for dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, (bytes, str)) else json.dumps(body) if body is not None else b""
        content_type = named.pop("Content-Type", "application/json")
        answer = self.client.generic(
            method, ROOT + path, data, content_type=content_type, headers={**self.headers, **named}
        )
        check_described(method, answer)
        return answer

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("POST", path, body if body is not None else {}, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> Any:
        return self.call("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self.call("DELETE", path, **headers)


def is_problem(answer: Any, status: int, code: str) -> bool:
    """Whether an answer is this problem, in full form."""
    body = answer.json()
    assert (answer.status_code, body.get("code")) == (status, code), (answer.status_code, body)
    assert answer["Content-Type"] == "application/problem+json"
    return set(body) >= {"type", "title", "status", "detail", "code"} and body["status"] == status


@cache
def described() -> tuple[dict[str, Any], jsonschema_rs.Registry]:
    """The description, and the same for validators: closed, so that a field nobody described is found too."""
    closed = copy.deepcopy(openapi_schema())
    for component in closed["components"]["schemas"].values():
        if "properties" in component:
            component.setdefault("additionalProperties", False)
    paths = {re.sub(r"{\w+}", "{}", path): (path, methods) for path, methods in closed["paths"].items()}
    return paths, jsonschema_rs.Registry([("urn:openvibe", closed)])


@cache
def validator(*steps: str) -> Any:
    """Makes a validator of the schema that stands at these steps of the closed description."""
    pointer = "/".join(quote(step.replace("~", "~0").replace("/", "~1")) for step in (*steps, "schema"))
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"urn:openvibe#/{pointer}"}, registry=described()[1], validate_formats=True
    )


def check_described(method: str, answer: Any) -> None:
    """Raises AssertionError for an answer that is not as the description of its operation has it."""
    match = answer.wsgi_request.resolver_match or answer.resolver_match  # the latter looks the address up once more
    route = "/" + re.sub(r"<(\w+:)?\w+>", "{}", getattr(match, "route", ""))
    path, methods = described()[0].get(route, ("", {}))
    responses = methods.get(method.lower(), {}).get("responses")
    if responses is None:
        return  # no operation of the API
    status = str(answer.status_code) if str(answer.status_code) in responses else "default"
    assert status != "default" or answer.status_code >= 400, f"{method} {path} does not describe {answer.status_code}"
    media_type = answer.get("Content-Type", "").partition(";")[0]
    content = responses[status].get("content", {})
    has_body = answer.streaming or answer.content
    assert media_type in content or not has_body, f"{method} {path} answers {media_type}, not {list(content)}"
    if media_type.endswith("json") and not answer.streaming:
        steps = ("paths", path, method.lower(), "responses", status, "content", media_type)
        validator(*steps).validate(answer.json())

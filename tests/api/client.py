"""One caller of the API, in the words the tests use."""

import json
from dataclasses import dataclass
from typing import Any

from django.test import Client

from openvibe.api.models import Token

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
        return self.client.generic(
            method, ROOT + path, data, content_type="application/json", headers={**self.headers, **named}
        )

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

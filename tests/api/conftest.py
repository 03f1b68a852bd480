"""Ways into the API: a client with a token, a client with a browser session."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from openvibe.api.schema import openapi_schema
from openvibe.api.services import issue_token
from openvibe.workspaces.models import Member, Participant
from tests.api.client import Api

Enter = Callable[..., Api]


def token_client(
    participant: Participant, scopes: tuple[str, ...] = ("read", "write", "memory", "knowledge", "admin")
) -> Api:
    """An API client with a fresh token of a participant; `scopes` as given, all of them otherwise."""
    token, secret = issue_token(participant=participant, name="tests", scopes=scopes)
    return Api(Client(), {"Authorization": f"Bearer {secret}"}, token=token)


@pytest.fixture
def by_token() -> Enter:
    return token_client


@pytest.fixture
def by_session() -> Enter:
    """An API client that is a signed-in browser."""

    def enter(member: Member) -> Api:
        client = Client()
        client.force_login(member.user)
        return Api(client, {"X-Workspace": member.workspace.slug})

    return enter


@pytest.fixture
def nobody() -> Api:
    return Api(Client(), {})


@pytest.fixture
def schema_lists() -> Callable[[], set[str]]:
    """Addresses whose GET answers a page, by the schema; ids as `{id}`."""

    def lists() -> set[str]:
        paths = openapi_schema()["paths"]
        paged = [
            path
            for path, methods in paths.items()
            if any(p["name"] == "cursor" for p in methods.get("get", {}).get("parameters", ()))
        ]
        return {re.sub(r"{\w+}", "{id}", path.removeprefix("/api/v1/")) for path in paged}

    return lists

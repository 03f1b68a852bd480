"""The option of an agent that the workspace's verdict chooses, and the calls that are not asked about."""

from typing import Any

import pytest
from acp.schema import PermissionOption

from openvibe_client.turn import DENIAL, choose, is_own_tool

ALL = ("allow_once", "allow_always", "reject_once", "reject_always")


@pytest.mark.parametrize(
    ("state", "offered", "chosen"),
    [
        ("allowed", ALL, "allow_once"),
        ("allowed", ("allow_always", "reject_once"), "cancelled"),
        ("allowed", (), "cancelled"),
        ("denied", ALL, "reject_once"),
        ("denied", ("allow_once", "reject_always"), "reject_always"),
        ("denied", ("allow_once", "allow_always"), "cancelled"),
        ("waiting", ALL, "reject_once"),
    ],
)
def test_no_more_is_chosen_than_was_decided(state: str, offered: tuple[Any, ...], chosen: str) -> None:
    options = [PermissionOption(option_id=kind, name=kind, kind=kind) for kind in offered]
    outcome = choose(options, {**DENIAL, "state": state}).outcome
    assert getattr(outcome, "option_id", "cancelled") == chosen


@pytest.mark.parametrize(
    ("call", "is_own"),
    [
        ({"title": "openvibe_knowledge_search", "kind": "other"}, True),
        ({"title": "Search", "field_meta": {"claudeCode": {"toolName": "mcp__openvibe__me_get"}}}, True),
        ({"title": "mcp__openvibe__me_get", "field_meta": {"claudeCode": {"toolName": "Bash"}}}, False),
        ({"title": "openvibe_me_get", "kind": "execute"}, False),
        ({"title": "openvibe_me_get; rm -r roses", "kind": "other"}, False),
        ({"title": "mcp__github__me_get", "kind": "other"}, False),
        ({"title": None, "kind": None}, False),
    ],
)
def test_only_calls_of_openvibes_own_tools_are_not_asked_about(call: dict[str, Any], is_own: bool) -> None:
    assert is_own_tool(call) == is_own

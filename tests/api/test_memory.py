"""Memory through the API: the tool a plugin makes, figures of a thread, compaction."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from agents.models import Agent
from memory.blocks.models import ProfileNote
from memory.plugins import registry
from memory.plugins.compaction import execute_compaction
from memory.plugins.lcm.models import EndpointFailures
from memory.plugins.models import Compaction
from openvibe.chat.models import Thread
from openvibe.chat.services import set_thread_access
from openvibe.workspaces.models import Member
from tests.api.client import is_problem
from tests.api.conftest import Enter
from tests.factories import access, say
from tests.memory.factories import MemoryPluginFactory
from tests.memory.plugins.fakes import InstalledProvider, install


@pytest.fixture
def told(ana: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstalledProvider]:
    yield install(ana.workspace, tmp_path, monkeypatch)
    registry.clear_plugin_cache()


def actions_of(schema: dict[str, Any]) -> list[str]:
    actions: list[str] = schema["parameters"]["properties"]["action"]["enum"]
    return actions


# --- the tool -----------------------------------------------------------------------------------------------
def test_the_schema_is_what_the_plugin_and_the_caller_allow(ana: Member, vibe: Agent, by_token: Enter) -> None:
    schema = by_token(vibe.participant).get("memory/tool/").json()
    assert schema["name"] == "memory"
    looking = ["status", "search", "search_everywhere", "read_message", "describe", "expand"]
    own = ["profile_get", "profile_update", "read_result", "ask", "compact"]
    assert actions_of(schema) == [*looking, *own]
    assert actions_of(by_token(ana.participant).get("memory/tool/").json()) == looking
    MemoryPluginFactory.create(workspace=ana.workspace, name="memory/simple", enabled=True)
    assert actions_of(by_token(vibe.participant).get("memory/tool/").json()) == [*looking[:4], *own[:4]]


def test_an_agent_looks_up_what_was_said(ana: Member, vibe: Agent, thread: Thread, by_token: Enter) -> None:
    say(thread, ana, "Prune the roses in March.")
    api = by_token(vibe.participant)
    response = api.post("memory/tool/", {"thread": thread.pk, "action": "search", "query": "roses"})
    assert response.status_code == 200
    assert response.json()["result"].startswith("#1 Ana")
    assert "Prune the roses" in response.json()["result"]
    status = api.post("memory/tool/", {"thread": thread.pk, "action": "status"}).json()["result"]
    assert status.startswith("1 message was said in this conversation.\nWhat is remembered of it takes ")
    assert status.endswith(" in 1 entry.")


@pytest.mark.parametrize(
    ("said", "status", "code", "words"),
    [
        ({"action": "sing"}, 400, "unknown_action", 'unknown action "sing", available: status, search'),
        ({"action": "search"}, 400, "bad_argument", 'search needs "query"'),
        ({"action": "search", "query": "x", "limit": "9"}, 400, "bad_argument", "whole number from 1 to 20"),
        ({"action": "status", "query": "x"}, 400, "bad_argument", "takes no arguments"),
        ({"action": "describe", "summary_id": 987_654_321}, 404, "not_found", "nothing here"),
        ({}, 400, "invalid", ""),
    ],
)
def test_what_the_caller_can_mend_is_a_problem(
    vibe: Agent, thread: Thread, by_token: Enter, said: dict[str, Any], status: int, code: str, words: str
) -> None:
    answer = by_token(vibe.participant).post("memory/tool/", {"thread": thread.pk, **said})
    assert is_problem(answer, status, code)
    assert words in answer.json()["detail"]


def test_an_agents_notes_are_about_whoever_spoke_last(
    ana: Member, dora: Member, vibe: Agent, thread: Thread, by_token: Enter
) -> None:
    say(thread, ana, "I am Ana.")
    say(thread, dora, "And I am Dora; I like short answers.")
    api = by_token(vibe.participant)
    response = api.post(
        "memory/tool/", {"thread": thread.pk, "action": "profile_update", "text": "Likes short answers."}
    )
    assert response.status_code == 200
    assert ProfileNote.objects.get().person == dora.participant
    assert api.post("memory/tool/", {"thread": thread.pk, "action": "profile_get"}).json() == {
        "result": "Likes short answers."
    }
    refused = by_token(ana.participant).post("memory/tool/", {"thread": thread.pk, "action": "profile_get"})
    assert is_problem(refused, 400, "unknown_action")


def test_nothing_is_noted_from_a_place_that_is_not_open_to_everybody(
    ana: Member, vibe: Agent, thread: Thread, by_token: Enter
) -> None:
    say(thread, ana, "I am Ana.")
    set_thread_access(thread=thread, by=access(ana), access="agent_restricted", allowed_agents=[vibe.participant])
    api = by_token(vibe.participant)
    note = {"thread": thread.pk, "action": "profile_update", "text": "Plans a merger."}
    assert is_problem(api.post("memory/tool/", note), 403, "not_public")
    about = f"profile/?thread={thread.pk}"
    assert is_problem(api.call("PUT", about, {"content": "Plans a merger."}, If_Match='"0"'), 403, "not_public")
    assert not ProfileNote.objects.exists()
    notes = {"content": "Plans a merger."}
    by_ana = by_token(ana.participant).call("PUT", f"{about}&agent=vibe", notes, If_Match='"0"')
    assert by_ana.json()["content"] == "Plans a merger."


def test_a_token_needs_the_scope_memory(vibe: Agent, thread: Thread, by_token: Enter) -> None:
    api = by_token(vibe.participant, ("read", "write"))
    for answer in (
        api.get("memory/tool/"),
        api.post("memory/tool/", {"thread": thread.pk, "action": "status"}),
        api.get(f"memory/stats/?thread={thread.pk}"),
        api.post("memory/compact/", {"thread": thread.pk}),
        api.get("memory/compactions/"),
    ):
        assert is_problem(answer, 403, "missing_scope")


# --- figures ------------------------------------------------------------------------------------------------
def test_figures_of_a_thread(ana: Member, vibe: Agent, thread: Thread, by_token: Enter) -> None:
    for number in range(3):
        say(thread, ana, f"Message {number}")
    data = by_token(vibe.participant).get(f"memory/stats/?thread={thread.pk}").json()
    assert (data["thread"], data["plugin"], data["messages"], data["summaries"]) == (thread.pk, "memory/lcm", 3, 0)
    assert data["budget"] == 15_000
    assert 3 * 12 < data["tokens"] < 3 * 60
    assert "Compactor" in data["capabilities"]


# --- compaction ---------------------------------------------------------------------------------------------
def test_compact_now_and_see_what_came_of_it(
    ana: Member, vibe: Agent, thread: Thread, told: InstalledProvider, by_token: Enter
) -> None:
    api = by_token(ana.participant)
    response = api.post("memory/compact/", {"thread": thread.pk, "full": True})
    assert response.status_code == 202
    row = response.json()
    assert (row["state"], row["trigger"], row["full"], row["plugin"]) == ("queued", "hand", True, "told")
    assert api.post("memory/compact/", {"thread": thread.pk}).json()["id"] == row["id"]
    execute_compaction(row["id"])
    data = api.get(f"memory/compactions/{row['id']}/").json()
    assert (data["state"], data["tokens_before"], data["tokens_after"], data["summary_ids"]) == (
        "done",
        900,
        400,
        [7, 8],
    )
    listed = by_token(vibe.participant).get(f"memory/compactions/?thread={thread.pk}").json()["results"]
    assert [one["id"] for one in listed] == [row["id"]]
    assert api.get("memory/compactions/?thread=987654321").json()["results"] == []


def test_the_same_key_starts_it_once(ana: Member, thread: Thread, told: InstalledProvider, by_token: Enter) -> None:
    api = by_token(ana.participant)
    first = api.post("memory/compact/", {"thread": thread.pk}, Idempotency_Key="once")
    Compaction.objects.update(state="done")
    second = api.post("memory/compact/", {"thread": thread.pk}, Idempotency_Key="once")
    assert (first.status_code, first.json()) == (second.status_code, second.json())
    assert Compaction.objects.count() == 1


def test_a_plugin_that_makes_no_summaries_says_so(ana: Member, thread: Thread, by_token: Enter) -> None:
    MemoryPluginFactory.create(workspace=ana.workspace, name="memory/simple", enabled=True)
    answer = by_token(ana.participant).post("memory/compact/", {"thread": thread.pk})
    assert is_problem(answer, 403, "cannot_compact")
    assert "memory/simple" in answer.json()["detail"]


def test_a_summary_of_another_workspace_is_unknown(
    ana: Member, vibe: Agent, cleo: Member, thread: Thread, by_token: Enter
) -> None:
    theirs = by_token(cleo.participant).post("memory/tool/", {"thread": thread.pk, "action": "status"})
    unknown = by_token(cleo.participant).post("memory/tool/", {"thread": 987_654_321, "action": "status"})
    assert is_problem(theirs, 404, "not_found")
    assert theirs.content == unknown.content


def test_admins_resume_paused_compaction(ana: Member, dora: Member, vibe: Agent, by_token: Enter) -> None:
    assert is_problem(by_token(dora.participant).post("memory/resume/"), 403, "not_allowed")
    assert is_problem(by_token(vibe.participant).post("memory/resume/"), 403, "not_allowed")
    assert is_problem(by_token(ana.participant).post("memory/resume/"), 409, "not_paused")
    EndpointFailures.objects.create(
        workspace=ana.workspace, failures=5, paused_until=timezone.now() + timedelta(minutes=20), last_error="Away."
    )
    answer = by_token(ana.participant).post("memory/resume/")
    assert (answer.status_code, answer.json()) == (202, {"compactions": []})
    assert is_problem(by_token(ana.participant).post("memory/resume/"), 409, "not_paused")


def test_a_compaction_takes_a_focus_from_people_and_agents(
    ana: Member, vibe: Agent, thread: Thread, by_token: Enter
) -> None:
    say(thread, ana, "Roses.")
    response = by_token(ana.participant).post("memory/compact/", {"thread": thread.pk, "focus": "prices"})
    assert (response.json()["focus"], response.json()["requested_by"]) == ("prices", ana.participant_id)
    Compaction.objects.all().delete()
    tool = {"thread": thread.pk, "action": "compact", "focus": "prices"}
    assert "in the background" in by_token(vibe.participant).post("memory/tool/", tool).json()["result"]
    assert is_problem(by_token(ana.participant).post("memory/tool/", tool), 400, "unknown_action")

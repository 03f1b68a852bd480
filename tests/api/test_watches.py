"""Channels that agents watch, through the API: the same rules and the same words as in the app."""

import pytest

from agents.models import Agent, Watch
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.agents.watching.watchers import make_watcher
from tests.api.client import is_problem
from tests.api.conftest import Enter
from tests.factories import make_agent, make_channel


@pytest.fixture
def sage(ana: Member, thread: Thread) -> Agent:
    return make_watcher(ana, thread.channel)


def test_set_changed_and_stopped(ana: Member, dora: Member, sage: Agent, thread: Thread, by_token: Enter) -> None:
    api = by_token(ana.participant)
    row = api.post("watches/", {"agent": "sage", "channel": thread.channel_id}).json()
    assert (row["rest_minutes"], row["is_active"], row["silence_count"]) == (5, True, 0)
    assert row["threshold"] == {"rest_minutes": 5, "percent": 50, "not_helpful": 0}
    assert api.patch(f"watches/{row['id']}/", {"rest_minutes": 30}).json()["threshold"]["rest_minutes"] == 30
    stopped = by_token(dora.participant).post(f"watches/{row['id']}/stop/").json()
    assert (stopped["is_active"], stopped["note"]) == (False, "Dora stopped it.")
    refused = by_token(dora.participant).patch(f"watches/{row['id']}/", {"is_active": True})
    assert is_problem(refused, 403, "not_allowed")
    assert api.patch(f"watches/{row['id']}/", {"is_active": True}).json()["note"] == ""
    assert [each["agent"] for each in api.get("watches/?agent=sage").json()["results"]] == ["sage"]
    again = api.post("watches/", {"agent": "sage", "channel": thread.channel_id})
    assert is_problem(again, 400, "watched")


@pytest.mark.parametrize("minutes", [0, 241, -1, "many", 1.5])
def test_other_minutes_are_refused(ana: Member, sage: Agent, thread: Thread, by_token: Enter, minutes: object) -> None:
    body = {"agent": "sage", "channel": thread.channel_id, "rest_minutes": minutes}
    assert by_token(ana.participant).post("watches/", body).status_code == 400
    assert not Watch.objects.exists()


def test_who_cannot_watch_is_told_why(ana: Member, sage: Agent, thread: Thread, by_token: Enter) -> None:
    api = by_token(ana.participant)
    make_agent(ana, "moss", level=3, channel=thread.channel)
    refused = api.post("watches/", {"agent": "moss", "channel": thread.channel_id})
    assert is_problem(refused, 403, "agent_silent")
    assert "names no proactive triggers" in refused.json()["detail"]
    shed = make_channel(ana, "shed", private=True)
    refused = api.post("watches/", {"agent": "sage", "channel": shed.pk})
    assert "it is not in this channel" in refused.json()["detail"]

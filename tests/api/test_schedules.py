"""Schedules through the API: the same rules and the same words as in the app."""

import pytest

from agents.models import Agent, Schedule
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.api.client import is_problem
from tests.api.conftest import Enter
from tests.factories import make_agent


@pytest.fixture
def sage(ana: Member, thread: Thread) -> Agent:
    return make_agent(ana, "sage", level=3, channel=thread.channel)


def test_set_changed_stopped_and_deleted(
    ana: Member, dora: Member, sage: Agent, thread: Thread, by_token: Enter
) -> None:
    api = by_token(ana.participant)
    body = {"agent": "sage", "thread": thread.pk, "name": "Noon", "cron": "0 12 * * *", "prompt": "Say what is open."}
    row = api.post("schedules/", body).json()
    assert (row["time_zone"], row["is_active"], len(row["next_times"])) == ("UTC", True, 3)
    data = api.patch(f"schedules/{row['id']}/", {"cron": "30 9 * * *", "channel": thread.channel_id}).json()
    assert (data["cron"], data["thread"], data["channel"]) == ("30 9 * * *", None, thread.channel_id)
    stopped = by_token(dora.participant).post(f"schedules/{row['id']}/stop/").json()
    assert (stopped["is_active"], stopped["note"], stopped["next_times"]) == (False, "Dora stopped it.", [])
    refused = by_token(dora.participant).patch(f"schedules/{row['id']}/", {"is_active": True})
    assert is_problem(refused, 403, "not_allowed")
    assert api.delete(f"schedules/{row['id']}/").status_code == 204
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"cron": "daily"}, "bad_cron", "cron"),
        ({"time_zone": "Mars"}, "bad_zone", "time_zone"),
        ({"channel": 1}, "bad_place", "channel"),
        ({"prompt": " "}, "empty", "prompt"),
    ],
)
def test_what_is_wrong_is_named(
    ana: Member, sage: Agent, thread: Thread, by_token: Enter, changes: dict[str, object], code: str, field: str
) -> None:
    body = {"agent": "sage", "thread": thread.pk, "name": "Noon", "cron": "0 12 * * *", "prompt": "Say.", **changes}
    answer = by_token(ana.participant).post("schedules/", body)
    assert is_problem(answer, 400, code)
    assert answer.json()["field"] == field

"""The times when somebody wants no notifications, and whose time that is."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from hypothesis import example, given
from hypothesis import strategies as st

from agents.models import Agent
from openvibe.api.services import issue_token
from openvibe.workspaces.models import DoNotDisturb, Member, Participant, User

NIGHT = DoNotDisturb(start=time(22), end=time(7), zone="Europe/Berlin")


def utc(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 7, day, hour, minute, tzinfo=UTC)


def test_daily_hours_are_of_her_time_zone_and_may_hold_midnight() -> None:
    ends = [NIGHT.ends_at(at) for at in (utc(1, 19, 59), utc(1, 20), utc(2, 4, 59), utc(2, 5))]
    assert ends == [None, utc(2, 5), utc(2, 5), None]
    noon = DoNotDisturb(start=time(12), end=time(13, 30), zone="No/Such/Place")
    assert [noon.ends_at(utc(1, hour)) for hour in (11, 12, 13, 14)] == [None, utc(1, 13, 30), utc(1, 13, 30), None]


def test_the_later_of_a_pause_and_the_hours_counts_and_an_old_pause_does_not() -> None:
    paused = DoNotDisturb(until=utc(2, 9), start=NIGHT.start, end=NIGHT.end, zone=NIGHT.zone)
    assert [paused.ends_at(at) for at in (utc(1, 12), utc(2, 4), utc(2, 9))] == [utc(2, 9), utc(2, 9), None]
    assert DoNotDisturb().ends_at(utc(1, 12)) is None


def test_an_end_that_a_night_leaves_out_is_the_first_minute_after_it() -> None:
    hours = DoNotDisturb(start=time(22), end=time(2, 30), zone="Europe/Berlin")
    three = datetime(2026, 3, 29, 1, tzinfo=UTC)  # after 1:59 comes 3:00
    assert [hours.ends_at(three - timedelta(minutes=1)), hours.ends_at(three)] == [three, None]


@example(time(22), time(2, 30), datetime(2026, 10, 25, 1, 10), "Europe/Berlin")  # 2:10 for the second time
@given(
    st.times(),
    st.times(),
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1)),
    st.sampled_from(["UTC", "Europe/Berlin"]),
)
def test_an_end_is_ahead_and_less_than_a_day_and_an_hour_away(start: time, end: time, at: datetime, zone: str) -> None:
    now = at.replace(tzinfo=UTC)
    ends_at = DoNotDisturb(start=start, end=end, zone=zone).ends_at(now)
    assert ends_at is None or timedelta(0) < ends_at - now <= timedelta(hours=25)


@pytest.mark.django_db
def test_hours_come_whole_in_the_database(dora: Member) -> None:
    for wrong in ({"dnd_start": time(22)}, {"dnd_start": time(22), "dnd_end": time(22)}):
        with pytest.raises(IntegrityError), transaction.atomic():
            User.objects.filter(pk=dora.user_id).update(**wrong)


@pytest.mark.django_db
def test_the_zone_she_chose_is_that_of_every_time_and_the_browsers_else(dora: Member) -> None:
    User.objects.filter(pk=dora.user_id).update(dnd_until=datetime(2200, 1, 1, 12, tzinfo=UTC))
    browser = Client()
    browser.force_login(dora.user)
    browser.cookies["zone"] = "Asia/Tokyo"
    home = f"/w/{dora.workspace.slug}/"
    assert "Do not disturb until Wed 1 Jan, 21:00" in browser.get(home).content.decode()
    form = {"name": "Dora", "theme": "system", "time_zone": "Europe/Berlin"}
    assert browser.post(f"{home}profile/", form).status_code == 302
    assert "Do not disturb until Wed 1 Jan, 13:00" in browser.get(home).content.decode()
    answer = browser.post(f"{home}profile/", {**form, "time_zone": "Mars/Olympus"})
    assert (answer.status_code, "Choose a time zone of the list." in answer.content.decode()) == (400, True)


@pytest.mark.django_db
def test_a_program_pauses_and_sets_the_hours(dora: Member, vibe: Agent) -> None:
    def call(body: Any = None, owner: Participant = dora.participant) -> Any:
        _, secret = issue_token(participant=owner, name="x", scopes=["read", "write"])
        program, path = Client(headers={"Authorization": f"Bearer {secret}"}), "/api/v1/do-not-disturb/"
        answer = program.get(path) if body is None else program.patch(path, body, content_type="application/json")
        return answer.status_code, answer.json()

    assert call()[1] == {"until": None, "start": None, "end": None, "time_zone": "", "ends_at": None}
    hours = {"start": "22:00", "end": "07:00", "time_zone": "Europe/Berlin"}
    assert call(hours)[1].items() >= hours.items()
    paused = call({"until": "2200-01-01T12:00:00Z"})[1]
    assert (paused["start"], paused["ends_at"][:10]) == ("22:00", "2200-01-01")
    assert call({"until": None})[1]["until"] is None
    wrong: dict[str, list[dict[str, Any]]] = {
        "bad_hours": [{"start": None}, {"end": "22:00"}, {"until": "9999-12-31T23:00:00Z"}],
        "invalid": [{"until": "soon"}, {"start": "25:00"}, {"time_zone": "Mars/Olympus"}],
    }
    for code, body in ((code, body) for code, bodies in wrong.items() for body in bodies):
        status, problem = call(body)
        assert (status, problem["code"], problem["field"]) == (400, code, next(iter(body)))
    assert call(owner=vibe.participant)[0] == 403

"""When somebody wants no notifications, and whose time that is."""

from datetime import UTC, datetime, time, timedelta

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from openvibe.workspaces.models import DoNotDisturb, Member, User

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


@given(
    st.times(),
    st.times(),
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1)),
    st.sampled_from(["UTC", "Europe/Berlin"]),
)
def test_an_end_is_ahead_and_less_than_a_day_and_an_hour_away(start: time, end: time, at: datetime, zone: str) -> None:
    now = at.replace(tzinfo=UTC)
    ends_at = DoNotDisturb(start=start, end=end, zone=zone).ends_at(now)
    assert ends_at is None or timedelta(hours=-1) <= ends_at - now <= timedelta(hours=25)


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

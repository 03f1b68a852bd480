"""The expiry of entries: presets, dates, zones, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.expiry import EXPIRY_PRESETS, format_instant, normalize_expiry, parse_expiry
from knowledge.services import renew_entry
from openvibe.base.problems import Problem
from openvibe.workspaces.models import Member
from tests.factories import access, make_entry

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("30d", "2026-03-31T12:30:00+00:00"),
        ("90d", "2026-05-30T12:30:00+00:00"),
        ("1y", "2027-03-01T12:30:00+00:00"),
        ("2026-04-01", "2026-04-02T00:00:00+00:00"),
        ("2026-04-01 09:30", "2026-04-01T09:30:00+00:00"),
        ("2026-04-01T09:30", "2026-04-01T09:30:00+00:00"),
        ("2026-03-29T02:30:00+01:00", "2026-03-29T01:30:00+00:00"),
        ("2026-03-29T02:30:00-05:00", "2026-03-29T07:30:00+00:00"),
        ("2026-03-29 02:30", "2026-03-29T02:30:00+00:00"),
        ("2026-04-01T09:30:00Z", "2026-04-01T09:30:00+00:00"),
        ("  2026-03-01 ", "2026-03-02T00:00:00+00:00"),
    ],
)
def test_what_is_picked_or_typed_is_one_instant(text: str, instant: str) -> None:
    at = parse_expiry(text, now=NOW)

    assert at
    assert (at.isoformat(), at.tzinfo) == (instant, UTC)


def test_never_is_none() -> None:
    assert parse_expiry("never", now=NOW) is parse_expiry(" ", now=NOW) is None
    assert list(EXPIRY_PRESETS) == ["30d", "90d", "1y", "never"]


def test_a_year_after_a_leap_day_exists() -> None:
    assert parse_expiry("1y", now=datetime(2028, 2, 29, 8, tzinfo=UTC)) == datetime(2029, 2, 28, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-28",
        "2026-03-01 12:30",
        "2026-03-01T13:30:00+01:00",
        "2026-02-30",
        "tomorrow",
        "31d",
        "2026-13-01",
        "9999-12-31",
        "9999-12-31T23:59:00-12:00",
        "2200-01-01",
        "0001-01-01T00:00:00+14:00",
        "2026-04-01\x00",
        "2026-04-01T25:00",
        "1" * 5_000,
        "2026-03-29T02:30[Europe/Berlin]",
        "😀",
    ],
)
def test_what_is_past_or_no_date_is_refused(text: str) -> None:
    with pytest.raises(Problem) as error:
        parse_expiry(text, now=NOW)

    assert error.value.field == "expires_at"


def test_the_hour_that_comes_twice_is_two_instants() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)

    assert normalize_expiry(first, now=NOW) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert normalize_expiry(first.replace(fold=1), now=NOW) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


@settings(deadline=None)
@given(st.datetimes(datetime(2027, 1, 1), datetime(2090, 1, 1), timezones=st.timezones()))
def test_what_is_shown_is_read_back_as_the_same_instant(at: datetime) -> None:
    assert parse_expiry(format_instant(at), now=NOW) == at.astimezone(UTC)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_text_is_more_than_a_problem(text: str) -> None:
    try:
        at = parse_expiry(text, now=NOW)
    except Problem:
        return
    assert at is None or at > NOW


def test_services_keep_utc_and_refuse_the_past(ana: Member) -> None:
    later = datetime.now(ZoneInfo("America/New_York")) + timedelta(days=3)
    entry = make_entry(ana, expires_at=later)
    entry.refresh_from_db()
    assert entry.expires_at == later

    with pytest.raises(Problem, match="is past"):
        make_entry(ana, expires_at=datetime.now(UTC))
    with pytest.raises(Problem, match="is past"):
        renew_entry(entry=entry, by=access(ana), expires_at=datetime.now(UTC) - timedelta(seconds=1))
    naive = datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1)
    assert renew_entry(entry=entry, by=access(ana), expires_at=naive).expires_at == naive.replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["2027-03-28", "20270328", "2027-W12-7"])
def test_a_date_alone_is_the_end_of_that_day_however_it_is_written(text: str) -> None:
    assert parse_expiry(text, now=datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2027, 3, 29, tzinfo=UTC)

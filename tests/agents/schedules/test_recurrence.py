"""The recurrence of schedules: when a cron line is due, in time zones and their daylight-saving nights."""

from datetime import UTC, datetime

import pytest

from agents.schedules.recurrence import next_times, parse_cron, parse_time_zone
from openvibe.base.problems import Problem


def times(cron: str, after: str, count: int, zone: str = "Europe/Berlin") -> list[str]:
    instants = next_times(cron, zone, datetime.fromisoformat(after).replace(tzinfo=UTC), count)
    return [f"{instant:%m-%d %H:%M}" for instant in instants]


@pytest.mark.parametrize(
    ("cron", "after", "due"),
    [
        ("0 9 * * mon-fri", "2026-11-20 12:00", ["11-23 08:00", "11-24 08:00"]),
        ("30 6 1 * *", "2026-11-22 12:00", ["12-01 05:30", "01-01 05:30"]),
        ("0 9 * * *", "2026-11-22 08:00", ["11-23 08:00", "11-24 08:00"]),
        ("0 0 29 2 *", "2026-11-22 08:00", ["02-28 23:00", "02-28 23:00"]),
        # A Monday that is 29 February comes in 2044, and after it in 2072; over 2100, which has none, in forty years.
        ("0 9 29 2 mon", "2026-11-22 08:00", ["02-29 08:00"]),
        ("0 9 29 2 mon", "2072-03-01 08:00", ["02-29 08:00"]),
        # 29 March 2026: 2:00 to 3:00 is left out. Due once, at 3:00, and the next day as ever.
        ("30 2 * * *", "2026-03-28 12:00", ["03-29 01:00", "03-30 00:30"]),
        ("*/20 2,3 * * *", "2026-03-28 12:00", ["03-29 01:00", "03-29 01:20", "03-29 01:40", "03-30 00:00"]),
        # 25 October 2026: 2:00 to 3:00 comes twice. Due once, the first time.
        ("30 2 * * *", "2026-10-24 12:00", ["10-25 00:30", "10-26 01:30"]),
        ("0 * * * *", "2026-10-24 23:30", ["10-25 00:00", "10-25 02:00", "10-25 03:00"]),
    ],
)
def test_when_it_is_due(cron: str, after: str, due: list[str]) -> None:
    assert times(cron, after, len(due)) == due


def test_half_an_hour_left_out_and_a_day_left_out() -> None:
    assert times("15 2 * * *", "2026-10-03 12:00", 1, "Australia/Lord_Howe") == ["10-03 15:30"]
    assert times("0 9 30 12 *", "2011-12-29 12:00", 1, "Pacific/Apia") == ["12-30 10:00"]


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("61 * * * *", "61"),
        ("a b c d e", "cannot be read"),
        ("*/0 * * * *", "cannot be read"),
        ("0 0 30 2 *", "never occurs"),
        ("\x00 * * * *", "cannot be read"),
        ("9" * 5_000 + " * * * *", "cannot be read"),
    ],
)
def test_a_line_that_is_none_is_refused_in_words(cron: str, said: str) -> None:
    with pytest.raises(Problem, match=said) as error:
        parse_cron(cron)
    assert (error.value.field, error.value.code) == ("cron", "bad_cron")


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../../etc/passwd", "x\x00"])
def test_a_zone_that_is_none_is_refused_in_words(name: str) -> None:
    with pytest.raises(Problem, match="Europe/Berlin"):
        parse_time_zone(name)

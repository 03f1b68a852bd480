"""Dates in a question lift what was said then, in the asker's time zone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from openvibe.engines.search.dated import date_weights
from openvibe.engines.search.ranking import rank
from tests.engines.search.candidate_factory import candidates

ASKED_AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def weights(question: str, *days_before: float, asked_at: datetime = ASKED_AT) -> list[float] | None:
    seconds = np.array([(ASKED_AT - timedelta(days=days)).timestamp() for days in days_before])
    found = date_weights(question, asked_at, seconds)
    return None if found is None else [round(float(weight), 2) for weight in found]


def test_a_day_is_told_of_from_the_evening_before_to_two_weeks_after() -> None:
    question = "What did Mara say on 2026-11-01?"
    # 30, 29, 28 days before; then 2, 8, 11, 16 days after
    assert weights(question, 30, 29, 28, 26, 20, 17, 12) == [0, 1, 1, 1, 0.93, 0.5, 0]


def test_without_a_date_or_without_texts_of_that_time_nothing_is_lifted() -> None:
    assert weights("What did Mara say?", 1, 2) is None
    assert weights("What did Mara say in 2019?", 1, 2) is None
    assert weights("What did Mara say yesterday?", 1) is None  # all alike
    assert weights("What did Mara say yesterday?") is None


def test_days_begin_where_the_asker_lives() -> None:
    early = datetime(2026, 11, 29, 0, 30, tzinfo=ZoneInfo("Pacific/Auckland"))
    seconds = np.array(
        [datetime(2026, 11, day, 12, tzinfo=ZoneInfo("Pacific/Auckland")).timestamp() for day in (26, 28)]
    )
    assert date_weights("what was said yesterday?", early, seconds) is not None
    in_utc = early.astimezone(UTC)  # the 28th there: yesterday was the 27th
    found, found_in_utc = (date_weights("yesterday?", at, seconds) for at in (early, in_utc))
    assert found is not None
    assert found_in_utc is not None
    assert found.tolist() == [0, 1]


def test_the_ends_of_the_calendar_do_no_harm() -> None:
    assert date_weights("in 1900, on 9999-12-31", datetime(1, 1, 1, tzinfo=UTC), np.array([0.0, 1.0])) is None


def test_what_was_said_then_comes_before_what_shares_the_same_words() -> None:
    rows = candidates([[1], [1], [1], [1], [0], [0]])
    assert int(rank(replace(rows, dated=np.array([0, 0, 1, 0, 0, 0], np.float32))).argmax()) == 2

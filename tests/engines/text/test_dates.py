"""Dates in questions: which days they mean, in which language, and what only looks like a date."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.text.dates import MAX_DATES, DateRange, find_dates

ASKED_ON = date(2026, 11, 29)  # a Sunday


def days(first: str, last: str = "") -> DateRange:
    return DateRange(date.fromisoformat(first), date.fromisoformat(last or first))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("What did Mara say on 2026-03-14?", days("2026-03-14")),
        ("on 14 March 2025", days("2025-03-14")),
        ("on the 14th of March", days("2026-03-14")),
        ("on March 14th, 2025", days("2025-03-14")),
        ("around Mar 14", days("2026-03-14")),
        ("on December 24", days("2025-12-24")),
        ("in March", days("2026-03-01", "2026-03-31")),
        ("in December", days("2025-12-01", "2025-12-31")),
        ("in may", days("2026-05-01", "2026-05-31")),
        ("last May", days("2026-05-01", "2026-05-31")),
        ("in early March", days("2026-03-01", "2026-03-10")),
        ("in mid-March", days("2026-03-10", "2026-03-20")),
        ("at the end of March 2025", days("2025-03-21", "2025-03-31")),
        ("September figures", days("2026-09-01", "2026-09-30")),
        ("the budget of February 2025", days("2025-02-01", "2025-02-28")),
        ("what happened yesterday?", days("2026-11-28")),
        ("the day before yesterday", days("2026-11-27")),
        ("this morning", days("2026-11-29")),
        ("three days ago", days("2026-11-26")),
        ("two weeks ago", days("2026-11-12", "2026-11-18")),
        ("a couple of months ago", days("2026-09-20", "2026-10-10")),
        ("in the last 3 weeks", days("2026-11-08", "2026-11-29")),
        ("last Tuesday", days("2026-11-24")),
        ("on Sunday", days("2026-11-22")),
        ("next Monday", days("2026-11-30")),
        ("last week", days("2026-11-16", "2026-11-22")),
        ("this month", days("2026-11-01", "2026-11-30")),
        ("last year", days("2025-01-01", "2025-12-31")),
        ("last weekend", days("2026-11-27", "2026-11-29")),
        ("last spring", days("2026-03-01", "2026-05-31")),
        ("in the winter of 2024", days("2024-12-01", "2025-03-02")),
        ("Q2 2025", days("2025-04-01", "2025-06-30")),
        ("in 2024", days("2024-01-01", "2024-12-31")),
        ("at Christmas", days("2025-12-24", "2025-12-26")),
        ("between March 3 and March 10", days("2026-03-03", "2026-03-10")),
        ("from March to May 2026", days("2026-03-01", "2026-05-31")),
        ("between November and February", days("2026-11-01", "2027-02-28")),
        ("on March 14th last year", days("2025-03-14")),
        ("im März letzten Jahres", days("2025-03-01", "2025-03-31")),
        ("en marzo del año pasado", days("2025-03-01", "2025-03-31")),
        ("since October", days("2026-10-01", "2026-11-29")),
        ("am 14. März", days("2026-03-14")),
        ("am 14.3.2025", days("2025-03-14")),
        ("am 14.3. besprochen", days("2026-03-14")),
        ("im Mai", days("2026-05-01", "2026-05-31")),
        ("Anfang März", days("2026-03-01", "2026-03-10")),
        ("gestern", days("2026-11-28")),
        ("vor zwei Wochen", days("2026-11-12", "2026-11-18")),
        ("letzten Dienstag", days("2026-11-24")),
        ("am Dienstag", days("2026-11-24")),
        ("letzte Woche", days("2026-11-16", "2026-11-22")),
        ("im letzten Frühling", days("2026-03-01", "2026-05-31")),
        ("seit Oktober", days("2026-10-01", "2026-11-29")),
        ("zwischen März und Mai", days("2026-03-01", "2026-05-31")),
        ("le 14 mars", days("2026-03-14")),
        ("en mars", days("2026-03-01", "2026-03-31")),
        ("il y a deux semaines", days("2026-11-12", "2026-11-18")),
        ("la semaine dernière", days("2026-11-16", "2026-11-22")),
        ("mardi dernier, le mardi", days("2026-11-24")),
        ("el 14 de marzo de 2025", days("2025-03-14")),
        ("en mayo", days("2026-05-01", "2026-05-31")),
        ("hace tres días", days("2026-11-26")),
        ("la semana pasada", days("2026-11-16", "2026-11-22")),
        ("il 14 marzo", days("2026-03-14")),
        ("due settimane fa", days("2026-11-12", "2026-11-18")),
        ("em 14 de março", days("2026-03-14")),
        ("há dois dias", days("2026-11-27")),
        ("op 14 maart", days("2026-03-14")),
        ("twee weken geleden", days("2026-11-12", "2026-11-18")),
        ("14 марта", days("2026-03-14")),
        ("вчера", days("2026-11-28")),
        ("две недели назад", days("2026-11-12", "2026-11-18")),
        ("2026年3月14日の会議", days("2026-03-14")),
        ("3月に何を", days("2026-03-01", "2026-03-31")),
        ("昨日の会議", days("2026-11-28")),
        ("先週", days("2026-11-16", "2026-11-22")),
        ("月曜日に", days("2026-11-23")),
        ("上周二说了什么", days("2026-11-24")),
        ("3월 14일", days("2026-03-14")),
        ("지난주", days("2026-11-16", "2026-11-22")),
    ],
)
def test_a_date_means_its_days(text: str, meant: DateRange) -> None:
    assert find_dates(text, ASKED_ON) == (meant,)


def test_a_date_of_numbers_whose_order_nobody_knows_is_both() -> None:
    assert find_dates("on 3/4/2026", ASKED_ON) == (days("2026-04-03"), days("2026-03-04"))
    assert find_dates("on 3/14/2026", ASKED_ON) == (days("2026-03-14"),)


@pytest.mark.parametrize(
    "text",
    [
        "May I ask what we may do?",
        "Did they march to the town hall?",
        "Was weiß man über den Mars?",
        "What is the second step?",
        "Which version is v2.3.1, and is 3.14 pi?",
        "Mix 1/2 cup with 3/4 of the rest",
        "Who comes every Friday?",
        "jeden Montag, chaque lundi, cada lunes",
        "Room 2024 costs 2,025 euros",
        "the fall of prices, a spring of water",
        "on 31 April",
        "in 45.13.2025",
        "10.0.0.1 and 8080/tcp",
        "April and June talked to Jan about August",
        "火 burns, 木 grows",
        "How long is a day?",
        "",
    ],
)
def test_what_only_looks_like_a_date_is_none(text: str) -> None:
    assert find_dates(text, ASKED_ON) == ()


def test_several_dates_are_read_in_order_and_not_without_end() -> None:
    assert find_dates("in March or on 3 May 2025?", ASKED_ON) == (days("2026-03-01", "2026-03-31"), days("2025-05-03"))
    many = " ".join(f"on {day} March 2025." for day in range(1, 30))
    assert len(find_dates(many, ASKED_ON)) == MAX_DATES


def test_february_29_is_that_of_the_last_leap_year() -> None:
    assert find_dates("on February 29", ASKED_ON) == (days("2024-02-29"),)


@given(st.text(max_size=300), st.dates(date(1, 1, 1), date(9999, 12, 31)))
def test_any_text_on_any_day_is_read(text: str, asked_on: date) -> None:
    assert all(each.first <= each.last for each in find_dates(text, asked_on))

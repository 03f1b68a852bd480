"""Placeholders of prepared statements are numbered; values find theirs by name or by position."""

import pytest
from django.db import connection

from openvibe.base.prepared_statements import fetch_prepared, number_placeholders


def test_a_name_has_one_number_wherever_it_stands() -> None:
    statement = "SELECT %(a)s, %(b)s, %(a)s, 7 %% 2"
    assert number_placeholders(statement) == (b"SELECT $1, $2, $1, 7 % 2", ("a", "b"))


def test_placeholders_without_names_are_counted() -> None:
    assert number_placeholders("SELECT %s, %s") == (b"SELECT $1, $2", (0, 1))


@pytest.mark.django_db
def test_rows_are_those_of_the_values() -> None:
    assert fetch_prepared("SELECT %s::int %% 4, %s::text", [7, "100 %s"]) == [(3, "100 %s")]
    named = "SELECT %(word)s::text || %(word)s::text, %(number)s::int"
    assert fetch_prepared(named, {"number": 5, "word": "ab", "other": None}) == [("abab", 5)]


@pytest.mark.django_db
def test_a_connection_plans_once_from_its_opening_on_whatever_is_rolled_back() -> None:
    another = connection.copy()
    try:
        another.set_autocommit(False)
        with another.cursor() as cursor:
            cursor.execute("SELECT 1")
        another.rollback()
        with another.cursor() as cursor:
            cursor.execute("SHOW plan_cache_mode")
            assert cursor.fetchone() == ("force_generic_plan",)
    finally:
        another.close()

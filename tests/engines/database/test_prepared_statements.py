"""Placeholders of prepared statements are numbered; values find theirs by name or by position."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from os import dup
from select import select
from socket import SHUT_RDWR, socket
from threading import Barrier

import pytest
from django.db import DataError, NotSupportedError, OperationalError, ProgrammingError, connection, transaction
from psycopg.pq import TransactionStatus

from openvibe.engines.database.locks import LockKind, advisory_lock
from openvibe.engines.database.prepared_statements import fetch_prepared, fetch_unprepared, number_placeholders
from openvibe.engines.database.time_zones import EARLIEST, LATEST
from tests.operations.processes import wait_until


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


TIMES = (
    "2025-01-07 01:40:00+00",
    "2025-01-07 01:40:00.12+01",
    "1999-12-31 23:59:59.999999+00",
    "0001-01-02 00:00:00+00",
)


@pytest.mark.django_db
@pytest.mark.parametrize("text", TIMES)
def test_times_come_in_utc_prepared_or_not(text: str) -> None:
    statement, moment = "SELECT %s::timestamptz", datetime.fromisoformat(text)
    for rows in (fetch_prepared(statement, [text]), fetch_unprepared(statement, [text])):
        assert rows == [(moment,)]
        assert rows[0][0].tzinfo is UTC


@pytest.mark.django_db
@pytest.mark.parametrize(("text", "moment"), [("0001-01-01 00:00:00+00", EARLIEST), ("9999-12-31 23:00:00+00", LATEST)])
def test_a_time_that_some_zone_cannot_show_comes_as_the_nearest_that_all_can(text: str, moment: datetime) -> None:
    assert fetch_prepared("SELECT %s::timestamptz", [text]) == [(moment,)]


@pytest.mark.django_db
def test_a_time_beyond_pythons_is_the_drivers_error() -> None:
    with pytest.raises(DataError, match="infinity"):
        fetch_prepared("SELECT %s::timestamptz", ["infinity"])


def prepared_statements() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return [statement for (statement,) in cursor.fetchall()]


@pytest.mark.django_db(transaction=True)
def test_what_is_prepared_stays_through_rollbacks_and_goes_when_tables_change() -> None:
    for nested in (False, True):
        with transaction.atomic(), transaction.atomic():
            assert fetch_prepared("SELECT 1 + %s", [int(nested)]) == [(1 + nested,)]
            transaction.set_rollback(nested)
        with transaction.atomic():
            transaction.set_rollback(not nested)
    assert prepared_statements().count("SELECT 1 + $1") == 1

    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE chat_thread ALTER title SET STATISTICS 100")
        cursor.execute("ALTER TABLE chat_thread ALTER title SET STATISTICS -1")
    assert fetch_prepared("SELECT 2 + %s", [1]) == [(3,)]
    assert prepared_statements() == ["SELECT 2 + $1"]


@pytest.mark.django_db(transaction=True)
def test_a_column_that_a_migration_changes_elsewhere_fails_one_transaction_at_most() -> None:
    statement, another = "SELECT word FROM changing WHERE word = %s", connection.copy()
    try:
        with another.cursor() as elsewhere:
            elsewhere.execute("CREATE TABLE changing (word varchar(5)); INSERT INTO changing VALUES ('ab')")
            assert fetch_prepared(statement, ["ab"]) == [("ab",)]
            elsewhere.execute("ALTER TABLE changing ALTER word TYPE varchar(9)")
            assert fetch_prepared(statement, ["ab"]) == [("ab",)]
            elsewhere.execute("ALTER TABLE changing ALTER word TYPE varchar(12)")
            with pytest.raises(NotSupportedError), transaction.atomic():
                fetch_prepared(statement, ["ab"])
            with transaction.atomic():
                assert fetch_prepared(statement, ["ab"]) == [("ab",)]
            assert prepared_statements().count("SELECT word FROM changing WHERE word = $1") == 1
            elsewhere.execute("DROP TABLE changing")
    finally:
        another.close()


@pytest.mark.django_db(transaction=True)
def test_what_is_prepared_begins_a_transaction_and_ends_none() -> None:
    for _ in range(2):
        with transaction.atomic():
            assert fetch_prepared("SELECT 3 + %s", [1]) == [(4,)]
            assert connection.connection.info.transaction_status == TransactionStatus.INTRANS
        assert fetch_prepared("SELECT 3 + %s", [1]) == [(4,)]
        assert connection.connection.info.transaction_status == TransactionStatus.IDLE


@pytest.mark.django_db(transaction=True)
def test_an_error_at_the_beginning_of_a_transaction_ends_it_as_any_other() -> None:
    assert fetch_prepared("SELECT 8 / %s", [2]) == [(4,)]
    for _ in range(2):
        with pytest.raises(DataError, match="division by zero"), transaction.atomic():
            fetch_prepared("SELECT 8 / %s", [0])
        assert connection.connection.info.transaction_status == TransactionStatus.IDLE
        with transaction.atomic():
            assert fetch_prepared("SELECT 8 / %s", [1]) == [(8,)]


@pytest.mark.parametrize("before", [[], ["SELECT 1"]])
@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_waits_holds_up_no_other_thread(before: list[str]) -> None:
    statement = "SELECT pg_advisory_xact_lock(%s)"

    def lock() -> list[tuple[str]]:
        try:
            fetch_prepared(statement, [8])  # from now on it is prepared
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '20s'")  # a failure, and not a test that never ends
            is_prepared.wait()
            with transaction.atomic():
                for each in before:
                    fetch_prepared(each, [])
                return fetch_prepared(statement, [7])
        finally:
            connection.close()

    is_prepared = Barrier(2)
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            fetch_prepared(statement, [7])
            answer = threads.submit(lock)
            is_prepared.wait()
            wait_until(lambda: fetch_unprepared(waiting, []) == [(1,)], "the other thread waits for the lock")
        assert answer.result() == [("",)]


@pytest.mark.django_db(transaction=True)
def test_a_transaction_may_begin_with_more_than_the_socket_takes_at_once() -> None:
    statement, text = "SELECT length(%s::text), repeat('ab', %s)", "x" * 20_000_000
    for _ in range(2):
        with transaction.atomic():
            assert fetch_prepared(statement, [text, 5_000_000]) == [(len(text), "ab" * 5_000_000)]


@pytest.mark.django_db(transaction=True)
def test_an_error_of_begin_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch_prepared("SELECT 5 + %s", [1]) == [(6,)]
    monkeypatch.setattr(connection.connection, "_begin_statement", b"BEGIN NONSENSE")
    with pytest.raises(ProgrammingError, match="syntax error"), transaction.atomic():
        fetch_prepared("SELECT 5 + %s", [1])
    monkeypatch.undo()
    with transaction.atomic():
        assert fetch_prepared("SELECT 5 + %s", [1]) == [(6,)]


@pytest.mark.django_db(transaction=True)
def test_an_error_of_what_is_prepared_is_djangos_and_leaves_the_connection_usable() -> None:
    assert fetch_prepared("SELECT 6 / %s", [2]) == [(3,)]
    with pytest.raises(DataError, match="division by zero"):
        fetch_prepared("SELECT 6 / %s", [0])
    assert fetch_prepared("SELECT 6 / %s", [3]) == [(2,)]
    with transaction.atomic():
        with pytest.raises(DataError):
            fetch_prepared("SELECT 6 / %s", [0])
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            fetch_prepared("SELECT 6 / %s", [3])
    assert fetch_prepared("SELECT 6 / %s", [1]) == [(6,)]


PID = "SELECT pg_backend_pid() + 0 * %s"


def end_on_the_server() -> None:
    ((pid,),) = fetch_prepared(PID, [1])
    another = connection.copy()
    try:
        with another.cursor() as elsewhere:
            elsewhere.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    finally:
        another.close()


def say_something() -> None:
    """A notification waits to be read on the line."""
    fetch_prepared(PID, [1])
    another = connection.copy()
    try:
        with connection.cursor() as listening, another.cursor() as elsewhere:
            listening.execute("LISTEN outages")
            elsewhere.execute("NOTIFY outages")
    finally:
        another.close()
    wait_until(lambda: select([connection.connection], [], [], 0)[0], "what the server says")


def end_without_a_word() -> None:
    say_something()
    with socket(fileno=dup(connection.connection.fileno())) as line:
        line.shutdown(SHUT_RDWR)


@pytest.mark.parametrize("end", [end_on_the_server, end_without_a_word])
@pytest.mark.django_db(transaction=True)
def test_a_connection_that_ended_between_two_statements_is_made_anew(end: Callable[[], None]) -> None:
    """Each thread of each process answered 503 once after every restart of the database."""
    before = fetch_prepared(PID, [1])
    end()
    assert fetch_prepared(PID, [1]) != before


@pytest.mark.parametrize("end", [end_on_the_server, end_without_a_word])
@pytest.mark.django_db(transaction=True)
def test_one_that_ended_in_a_transaction_is_an_outage_once(end: Callable[[], None]) -> None:
    before = fetch_prepared(PID, [1])
    end()
    with pytest.raises(OperationalError), transaction.atomic():
        fetch_prepared(PID, [1])
    connection.close_if_unusable_or_obsolete()
    assert fetch_prepared(PID, [1]) != before


@pytest.mark.parametrize("end", [end_on_the_server, end_without_a_word])
@pytest.mark.django_db(transaction=True)
def test_whoever_owned_work_in_one_that_ended_is_told(end: Callable[[], None]) -> None:
    with advisory_lock(LockKind.MAIL, 0):
        end()
        with pytest.raises(OperationalError):
            fetch_prepared(PID, [1])
    connection.close_if_unusable_or_obsolete()
    assert fetch_prepared(PID, [1])


@pytest.mark.django_db(transaction=True)
def test_a_line_with_a_word_on_it_is_no_line_that_ended() -> None:
    before = fetch_prepared(PID, [1])
    say_something()
    assert fetch_prepared(PID, [1]) == before

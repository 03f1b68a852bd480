"""The cast, for every test that asks for it; and what holds for all tests of a run."""

import gc
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from os import PathLike, fsdecode
from pathlib import Path, PurePath
from subprocess import Popen
from typing import Any

import pytest
from _pytest import runner
from django.db import connection, transaction
from django.test import TransactionTestCase
from hypothesis import settings
from pytest_django import DjangoDbBlocker

from agents.models import Agent
from openvibe.chat.live import hub
from openvibe.chat.models import Channel, Thread
from openvibe.engines.search import candidates, spaces
from openvibe.engines.search.spaces import ENDPOINT_EMBEDDER, clear_space_cache
from openvibe.workspaces.models import Member
from tests import factories, run_once
from tests.engines.search.fakes import FAKE, FakeEmbedder, embedder_for
from tests.examples import register_profiles
from tests.memory.plugins.third_party import hidden_packages
from tests.registers import replaced
from tests.savepoints import savepoints_without_cursors
from tests.scheduling import KINDS, LongestFirst, kind_of, rank_of

POSTGRESQL_PROGRAMS = ("initdb", "postgres")
running: list[str] = []
"""The test that runs now, alone in its list."""


def pytest_configure(config: pytest.Config) -> None:
    for kind, what in KINDS.items():
        config.addinivalue_line("markers", f"{kind}: {what}")
    if not hasattr(config, "workerinput"):
        run_once.begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        run_once.end()
    gc.disable()
    gc.freeze()  # a process that ends need not look for garbage: it took three seconds


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests stay until the end: the garbage collector need not look through them again and again."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.set_threshold(100_000)  # tests make much and keep little: one look in 140 of Python's own is enough
    gc.enable()
    return result


def _call_with_room(function: Callable[..., Any], *arguments: object) -> Any:
    return function(*arguments)


# CPython keeps the frames of calls in chunks of 16 kB. A call at the end of one gets another from the system, and gives
# it back when it returns: 400 times a test, a tenth of its work. Beside this frame 240 kB are left.
_call_with_room.__code__ = _call_with_room.__code__.replace(co_stacksize=33_000)


RETRIED_KINDS = ("processes", "journeys")
"""Kinds that wait for programs beside this one, which a busy machine may starve: tried a second time, and named."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    if item.get_closest_marker("flaky"):
        return None  # pytest-rerunfailures carries it out
    return _call_with_room(runner.pytest_runtest_protocol, item, nextitem)


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Marks every test with its kind before `-m` looks at it; the longest come first."""
    is_strict = settings.get_current_profile_name() == "nightly"
    for item in items:
        kind = kind_of(item.nodeid)
        item.add_marker(kind)
        if kind in RETRIED_KINDS and not is_strict:
            item.add_marker(pytest.mark.flaky(reruns=1))
    yield
    items.sort(key=lambda item: rank_of(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    running.append(item.nodeid)
    try:
        yield
    finally:  # after a test that fails, too: else every set-up after it would count as that test's
        running.clear()


register_profiles()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """How many tests of each kind there were, and how long they took all together (workers share that); and, last of
    all, why the first try failed of each that had two, so that somebody can mend it."""
    yield
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, set[str]] = defaultdict(set)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[kind_of(report.nodeid)] += report.duration
                tests[kind_of(report.nodeid)].add(report.nodeid)
    for kind in tests:
        terminalreporter.write_line(f"{kind:<10}{len(tests[kind]):>5} tests {seconds[kind]:>6.0f} s of work")
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.write_sep("_", f"failed once and was tried again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Every process has a test database of its own, a copy of one that was migrated."""
    with django_db_blocker.unblock():
        connection.settings_dict["TEST"]["TEMPLATE"] = run_once.migrated_template()


@pytest.fixture(scope="session")
def migrated_dump(django_db_blocker: DjangoDbBlocker) -> Path:
    """The dump that `run_once.migrated_dump` makes."""
    with django_db_blocker.unblock():
        return run_once.migrated_dump()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongestFirst:
    config.option.loadscopereorder = False
    return LongestFirst(config, log)


OF_MIGRATIONS = {"django_migrations", "django_content_type", "auth_permission"}


def delete_committed_rows(_: TransactionTestCase) -> None:
    """What Django's flush does for a test that commits, a hundred times faster: most tables have nothing to delete."""
    tables = sorted(set(connection.introspection.django_table_names(only_existing=True)) - OF_MIGRATIONS)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in tables))
        filled = [table for (table,) in cursor.fetchall()]
        cursor.execute("SET LOCAL session_replication_role = replica")  # no trigger keeps what must not change
        for table in filled:
            cursor.execute(f"DELETE FROM {table}")
        cursor.execute("SELECT pg_advisory_unlock_all()")  # the session goes on, its locks do not


@pytest.fixture(scope="session", autouse=True)
def quick_flush() -> Iterator[None]:
    """A test that commits does not end its database session either: what the server has prepared for it stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", delete_committed_rows)
        patch.setattr(TransactionTestCase, "_should_reload_connections", lambda _: False)
        yield


@pytest.fixture(scope="session", autouse=True)
def processes_have_their_kind() -> Iterator[None]:
    """A test that starts a process is of another kind than `unit`: tests/scheduling.py says which."""
    start = Popen.__init__

    def refuse_or_start(self: Popen[Any], args: Any, *others: Any, **named: Any) -> None:
        if running and kind_of(running[0]) == "unit":
            program = PurePath(fsdecode(args if isinstance(args, str | bytes | PathLike) else args[0])).name
            assert program in POSTGRESQL_PROGRAMS, f"{running[0]} starts {program}: it is no unit test"
        start(self, args, *others, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Popen, "__init__", refuse_or_start)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_savepoints() -> Iterator[None]:
    with savepoints_without_cursors():
        yield


@pytest.fixture(scope="session", autouse=True)
def built_in_plugins_alone() -> Iterator[None]:
    """A memory plugin that somebody installed for themselves is no part of what is tested."""
    with hidden_packages():
        yield


@pytest.fixture(scope="session", autouse=True)
def caches_without_clocks() -> Iterator[None]:
    """Keeps the caches' clocks still: however slow the machine is, no statement comes again because seconds have
    passed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spaces, "SPACE_CACHE_SECONDS", math.inf)
        patch.setattr(candidates, "STATISTICS_CACHE_SECONDS", math.inf)
        yield


@pytest.fixture(scope="session")
def listeners_stop_soon() -> Iterator[None]:
    """Stops listeners soon, so that no test waits for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub, "STOP_CHECK_SECONDS", 0.02)
        yield


@pytest.fixture(autouse=True)
def listeners_have_left(listeners_stop_soon: None) -> Iterator[None]:
    """The threads behind event streams end a moment after the last stream, and their database connections with them."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("event-"):
            thread.join(10)
            assert not thread.is_alive(), f"{thread.name} goes on without a stream"


@pytest.fixture(scope="module")
def module_transaction(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A transaction around what a module makes once and its tests (marked `django_db`) read: taken back after the last
    of them."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def ana(db: None) -> Member:
    """Owns the workspace."""
    return factories.make_member("Ana")


@pytest.fixture
def ben(ana: Member) -> Member:
    """A guest: reads only what he was added to."""
    return factories.make_member("Ben", ana.workspace, role="guest")


@pytest.fixture
def dora(ana: Member) -> Member:
    """An ordinary member."""
    return factories.make_member("Dora", ana.workspace)


@pytest.fixture
def cleo(db: None) -> Member:
    """A stranger: owns another workspace."""
    return factories.make_member("Cleo")


@pytest.fixture
def channel(ana: Member) -> Channel:
    return factories.make_channel(ana)


@pytest.fixture
def thread(ana: Member, channel: Channel) -> Thread:
    return factories.make_thread(channel, ana)


@pytest.fixture
def vibe(ana: Member, channel: Channel) -> Agent:
    """An L2 agent that was added to the channel."""
    return factories.make_agent(ana, "vibe", channel=channel)


@pytest.fixture
def fake_embedder() -> Iterator[FakeEmbedder]:
    """The embedder behind every endpoint."""
    FAKE.begin_anew()
    with replaced(ENDPOINT_EMBEDDER, embedder_for):
        yield FAKE
    clear_space_cache()

"""The cast, for every test that asks for it."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from agents.models import Agent
from openvibe.chat.models import Channel, Thread
from openvibe.search.spaces import ENDPOINT_EMBEDDER, clear_space_cache
from openvibe.workspaces.models import Member
from tests import factories, run_once
from tests.search.fakes import FAKE, FakeEmbedder, embedder_for


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        run_once.begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        run_once.end()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Every process has a test database of its own, a copy of one that was migrated."""
    with django_db_blocker.unblock():
        connection.settings_dict["TEST"]["TEMPLATE"] = run_once.migrated_template()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`-n 2` keeps tests together that share what is dear to set up."""
    from tests.scheduling import Together

    return Together(config, log)


@pytest.fixture(autouse=True)
def listeners_have_left() -> Iterator[None]:
    """The threads behind event streams end a moment after the last stream, and their database connections with them."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("event-"):
            thread.join(10)
            assert not thread.is_alive(), f"{thread.name} goes on without a stream"


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
    with ENDPOINT_EMBEDDER.replaced(embedder_for):
        yield FAKE
    clear_space_cache()

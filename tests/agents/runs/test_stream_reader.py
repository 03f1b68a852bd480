"""A model's stream is read in a thread of its own, which leaves nothing behind."""

import threading
from collections.abc import Iterator

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from agents.runs.stream_reader import StreamEvent, iter_with_timeout
from openvibe.engines.llm.errors import AuthRefused
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.values import TextDelta
from openvibe.workspaces.models import Member


@pytest.mark.parametrize("words", [(), ("In", " March")])
def test_the_thread_gives_its_database_session_back(ana: Member, words: tuple[str, ...]) -> None:
    """The breaker of an endpoint that fails counts that in the database."""
    sessions: list[BaseDatabaseWrapper] = []

    def stream() -> Iterator[StreamEvent]:
        yield from map(TextDelta, words)
        Endpoint.objects.update(failures=1)
        sessions.append(connections["default"])
        raise AuthRefused("The endpoint refused the key.")

    with pytest.raises(AuthRefused):
        list(iter_with_timeout(stream))
    for reader in threading.enumerate():
        if reader.name == "model-stream":
            reader.join(10)
    (session,) = sessions
    assert session is not connections["default"]
    assert session.connection is None

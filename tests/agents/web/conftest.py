"""A thread with an answered question, and people signed in to look at it."""

import pytest

from agents.models import Agent, Run
from agents.runs.executor import execute_run
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.factories import say


@pytest.fixture
def answered(db: None, vibe: Agent, thread: Thread, ana: Member) -> Run:
    """Ana asked, Vibe answered (offline)."""
    say(thread, ana, "We prune the apple trees in late February.")
    message = say(thread, ana, "@vibe when do we prune the apple trees?")
    run = Run.objects.get(trigger=message)
    execute_run(run.pk)
    run.refresh_from_db()
    assert run.state == "done", run.error
    return run

"""A thread as an agent sees it, short or long."""

from __future__ import annotations

import pytest

from agents.models import Agent
from memory.plugins.base import Session
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.memory.plugins.lcm.compactions import TEXT
from tests.memory.plugins.lcm.factories import session_of, told_in_turns


@pytest.fixture
def session(thread: Thread, vibe: Agent) -> Session:
    return session_of(thread, vibe.participant)


@pytest.fixture
def long(thread: Thread, ana: Member, vibe: Agent) -> Thread:
    """Sixty messages, well over the budget."""
    told_in_turns(thread, vibe.participant, ana.participant, *(f"{at}. {TEXT * 4}" for at in range(60)))
    return thread

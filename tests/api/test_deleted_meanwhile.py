"""What somebody else takes away between looking it up and changing it is not there: no fault of ours."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from agents.models import Agent
from memory.episodes.models import Episode
from openvibe.chat.models import Message, Reaction, Thread
from openvibe.webhooks.models import Webhook
from openvibe.workspaces.models import Member
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter
from tests.factories import say


@pytest.fixture
def api(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


def taken_away_before(is_the_moment: Callable[[str], bool], take_away: Callable[[], object]) -> Any:
    """A context in which `take_away` happens before the first statement of its kind."""
    is_pending = True

    def run(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        nonlocal is_pending
        if is_pending and is_the_moment(sql):
            is_pending = False
            take_away()
        return execute(sql, *more)

    return connection.execute_wrapper(run)


def reads_committed(table: str) -> Callable[[str], bool]:
    """What is read after a change has ended: its savepoint is gone."""
    has_ended = False

    def is_the_moment(sql: str) -> bool:
        nonlocal has_ended
        has_ended = has_ended or sql.startswith("RELEASE SAVEPOINT")
        return has_ended and sql.startswith("SELECT") and f'FROM "{table}"' in sql

    return is_the_moment


def locks(table: str) -> Callable[[str], bool]:
    return lambda sql: sql.startswith("SELECT") and f'FROM "{table}"' in sql and "FOR UPDATE" in sql


def test_feedback_that_was_taken_back(api: Api, ana: Member, vibe: Agent, thread: Thread) -> None:
    message = Message.objects.create(thread=thread, author=vibe.participant, body="In spring.")
    api.post("feedback/", {"message": message.pk, "verdict": "down", "text": "Name the month"})
    episode = Episode.objects.get()
    with taken_away_before(locks("memory_episode"), lambda: Episode.objects.all().delete()):
        assert is_problem(api.post(f"episodes/{episode.pk}/applied/"), 404, "not_found")


def test_a_webhook_that_was_deleted(api: Api, ana: Member) -> None:
    data = api.post("webhooks/", {"url": "https://hooks.example.com/garden", "kinds": ["mention"]}).json()
    with taken_away_before(locks("webhooks_webhook"), lambda: Webhook.objects.all().delete()):
        assert is_problem(api.post(f"webhooks/{data['id']}/rotate/"), 404, "not_found")


def test_a_reaction_that_was_taken_back(api: Api, ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "Friday?")
    with taken_away_before(reads_committed("chat_reaction"), lambda: Reaction.objects.all().delete()):
        added = api.post(f"messages/{message.pk}/reactions/", {"emoji": "👍"})
    assert (added.status_code, added.json()["emoji"]) == (201, "👍")

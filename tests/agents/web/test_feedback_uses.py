"""The page of what one piece of feedback changed: in which prompts it stands, and who may read that."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.agent.services import apply_feedback_always
from agents.agent.soul.rules import SoulRule
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from memory.episodes.models import Episode
from memory.episodes.services import give_feedback
from openvibe.chat.models import Channel, Thread
from openvibe.workspaces.models import Member
from tests.factories import access, say, signed_in


@pytest.fixture
def feedback(answered: Run, dora: Member) -> Episode:
    """Dora's reason on Vibe's answer."""
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(dora), verdict="down", text="Never invent a month.")
    return Episode.objects.get(kind="feedback_received")


def address(episode: Episode) -> str:
    return f"/w/{episode.agent.workspace.slug}/agents/{episode.agent.handle}/feedback/{episode.pk}/"


def text_of(client: Client, episode: Episode) -> str:
    return " ".join(client.get(address(episode)).text.split())


def ask(thread: Thread, by: Member, count: int = 1) -> list[Run]:
    runs = []
    for _ in range(count):
        runs.append(Run.objects.get(trigger=say(thread, by, "@vibe and the pears?")))
        execute_run(runs[-1].pk)
        runs[-1].refresh_from_db()
    return runs


def test_it_names_the_answers_that_were_written_with_it(
    ana: Member, feedback: Episode, answered: Run, vibe: Agent, thread: Thread
) -> None:
    client = signed_in(ana)
    assert "None yet. Ask <bdi>Vibe</bdi> again" in text_of(client, feedback)
    (run,) = ask(thread, ana)
    page = text_of(client, feedback)
    assert "<bdi>Vibe</bdi> reads it before each answer." in page
    assert f"/runs/{run.pk}/context/" in page
    assert f"/runs/{answered.pk}/context/" not in page, "it was given after that one"
    chip = client.get(f"/w/{ana.workspace.slug}/t/{thread.pk}/").text
    assert f'href="{address(feedback)}" data-panel>What it changed</a>' in chip
    apply_feedback_always(
        agent=vibe,
        by=access(ana),
        feedback=[feedback.pk],
        rule=SoulRule("never", "invent a month"),
        note="Dora is right",
        based_on=1,
    )
    assert "It is a rule of <bdi>Vibe</bdi>’s SOUL since" in text_of(client, feedback)


def test_newer_feedback_takes_its_room(ana: Member, feedback: Episode, thread: Thread) -> None:
    for run in ask(thread, ana, 5):
        assert run.reply is not None
        give_feedback(message=run.reply, by=access(ana), verdict="down", text="Shorter.")
    assert "newer feedback takes the room" in text_of(signed_in(ana), feedback)


def test_admins_and_who_gave_it_read_it(
    ana: Member, ben: Member, dora: Member, feedback: Episode, thread: Thread, channel: Channel
) -> None:
    assert signed_in(dora).get(address(feedback)).status_code == 200
    assert signed_in(ben).get(address(feedback)).status_code == 404
    assert signed_in(ana).get(address(feedback).replace("/vibe/", "/nobody/")).status_code == 404


def test_many_answers_take_as_many_statements_as_one(ana: Member, feedback: Episode, thread: Thread) -> None:
    client = signed_in(ana)
    counts = []
    for count in (1, 2):
        ask(thread, ana, count)
        client.get(address(feedback))
        with CaptureQueriesContext(connection) as queries:
            client.get(address(feedback))
        counts.append(len(queries))
    assert counts[0] == counts[1]

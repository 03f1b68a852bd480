"""Verdicts on one answer that are given and taken back at the same moment."""

from functools import partial

import pytest
from django.db.models import Q

from agents.models import Agent
from memory.episodes.models import Episode, Feedback
from memory.episodes.services import delete_episode, give_feedback, withdraw_feedback
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member
from tests.concurrency import at_once
from tests.factories import access


@pytest.mark.django_db(transaction=True)
def test_verdicts_at_once_leave_one_and_what_belongs_to_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    answers = [Message.objects.create(thread=thread, author=vibe.participant, body=f"Answer {n}") for n in range(8)]
    came = set()
    for answer in answers:
        give_feedback(message=answer, by=access(ana), verdict="up")
        give = partial(give_feedback, message=answer, by=access(ana))
        withdraw = partial(withdraw_feedback, message=answer, by=access(ana))
        came.update(at_once(partial(give, verdict="up"), partial(give, verdict="down"), withdraw, withdraw))

    assert came == {"done"}
    in_prompts = Episode.objects.filter(kind="feedback_received", applied_at=None)
    assert in_prompts.count() == Feedback.objects.filter(verdict="down").count()
    assert not in_prompts.filter(~Q(feedback__verdict="down")).exists()
    assert Episode.objects.filter(kind="task_completed").count() == Feedback.objects.filter(verdict="up").count()


def test_what_was_taken_back_meanwhile_can_be_deleted(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    answer = Message.objects.create(thread=thread, author=vibe.participant, body="Answer")
    give_feedback(message=answer, by=access(dora), verdict="down")
    as_seen = Episode.objects.get()
    withdraw_feedback(message=answer, by=access(dora))

    delete_episode(episode=as_seen, by=access(ana))

    assert not Episode.objects.exists()

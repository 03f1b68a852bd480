"""Failures of endpoints that older versions kept as an agent's memory leave its prompts; all else stays."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Agent
from memory.models import Episode
from openvibe.chat.models import Thread
from tests.databases import convert_rows
from tests.memory.factories import EpisodeFactory

OUTAGES = (
    "An answer failed: The endpoint did not accept the request (HTTP 400). It says: Jinja Exception: roles alternate.",
    "An answer failed: The endpoint knows no such address or model (HTTP 404).",
    "An answer failed: The prompt is longer than the model takes. It says: maximum context length is 4096 tokens.",
    "An answer failed: The model called a tool without naming it. Try again.",
)
ABOUT_TASKS = (
    "An answer failed: The model answered nothing. Try again.",
    "An answer failed: The provider's content filter held the answer back. Put the request in other words.",
    "The endpoint of the price list could not be read.",
    "The model did not answer.",
)


@pytest.mark.django_db
def test_only_failures_of_endpoints_are_archived(vibe: Agent, thread: Thread) -> None:
    deactivated = timezone.now() - timedelta(days=1)
    for number, summary in enumerate((*OUTAGES, *ABOUT_TASKS)):
        EpisodeFactory.create(
            agent=vibe.participant, kind="task_failed", summary=summary, thread=thread, channel=thread.channel,
            archived_at=deactivated if number == 0 else None,
        )  # fmt: skip
    learned = EpisodeFactory.create(agent=vibe.participant, kind="learning_acquired", summary=OUTAGES[0])
    convert_rows("memory", "0008_archive_endpoint_failures")
    standing = Episode.objects.of(vibe.participant)
    assert set(standing.values_list("summary", flat=True)) == {*ABOUT_TASKS, learned.summary}
    assert not Episode.objects.filter(archived_at=deactivated).exists(), "it does not come back with its agent"

"""The question after publishing, by whatever door: should the result be workspace knowledge?"""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from agents.models import Agent
from knowledge.models import Entry
from knowledge.services import accept_entry, pin_result
from openvibe.chat.models import Channel, Dive, Message, Thread
from openvibe.chat.services import publish_dive, start_dive
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_entry, say

RESULT = ResultDraft("Pricing moves to three tiers", ("Starter is 9 euros.", "Team is 29.", "Nobody pays twice."), "")
QUESTION = "Should I add this to workspace knowledge under “Pricing”?"


@pytest.fixture
def dive(ana: Member, thread: Thread) -> Dive:
    sage = make_agent(ana, "sage", level=2, channel=thread.channel)
    return start_dive(source=say(thread, ana, "What should it cost?"), by=access(ana), agent=sage.participant)


@pytest.fixture
def pricing(ana: Member) -> Entry:
    return make_entry(ana, topic="Pricing", content="Everything costs 12 euros.")


def question() -> Entry:
    return Entry.objects.get(client_id__startswith="published-")


def published(dive: Dive, by: Member) -> Message:
    return publish_dive(dive=dive, by=access(by), result=RESULT)


def shown(client: Client, thread: Thread) -> str:
    return client.get(reverse("thread", args=[thread.workspace.slug, thread.pk])).content.decode()


@pytest.fixture
def signed_in_ana(ana: Member) -> Client:
    client = Client()
    client.force_login(ana.user)
    return client


def test_it_is_asked_under_the_topic_that_the_workspace_has(
    ana: Member, dive: Dive, thread: Thread, pricing: Entry, signed_in_ana: Client
) -> None:
    message = published(dive, ana)
    entry = question()
    assert (entry.status, entry.topic, entry.source_message_id) == ("proposed", "Pricing", message.pk)
    assert (entry.author_id, entry.owner_id) == (dive.agent_id, ana.participant_id)
    assert entry.content.startswith("Pricing moves to three tiers\n\n- Starter is 9 euros.")
    assert QUESTION in shown(signed_in_ana, thread)
    review = signed_in_ana.get(reverse("knowledge-review", args=[ana.workspace.slug])).content.decode()
    assert QUESTION in review


def test_without_such_a_topic_the_headline_is_the_topic(ana: Member, dive: Dive) -> None:
    published(dive, ana)
    assert question().topic == RESULT.headline


def test_one_click_in_the_thread_adds_it(
    ana: Member, dive: Dive, thread: Thread, pricing: Entry, signed_in_ana: Client
) -> None:
    published(dive, ana)
    address = reverse("knowledge-act", args=[ana.workspace.slug, question().pk, "accept"])
    answer = signed_in_ana.post(address, {"from": "thread"}, headers={"HX-Request": "true"}).content.decode()
    assert "Added to workspace knowledge under" in answer
    assert question().status == "active"
    page = shown(signed_in_ana, thread)
    assert QUESTION not in page
    assert "Pinned as <bdi>Pricing</bdi>" in page


def test_declined_is_remembered(ana: Member, dive: Dive, thread: Thread, pricing: Entry, signed_in_ana: Client) -> None:
    message = published(dive, ana)
    address = reverse("knowledge-act", args=[ana.workspace.slug, question().pk, "reject"])
    answer = signed_in_ana.post(address, {"from": "thread"}, headers={"HX-Request": "true"}).content.decode()
    assert "You are not asked again" in answer
    assert QUESTION not in shown(signed_in_ana, thread)
    again = start_dive(source=message, by=access(ana), agent=dive.agent)
    published(again, ana)
    assert Entry.objects.filter(status="proposed").count() == 0, "the same was declined"
    assert Entry.objects.filter(client_id__startswith="published-").count() == 1


def test_the_same_words_are_asked_about_once_in_each_place(ana: Member, dive: Dive, thread: Thread) -> None:
    """The first of three results with the same words asks; in a place that others cannot see it is another question."""
    message = published(dive, ana)
    published(start_dive(source=message, by=access(ana), agent=dive.agent), ana)
    assert Entry.objects.filter(status="proposed").count() == 1
    Channel.objects.filter(pk=thread.channel_id).update(is_private=True)
    published(start_dive(source=Message.objects.get(pk=message.pk), by=access(ana), agent=dive.agent), ana)
    assert sorted(Entry.objects.filter(status="proposed").values_list("visibility", flat=True)) == [
        "restricted",
        "shared",
    ]


def test_what_holds_word_for_word_is_not_asked_about(ana: Member, dive: Dive) -> None:
    message = published(dive, ana)
    accept_entry(entry=question(), by=access(ana))
    published(start_dive(source=message, by=access(ana), agent=dive.agent), ana)
    assert not Entry.objects.filter(status="proposed").exists()


def test_whoever_pins_it_by_hand_is_not_asked_any_more(ana: Member, dive: Dive, pricing: Entry) -> None:
    message = published(dive, ana)
    pin_result(message=message, by=access(ana), topic="Prices", content="Three tiers.")
    assert question().status == "archived"


def test_an_agent_that_was_put_down_asks_through_whoever_published(ana: Member, dive: Dive, pricing: Entry) -> None:
    Agent.objects.filter(participant=dive.agent).update(level=1)
    published(Dive.objects.get(pk=dive.pk), ana)
    assert question().author_id == ana.participant_id

"""What an agent may propose for the workspace's knowledge, and what it may look up there."""

import json

import pytest

from agents.models import Agent, Run
from agents.tools.toolbox import Toolbox
from agents.tools.values import Decision
from knowledge.models import Entry, Notice
from knowledge.services import reject_entry
from openvibe.chat.models import Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests.agents.tools.calls import call, written
from tests.factories import access, make_agent, make_channel, make_entry, make_thread, say

PRICES = {"topic": "Prices", "content": "Starter costs $29.", "why": "It was decided here."}


@pytest.fixture
def asked(ana: Member, vibe: Agent, thread: Thread) -> Run:
    return Run.objects.get(trigger=say(thread, ana, "@vibe what does Starter cost?"))


def box_of(run: Run) -> Toolbox:
    return Toolbox.of(run.agent, run.thread, run=run)


def test_a_proposal_waits_for_whoever_asked(ana: Member, asked: Run) -> None:
    outcome = box_of(asked).carry(call("knowledge_suggest", kind="decision", **PRICES))

    entry = Entry.objects.get()
    assert outcome.result == f"knowledge:{entry.pk} is proposed under “Prices”. @ana decides on it."
    assert (entry.status, entry.source, entry.kind) == ("proposed", "suggestion", "decision")
    assert (entry.author, entry.owner) == (asked.agent.participant, ana.participant)
    assert (entry.source_message, entry.source_thread) == (asked.trigger, asked.thread)
    assert entry.reason_note == "It was decided here."
    assert not Entry.objects.holding().exists()  # type: ignore[attr-defined]
    assert Notice.objects.get().participant == ana.participant


def test_the_same_proposal_twice_in_a_run_is_one(ana: Member, asked: Run) -> None:
    first = box_of(asked).carry(call("knowledge_suggest", **PRICES))
    assert box_of(asked).carry(call("knowledge_suggest", **PRICES)) == first

    reject_entry(entry=Entry.objects.get(), by=access(ana))

    again = box_of(asked).carry(call("knowledge_suggest", **PRICES))
    assert "was decided already: archived" in again.result
    assert Entry.objects.count() == 1


def test_what_is_said_among_few_is_proposed_to_few(ana: Member) -> None:
    secret = make_thread(make_channel(ana, "secret", private=True), ana)
    sage = make_agent(ana, "sage", channel=secret.channel)
    run = Run.objects.get(trigger=say(secret, ana, "@sage the price is $12"), agent=sage)

    box_of(run).carry(call("knowledge_suggest", **PRICES))

    assert Entry.objects.get().visibility == "restricted"


def test_a_deleted_question_is_no_source(ana: Member, asked: Run) -> None:
    delete_message(message=asked.trigger, by=access(ana))
    asked.refresh_from_db()

    box_of(asked).carry(call("knowledge_suggest", **PRICES))

    assert Entry.objects.get().source_message is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"kind": "rumour"}, "A kind is one of fact"),
        ({"expires_at": "2020-01-01"}, "is past"),
        ({"expires_at": "tomorrow"}, "no date that exists"),
        ({"topic": "\n"}, "An entry needs a topic"),
        ({"topic": "x" * 121}, "at most 120 fit"),
        ({"content": "so many words " * 2_000}, "at most 2,000 tokens"),
        ({"supersedes": 987_654_321}, "There is no entry knowledge:987654321 for you"),
        ({"supersedes": 10**30}, "There is no entry"),
        ({"why": 3}, "why must be of type string"),
    ],
)
def test_a_bad_proposal_is_refused_in_words(asked: Run, more: dict[str, object], said: str) -> None:
    outcome = box_of(asked).carry(written("knowledge_suggest", json.dumps({**PRICES, **more})))

    assert outcome.decision == Decision.REFUSED
    assert said in outcome.result
    assert not Entry.objects.exists()


def test_an_observer_proposes_nothing(ana: Member, thread: Thread) -> None:
    watcher = make_agent(ana, "watcher", level=1, channel=thread.channel)
    outcome = Toolbox.of(watcher, thread).carry(call("knowledge_suggest", **PRICES))

    assert outcome.decision == Decision.REFUSED
    assert not Entry.objects.exists()


def test_what_an_agent_may_not_read_it_cannot_supersede(ana: Member, asked: Run) -> None:
    entry = make_entry(ana, "Prices")

    outcome = box_of(asked).carry(call("knowledge_suggest", **PRICES, supersedes=entry.pk))

    assert "There is no entry" in outcome.result


def test_an_operator_proposes_in_the_place_of_what_it_reads(ana: Member, thread: Thread) -> None:
    entry = make_entry(ana, "Prices", "Starter costs $19.")
    sage = make_agent(ana, "sage", level=3)
    run = Run.objects.get(trigger=say(thread, ana, "@sage it is $29 now"), agent=sage)

    box_of(run).carry(call("knowledge_suggest", **PRICES, supersedes=entry.pk))

    assert Entry.objects.get(status="proposed").supersedes == entry
    entry.refresh_from_db()
    assert entry.status == "active"

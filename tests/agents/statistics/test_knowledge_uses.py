"""The uses of knowledge: once a run, whatever happens at once, and shown to whoever sees the run."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from agents.agent.access import visible_to
from agents.models import Agent, KnowledgeUse, Run
from agents.statistics.knowledge_uses import MAX_USES_SHOWN, entry_uses, recent_entry_uses, record_uses
from knowledge.models import Entry
from openvibe.base.models import Event
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_channel, make_thread, say


def known(by: Member, topic: str = "Pruning") -> Entry:
    person = by.participant
    return Entry.objects.create(
        workspace=by.workspace, topic=topic, content="In late February.", tokens=5, author=person, owner=person
    )


def asked(thread: Thread, by: Member, agent: Agent) -> Run:
    return Run.objects.get(trigger=say(thread, by, f"@{agent.handle} when?"), agent=agent)


def test_an_entry_counts_once_a_run_however_it_came(ana: Member, vibe: Agent, thread: Thread) -> None:
    entry, run = known(ana), asked(thread, ana, vibe)

    assert record_uses(run=run, entry_ids=[entry.pk, entry.pk], how="prompt") == 1
    assert record_uses(run=run, entry_ids=[entry.pk], how="tool") == 0

    entry.refresh_from_db()
    assert (entry.use_count, KnowledgeUse.objects.get().how) == (1, "prompt")
    assert entry.last_used_at is not None
    assert entry.version == 1


def test_another_run_counts_again(ana: Member, vibe: Agent, thread: Thread) -> None:
    entry, other = known(ana), known(ana, "Watering")
    record_uses(run=asked(thread, ana, vibe), entry_ids=[entry.pk], how="prompt")
    second = asked(thread, ana, vibe)
    assert record_uses(run=second, entry_ids=[entry.pk, other.pk], how="tool") == 2

    entry.refresh_from_db()
    other.refresh_from_db()
    assert (entry.use_count, other.use_count) == (2, 1)


def test_what_is_unknown_or_of_another_workspace_does_not_count(
    ana: Member, cleo: Member, vibe: Agent, thread: Thread
) -> None:
    theirs, run = known(cleo), asked(thread, ana, vibe)

    assert record_uses(run=run, entry_ids=[theirs.pk, 987_654_321], how="tool") == 0
    assert record_uses(run=run, entry_ids=[], how="tool") == 0

    theirs.refresh_from_db()
    assert (theirs.use_count, theirs.last_used_at) == (0, None)


def test_being_used_is_no_change_of_the_entry(ana: Member, vibe: Agent, thread: Thread) -> None:
    entry, run = known(ana), asked(thread, ana, vibe)
    before = Event.objects.filter(kind="knowledge_changed").count()

    record_uses(run=run, entry_ids=[entry.pk], how="prompt")

    assert Event.objects.filter(kind="knowledge_changed").count() == before


@pytest.mark.django_db(transaction=True)
def test_runs_that_use_the_same_entries_at_once_lose_no_count(ana: Member, vibe: Agent, thread: Thread) -> None:
    entries = [known(ana, f"Topic {n}").pk for n in range(12)]
    runs = [asked(thread, ana, vibe) for _ in range(4)]
    start = Barrier(len(runs))

    def use(number: int) -> int:
        try:
            start.wait(20)
            return record_uses(run=runs[number], entry_ids=entries[:: 1 if number % 2 else -1], how="prompt")
        finally:
            connection.close()

    with ThreadPoolExecutor(len(runs)) as workers:
        assert list(workers.map(use, range(len(runs)))) == [12] * 4

    assert set(Entry.objects.values_list("use_count", flat=True)) == {4}


def test_uses_are_shown_to_whoever_sees_the_run(
    ana: Member, dora: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    entry = known(ana)
    secret = make_thread(make_channel(ana, "secret", private=True), ana, "Prices")
    sage = make_agent(ana, "sage", level=3, channel=secret.channel)
    open_run, closed_run = asked(thread, ana, vibe), asked(secret, ana, sage)
    for run in (open_run, closed_run):
        record_uses(run=run, entry_ids=[entry.pk], how="prompt")

    def runs(seen: tuple[object, ...]) -> list[int]:
        return [use.run_id for use in seen]  # type: ignore[attr-defined]

    assert runs(recent_entry_uses(entry, access(ana))) == [closed_run.pk, open_run.pk]
    assert runs(recent_entry_uses(entry, access(dora))) == [open_run.pk]
    assert runs(recent_entry_uses(entry, access(ben))) == []
    assert [use.run_id for use in entry_uses(entry, visible_to(sage))] == [closed_run.pk]


def test_a_use_says_who_where_and_how(ana: Member, vibe: Agent, thread: Thread) -> None:
    entry, run = known(ana), asked(thread, ana, vibe)
    record_uses(run=run, entry_ids=[entry.pk], how="tool")

    (use,) = recent_entry_uses(entry, access(ana))

    assert (use.agent, use.thread_title, use.message_id) == (vibe.participant, thread.title, run.trigger_id)
    assert (use.how, use.task) == ("tool", "Mention")


def test_many_uses_cost_one_query_and_a_bounded_list(
    ana: Member, vibe: Agent, thread: Thread, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    entry, first = known(ana), asked(thread, ana, vibe)
    triggers = [say(thread, ana, f"Note {n}") for n in range(MAX_USES_SHOWN + 3)]
    runs = Run.objects.bulk_create(
        Run(
            workspace=ana.workspace,
            agent=vibe,
            thread=thread,
            trigger=trigger,
            requested_by=ana.participant,
            task="mention",
            state="done",
        )
        for trigger in triggers
    )
    for run in [first, *runs]:
        record_uses(run=run, entry_ids=[entry.pk], how="prompt")

    with django_assert_num_queries(2):
        uses = recent_entry_uses(entry, access(ana))

    assert len(uses) == MAX_USES_SHOWN
    assert uses[0].run_id == runs[-1].pk

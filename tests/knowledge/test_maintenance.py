"""What the jobs do: at their time, once, and whole or not at all."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from agents.models import Agent
from knowledge.maintenance import archive_unused, expire_entries
from knowledge.models import Entry, Notice, Revision
from knowledge.services import accept_entry, pin_result, renew_entry, restore_entry
from openvibe.chat.models import Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests.factories import access, make_entry, make_suggestion, say
from tests.knowledge.fault_injection import killed_at

LONG_AGO = timedelta(days=91)


def how_it_stands() -> list[tuple[object, ...]]:
    entries = Entry.objects.order_by("pk").values_list("pk", "status", "reason", "version", "revisions__number")
    return [*entries, *Notice.objects.order_by("pk").values_list("participant", "entry", "reason")]


def test_expired_entries_wait_for_review_and_their_owner_is_told_once(ana: Member, dora: Member) -> None:
    now = timezone.now()
    over, later, never = (
        make_entry(dora, topic, expires_at=at)
        for topic, at in (("a", now + timedelta(hours=1)), ("b", now + timedelta(days=9)), ("c", None))
    )
    at = now + timedelta(hours=1)

    assert (expire_entries(at - timedelta(microseconds=1)), expire_entries(at), expire_entries(at)) == (0, 1, 0)

    entry = Entry.objects.get(pk=over.pk)
    assert (entry.status, entry.reason, entry.version) == ("needs_review", "expired", 2)
    revision = Revision.objects.get(entry=over, number=2)
    assert (revision.action, revision.by, revision.how) == ("expired", None, "job")
    assert Notice.objects.get().participant_id == dora.participant_id
    assert set(Entry.objects.current(at)) == {later, never}


def test_an_entry_is_out_of_prompts_at_its_instant_without_any_job(ana: Member) -> None:
    at = timezone.now() + timedelta(hours=1)
    make_entry(ana, expires_at=at)

    assert Entry.objects.current(at - timedelta(microseconds=1)).exists()
    assert not Entry.objects.current(at).exists()


def test_what_nobody_used_is_archived(ana: Member) -> None:
    unused, used, young, pinned = (make_entry(ana, topic) for topic in ("unused", "used", "young", "pinned"))
    old = Entry.objects.exclude(pk=young.pk)
    old.update(created_at=timezone.now() - LONG_AGO, last_used_at=None)
    Entry.objects.filter(pk=used.pk).update(last_used_at=timezone.now() - timedelta(days=89))
    Entry.objects.filter(pk=pinned.pk).update(is_pinned=True)

    assert (archive_unused(), archive_unused()) == (1, 0)

    entry = Entry.objects.get(status="archived")
    assert (entry.pk, entry.reason, Notice.objects.get().reason) == (unused.pk, "unused", "unused")
    assert list(entry.revisions.values_list("action", "how")) == [("archived", "job"), ("created", "page")]


def test_use_long_ago_is_no_use(ana: Member) -> None:
    make_entry(ana)
    Entry.objects.update(created_at=timezone.now() - 2 * LONG_AGO, last_used_at=timezone.now() - LONG_AGO, use_count=5)

    assert archive_unused() == 1


@pytest.mark.parametrize("again", ["restored", "renewed"])
def test_what_a_person_brought_back_stays(ana: Member, again: str) -> None:
    entry = make_entry(ana)
    Entry.objects.update(created_at=timezone.now() - LONG_AGO)
    archive_unused()

    if again == "restored":
        restore_entry(entry=entry, by=access(ana))
    else:
        renew_entry(entry=entry, by=access(ana), expires_at=None)

    assert (archive_unused(), archive_unused(timezone.now() + LONG_AGO)) == (0, 1)


def test_an_accepted_suggestion_is_young(ana: Member, vibe: Agent) -> None:
    entry = make_suggestion(vibe)
    Entry.objects.update(created_at=timezone.now() - LONG_AGO)
    assert archive_unused() == 0
    accept_entry(entry=entry, by=access(ana))

    assert archive_unused() == 0


def test_what_loses_its_source_waits_for_review(ana: Member, dora: Member, thread: Thread) -> None:
    message = say(thread, dora, "We ship on Friday.")
    entry = pin_result(message=message, by=access(ana), topic="Shipping", content="Friday")

    delete_message(message=message, by=access(dora))

    entry.refresh_from_db()
    assert (entry.status, entry.reason, entry.content) == ("needs_review", "source_gone", "Friday")
    assert Notice.objects.get().participant_id == ana.participant_id


def test_a_large_backlog_is_worked_off_in_batches(ana: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge.maintenance.BATCH_SIZE", 2)
    for number in range(5):
        make_entry(ana, f"Topic {number}", expires_at=timezone.now() + timedelta(hours=1))

    assert expire_entries(timezone.now() + timedelta(hours=2)) == 5


@pytest.mark.parametrize("job", ["expire", "archive"])
def test_a_killed_job_leaves_all_or_nothing(ana: Member, job: str) -> None:
    later = timezone.now() + timedelta(hours=2)
    for topic in "ab":
        make_entry(ana, topic, expires_at=timezone.now() + timedelta(hours=1) if job == "expire" else None)
    Entry.objects.update(created_at=timezone.now() - LONG_AGO)
    work = partial(expire_entries, later) if job == "expire" else archive_unused
    before, statement = how_it_stands(), 1

    while killed_at(statement, work):
        assert how_it_stands() == before
        statement += 1

    assert statement > 8
    assert Entry.objects.exclude(status="active").count() == 2
    done = how_it_stands()
    work()
    assert how_it_stands() == done

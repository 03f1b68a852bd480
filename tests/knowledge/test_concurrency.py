"""Two people at the same moment: one wins, the other is told, and nothing is stored twice."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from knowledge.exchange.entry_import import import_entries
from knowledge.maintenance import expire_entries
from knowledge.models import Entry, Revision
from knowledge.services import pin_result, supersede_entry, update_entry
from openvibe.chat.models import Message
from tests.concurrency import at_once
from tests.factories import access, make_agent, make_channel, make_entry, make_member, make_suggestion, make_thread

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_result_pinned_twice_at_once_is_pinned_once() -> None:
    ana = make_member("Ana")
    thread = make_thread(make_channel(ana), ana)
    result = Message.objects.create(thread=thread, author=ana.participant, kind="dive_result", body="**B**")

    came = at_once(*[lambda: pin_result(message=result, by=access(ana), topic="Plan", content="B")] * 3)

    assert (came, Entry.objects.count()) == (["already_pinned", "already_pinned", "done"], 1)


def test_the_same_key_at_once_is_one_entry() -> None:
    ana = make_member("Ana")

    came = at_once(*[lambda: make_entry(ana, client_id="k")] * 3)

    assert (came, Entry.objects.count(), Revision.objects.count()) == (["done"] * 3, 1, 1)


def test_the_same_suggestion_at_once_waits_once() -> None:
    vibe = make_agent(make_member("Ana"))

    came = at_once(*[lambda: make_suggestion(vibe)] * 3)

    assert (came, Entry.objects.count(), Revision.objects.count()) == (["done"] * 3, 1, 1)


def test_edits_at_once_from_one_version_leave_one() -> None:
    ana = make_member("Ana")
    entry = make_entry(ana)

    came = at_once(
        lambda: update_entry(entry=entry, by=access(ana), content="One", based_on=1),
        lambda: update_entry(entry=entry, by=access(ana), content="Two", based_on=1),
    )

    assert (came, Entry.objects.get().version) == (["done", "stale"], 2)


def test_entries_that_supersede_each_other_at_once_close_no_circle() -> None:
    ana = make_member("Ana")
    one, other = make_entry(ana), make_entry(ana, content="Other")

    came = at_once(
        lambda: supersede_entry(entry=one, by=access(ana), successor=other),
        lambda: supersede_entry(entry=other, by=access(ana), successor=one),
    )

    assert came.count("done") == 1
    assert sorted(Entry.objects.values_list("status", flat=True)) == ["active", "superseded"]


def test_the_job_twice_at_once_expires_each_entry_once() -> None:
    ana = make_member("Ana")
    for number in range(6):
        make_entry(ana, f"Topic {number}", expires_at=timezone.now() + timedelta(hours=1))
    later = timezone.now() + timedelta(hours=2)

    at_once(lambda: expire_entries(later), lambda: expire_entries(later))

    assert Revision.objects.filter(action="expired").count() == 6


def test_one_file_twice_at_once_and_the_other_way_round_is_imported_once() -> None:
    ana = make_member("Ana")
    rows = [f"Bed {n},Prune rose {n}." for n in range(40)]
    there, back = ("\n".join(("topic,content", *order)).encode() for order in (rows, rows[::-1]))

    came = at_once(*[partial(import_entries, by=access(ana), raw=raw) for raw in (there, back, there)])

    assert (came, Entry.objects.count(), Revision.objects.count()) == (["done"] * 3, 40, 40)

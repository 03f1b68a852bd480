"""The progress log is only ever added to."""

import pytest
from django.db import DatabaseError, transaction

from memory.work.models import ProgressEntry
from memory.work.queries import MAX_PROGRESS_ENTRIES, get_work_state
from memory.work.services import log_progress
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.factories import access


def test_a_line_says_where_the_work_stands(ana: Member, thread: Thread) -> None:
    log_progress(
        thread=thread,
        by=access(ana),
        checkpoint="Beds\ndug",
        changed="Four beds",
        evidence="Photo in #general",
        open_issues="The fifth is under water",
        next_action="Drain it",
    )
    (row,) = get_work_state(thread.pk).progress
    assert (row.checkpoint, row.changed, row.evidence) == ("Beds dug", "Four beds", "Photo in #general")
    assert (row.open_issues, row.next_action, row.author.name) == ("The fifth is under water", "Drain it", "Ana")


def test_no_line_is_changed(ana: Member, thread: Thread) -> None:
    entry = log_progress(thread=thread, by=access(ana), checkpoint="Beds dug")
    with pytest.raises(DatabaseError, match="only_added_to"), transaction.atomic():
        ProgressEntry.objects.filter(pk=entry.pk).update(checkpoint="Everything done")


def test_the_newest_lines_come_first_and_not_all_of_them(ana: Member, thread: Thread) -> None:
    for number in range(MAX_PROGRESS_ENTRIES + 2):
        log_progress(thread=thread, by=access(ana), checkpoint=f"Bed {number}")
    assert [row.checkpoint for row in get_work_state(thread.pk).progress][:2] == ["Bed 6", "Bed 5"]
    assert len(get_work_state(thread.pk).progress) == MAX_PROGRESS_ENTRIES


def test_what_is_refused(ana: Member, cleo: Member, thread: Thread) -> None:
    with pytest.raises(Problem) as empty:
        log_progress(thread=thread, by=access(ana), checkpoint=" ")
    assert empty.value.field == "checkpoint"
    with pytest.raises(Problem) as long:
        log_progress(thread=thread, by=access(ana), checkpoint="Bed", evidence="x" * 2_001)
    assert long.value.field == "evidence"
    with pytest.raises(Missing):
        log_progress(thread=thread, by=access(cleo), checkpoint="Bed")

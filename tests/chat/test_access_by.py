"""`access_by`: one row by a field of its own, among those the asker sees."""

import pytest
from django.db.models import QuerySet

from openvibe.base.problems import Missing
from openvibe.chat.models import Thread, access_by
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.factories import access, make_channel, make_thread


def threads(by: Access) -> QuerySet[Thread]:
    rows: QuerySet[Thread] = Thread.objects.visible_to(by)
    return rows.select_related("created_by")


access_thread = access_by("pk", threads)
access_titled = access_by("title", threads)


def test_it_gives_the_row_with_what_stands_beside_it(ana: Member, thread: Thread) -> None:
    for row in (access_thread(access(ana), thread.pk), access_titled(access(ana), thread.title)):
        assert row == thread
        assert Thread.created_by.is_cached(row)


def test_what_is_not_seen_is_missing_as_what_is_not_there(ana: Member, cleo: Member, thread: Thread) -> None:
    make_thread(make_channel(cleo), cleo, "Grafting")
    for asker, pk, title in ((cleo, thread.pk, thread.title), (ana, thread.pk + 999, "Nothing")):
        with pytest.raises(Missing):
            access_thread(access(asker), pk)
        with pytest.raises(Missing):
            access_titled(access(asker), title)


@pytest.mark.parametrize("pk", [0, -1, 2**63, 10**40])
def test_numbers_that_no_row_has_are_missing(ana: Member, pk: int) -> None:
    with pytest.raises(Missing):
        access_thread(access(ana), pk)


def test_text_that_no_row_can_hold_is_missing(ana: Member) -> None:
    with pytest.raises(Missing):
        access_titled(access(ana), "a\x00b")


def test_where_nothing_can_be_seen_everything_is_missing(ana: Member, thread: Thread) -> None:
    with pytest.raises(Missing):
        access_by("pk", lambda by: Thread.objects.none())(access(ana), thread.pk)


def test_its_statement_is_made_once_for_all_who_may_see_the_same(ana: Member, dora: Member, cleo: Member) -> None:
    callers = []

    def counted(by: Access) -> QuerySet[Thread]:
        callers.append(by)
        return threads(by)

    access_counted = access_by("pk", counted)
    owned = {owner: make_thread(make_channel(owner), owner) for owner in (ana, cleo)}
    for owner, thread in owned.items():
        assert access_counted(access(owner), thread.pk) == thread
    assert len(callers) == 2, "made twice, and compared"
    assert access_counted(access(dora), owned[ana].pk) == owned[ana]
    assert len(callers) == 4, "she is no owner"

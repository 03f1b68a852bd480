"""What a search may answer with is what the querysets say, for whoever asks, whatever holds."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.access import visible_to
from knowledge.filters import EntryScope, filter_current, newest_topics, readable_ids
from knowledge.models import Entry
from knowledge.services import renew_entry
from openvibe.chat.models import Channel, Thread
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_entry, make_suggestion, make_thread

pytestmark = pytest.mark.django_db


@pytest.fixture
def entries(ana: Member, dora: Member, channel: Channel) -> list[Entry]:
    """One of each kind that somebody may not use."""
    helper = make_agent(ana, "helper", level=2, channel=channel)
    closed = make_thread(channel, ana)
    made = [
        make_entry(ana, "Shared"),
        make_entry(ana, "Restricted", visibility="restricted"),
        make_entry(dora, "Dora's"),
        make_entry(ana, "Expiring", expires_at=timezone.now() + timedelta(days=1)),
        make_entry(ana, "From people alone"),
        make_suggestion(helper, "Proposed"),
    ]
    Entry.objects.filter(pk=made[2].pk).update(visibility="restricted")
    Entry.objects.filter(pk=made[4].pk).update(source_thread=closed)
    Thread.objects.filter(pk=closed.pk).update(access=Thread.Access.HUMAN_ONLY)
    return made


@pytest.mark.parametrize("lapsed", [False, True])
@pytest.mark.parametrize("later", [timedelta(0), timedelta(days=2)])
def test_the_compiled_reads_are_those_of_the_querysets(
    ana: Member, dora: Member, cleo: Member, channel: Channel, entries: list[Entry], lapsed: bool, later: timedelta
) -> None:
    now = timezone.now() + later
    agents = [make_agent(ana, f"level{level}", level=level, channel=channel) for level in (3, 4)]
    ids = [entry.pk for entry in entries]
    answers = []
    for by in (access(ana), access(dora), access(cleo), *map(visible_to, agents)):
        plain = filter_current(Entry.objects.visible_to(by), include_expired=lapsed, now=now).filter(pk__in=ids)
        usable = EntryScope(by, now, lapsed)
        assert usable.matching_ids(ids) == sorted(plain.values_list("pk", flat=True))
        assert usable.load(ids) == plain.in_bulk()
        answers.append(usable.matching_ids(ids))
    assert len(set(map(tuple, answers))) == 5, "each of them may use something else"


def test_what_a_prompt_asks_beside_them_are_the_querysets_answers(
    ana: Member, dora: Member, channel: Channel, entries: list[Entry]
) -> None:
    agents = [make_agent(ana, f"level{level}", level=level, channel=channel) for level in (1, 3, 4)]
    now, ids = timezone.now() + timedelta(days=2), [entry.pk for entry in entries]
    for by in (access(ana), access(dora), *map(visible_to, agents)):
        seen = Entry.objects.visible_to(by)
        assert readable_ids(by, ids) == set(seen.values_list("pk", flat=True))
        held = seen.current(now).order_by("-id").values_list("visibility", "kind", "topic")
        assert newest_topics(by, 2, now=now) == list(held[:2])
    assert readable_ids(access(ana), []) == set()


@pytest.mark.parametrize("many", [1, 3])
def test_the_chosen_come_whole_in_one_statement(ana: Member, entries: list[Entry], many: int) -> None:
    renew_entry(entry=entries[0], by=access(ana), expires_at=None)
    usable = EntryScope(access(ana), timezone.now())
    usable.load([])
    with CaptureQueriesContext(connection) as asked:
        found = usable.load([entry.pk for entry in entries[:many]])
        people = [(entry.owner.name, entry.author.name, entry.source_thread) for entry in found.values()]
    assert len(asked) == 1
    assert len(people) == many

"""What a search may answer with is what the querysets say, for whoever asks, whatever holds."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.agent.access import visible_to
from agents.models import Agent
from knowledge.filters import EntryScope, filter_current, newest_topics
from knowledge.models import Entry
from knowledge.services import renew_entry
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services import start_dive
from openvibe.engines.database.prepared_statements import fetch_unprepared
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_channel, make_entry, make_member, make_suggestion, make_thread, say

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def ana(module_transaction: None) -> Member:
    return make_member("Ana")


@pytest.fixture(scope="module")
def dora(ana: Member) -> Member:
    return make_member("Dora", ana.workspace)


@pytest.fixture(scope="module")
def channel(ana: Member) -> Channel:
    return make_channel(ana)


@pytest.fixture(scope="module")
def entries(ana: Member, dora: Member, channel: Channel) -> list[Entry]:
    """One of each kind that somebody may not use."""
    helper = make_agent(ana, "helper", level=2, channel=channel)
    closed, private_thread = make_thread(channel, ana), make_thread(channel, ana, "Listed")
    helper_dive = start_dive(source=say(private_thread, ana, "Why?"), by=access(ana), agent=helper.participant).thread
    new_entries = [
        make_entry(ana, "100 % shared"),
        make_entry(ana, "Restricted", visibility="restricted"),
        make_entry(dora, "Dora's"),
        make_entry(ana, "Expiring", expires_at=timezone.now() + timedelta(days=1)),
        make_entry(ana, "From people alone"),
        make_suggestion(helper, "Proposed"),
        make_entry(ana, "For listed agents"),
        make_entry(ana, "Expired"),
    ]
    Entry.objects.filter(pk=new_entries[6].pk).update(source_thread=helper_dive)
    long_ago = timezone.now() - timedelta(days=1)
    Entry.objects.filter(pk=new_entries[7].pk).update(expires_at=long_ago, status="needs_review", reason="expired")
    Thread.objects.filter(pk__in=(private_thread.pk, helper_dive.pk)).update(access=Thread.Access.AGENT_RESTRICTED)
    Entry.objects.filter(pk=new_entries[2].pk).update(visibility="restricted")
    Entry.objects.filter(pk=new_entries[4].pk).update(source_thread=closed)
    Thread.objects.filter(pk=closed.pk).update(access=Thread.Access.HUMAN_ONLY)
    return new_entries


@pytest.fixture(scope="module")
def agents(ana: Member, channel: Channel, entries: list[Entry]) -> list[Agent]:
    """One of each level, and one that is let into the listed thread."""
    of_levels = [make_agent(ana, f"level{level}", level=level, channel=channel) for level in (1, 2, 3, 4)]
    listed = make_agent(ana, "listed", level=3, channel=channel)
    Thread.objects.get(title="Listed").allowed_agents.add(listed.participant)
    return [*of_levels, listed]


@pytest.mark.parametrize("lapsed", [False, True])
@pytest.mark.parametrize("later", [timedelta(0), timedelta(days=2)])
def test_sql_and_compiled_reads_are_those_of_the_querysets(
    ana: Member, dora: Member, cleo: Member, agents: list[Agent], entries: list[Entry], lapsed: bool, later: timedelta
) -> None:
    now = timezone.now() + later
    ids = [entry.pk for entry in entries]
    answers = []
    for by in (access(ana), access(dora), access(cleo), *map(visible_to, agents)):
        plain = filter_current(Entry.objects.visible_to(by), include_expired=lapsed, now=now)
        scope = EntryScope(by, now, lapsed)
        assert matching_ids(scope) == sorted(plain.values_list("pk", flat=True))
        if matching_ids(scope):
            assert scope.load(ids) == plain.in_bulk()
        filtered = EntryScope(by, now, filtered=plain.filter(topic__contains="%"))
        assert matching_ids(filtered) == [pk for pk in matching_ids(scope) if pk == entries[0].pk]
        held = (
            Entry.objects.visible_to(by).current(now).order_by("-id").values_list("visibility", "kind", "topic", "pk")
        )
        assert newest_topics(by, 2, now=now) == list(held[:2])
        answers.append(matching_ids(scope))
    assert len(set(map(tuple, answers))) == 6, "all but those who may read nothing use something else"


def matching_ids(scope: EntryScope) -> list[int]:
    statement = f"SELECT e.id FROM knowledge_entry e WHERE {scope.condition} ORDER BY e.id"
    return [pk for (pk,) in fetch_unprepared(statement, scope.values)]


@pytest.mark.parametrize("many", [1, 3])
def test_the_chosen_come_whole_in_one_statement(ana: Member, entries: list[Entry], many: int) -> None:
    renew_entry(entry=entries[0], by=access(ana), expires_at=None)
    usable = EntryScope(access(ana), timezone.now())
    usable.load([])
    with CaptureQueriesContext(connection) as queries:
        loaded_entries = usable.load([entry.pk for entry in entries[:many]])
        people = [(entry.owner.name, entry.author.name, entry.source_thread) for entry in loaded_entries.values()]
    assert len(queries) == 1
    assert len(people) == many

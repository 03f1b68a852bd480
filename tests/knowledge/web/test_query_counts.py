"""What pages with knowledge on them ask the database for: the same for one row as for three."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from knowledge.models import Entry
from knowledge.services import flag_entry, pin_result, suggest_entry, update_entry
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.factories import (
    access,
    make_agent,
    make_channel,
    make_entry,
    make_member,
    make_suggestion,
    make_thread,
    say,
    signed_in,
)
from tests.knowledge.factories import ContradictionFactory
from tests.knowledge.web.page_client import text


def one_more(ana: Member, dora: Member, vibe: Agent, thread: Thread, entry: Entry) -> None:
    """A change of the entry, another that contradicts it, one of each kind that pages list, and a message pinned."""
    edited = update_entry(entry=entry, by=access(ana), content=f"{Entry.objects.get(pk=entry.pk).content} Always.")
    other = make_entry(dora, "Pricing", f"Starter costs $30 a month, says {edited.version}.")
    ContradictionFactory.create(
        workspace=entry.workspace, first=edited, second=other, first_version=edited.version, second_version=1, why="no"
    )
    flag_entry(entry=make_entry(ana, f"Hours {edited.version}", "Nine."), by=access(dora), reason="wrong")
    make_suggestion(vibe, f"Pricing {edited.version}", "Pro costs $99.")
    suggest_entry(by=access(dora), topic="Pricing", content=f"$31, says {edited.version}.", supersedes=other)
    message = say(thread, dora, "Pro costs $99 a month.")
    pin_result(message=message, by=access(ana), topic="Pricing", content=f"Pro: $99 ({edited.version}).")


pytestmark = pytest.mark.django_db
PAGES = ("knowledge/?q=pricing", "knowledge/{e}/", "knowledge/review/", "knowledge/new/?topic=Pricing", "", "t/{t}/")


@pytest.fixture(scope="module")
def query_counts(module_transaction: None) -> dict[str, list[int]]:
    """How many queries each page takes with one row of each kind, and with three."""
    olga = make_member("Olga")
    dora, channel = make_member("Dora", olga.workspace), make_channel(olga)
    thread, vibe, entry = make_thread(channel, olga), make_agent(olga, channel=channel), make_entry(olga)
    client = signed_in(olga)
    counts: dict[str, list[int]] = {page: [] for page in PAGES}
    for many in (1, 2):
        for _ in range(many):
            one_more(olga, dora, vibe, thread, entry)
        for page in PAGES:
            address = f"/w/{olga.workspace.slug}/" + page.format(e=entry.pk, t=thread.pk)
            with transaction.atomic():
                text(client, address)
                with CaptureQueriesContext(connection) as queries:
                    assert "Pricing" in text(client, address), page
                transaction.set_rollback(True)  # who looked at the review queue has no notices in her inbox
            counts[page].append(len(queries))
    return counts


@pytest.mark.parametrize("page", PAGES)
def test_three_rows_cost_as_many_queries_as_one(page: str, query_counts: dict[str, list[int]]) -> None:
    one, three = query_counts[page]
    assert one == three

"""Proposed learnings on an agent's page: for admins, with where each was learned."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from memory.episodes.models import Episode, Proposal
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.factories import make_channel, make_thread, signed_in


def propose(agent: Agent, thread: Thread, text: str) -> Proposal:
    return Proposal.objects.create(
        agent=agent.participant,
        thread=thread,
        kind="episode",
        text=text,
        because="Messages 3, 7.",
        since_seq=0,
        upto_seq=9,
    )


def page_of(member: Member, client: Client | None = None) -> str:
    page = (client or signed_in(member)).get(f"/w/{member.workspace.slug}/agents/vibe/")
    assert page.status_code == 200
    return page.content.decode()


def test_an_admin_accepts_rejects_and_undoes(ana: Member, vibe: Agent, thread: Thread) -> None:
    first, second = propose(vibe, thread, "Wants sources."), propose(vibe, thread, "Wants tables.")
    page = page_of(ana)
    assert "Proposed learnings" in page
    assert f'/t/{thread.pk}/?at=3#m-3">{thread.title}</a>' in page
    client, home = signed_in(ana), f"/w/{ana.workspace.slug}/proposals"
    assert client.post(f"{home}/{first.pk}/accept/").status_code == 302
    assert client.post(f"{home}/{second.pk}/reject/").status_code == 302
    assert Episode.objects.get().summary == "Wants sources."
    page = page_of(ana)
    assert "Accepted by Ana" in page
    assert "Rejected by Ana" in page
    assert page.count("/undo/") == 1
    client.post(f"{home}/{first.pk}/undo/")
    assert not Episode.objects.exists()


@pytest.mark.parametrize("verb", ["accept", "reject", "undo"])
def test_nobody_else_sees_or_decides(
    verb: str, ana: Member, dora: Member, ben: Member, cleo: Member, vibe: Agent, thread: Thread
) -> None:
    proposal = propose(vibe, thread, "Wants sources.")
    address = f"/w/{ana.workspace.slug}/proposals/{proposal.pk}/{verb}/"
    assert "Proposed learnings" not in page_of(dora)
    assert signed_in(dora).post(address).status_code == 403
    assert signed_in(ben).post(address).status_code == 404
    assert signed_in(cleo).post(address).status_code == 404
    assert signed_in(cleo).post(address.replace(ana.workspace.slug, cleo.workspace.slug)).status_code == 404
    assert signed_in(ana).get(address).status_code == 405
    assert signed_in(ana).post(address.replace(verb, "burn")).status_code == 404
    assert Proposal.objects.get().state == "proposed"


def test_what_was_learned_where_an_admin_may_not_read_is_only_counted(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    dora.role = "admin"
    dora.save()
    private = make_thread(make_channel(ana, "private", private=True), ana, "Salaries")
    hidden = propose(vibe, private, "Eve earns too little.")
    page = page_of(dora)
    assert "Eve earns" not in page
    assert "Salaries" not in page
    assert "1 more hidden by your access" in page
    assert signed_in(dora).post(f"/w/{ana.workspace.slug}/proposals/{hidden.pk}/accept/").status_code == 404


def test_hostile_text_stays_text(ana: Member, vibe: Agent, thread: Thread) -> None:
    propose(vibe, thread, "<script>alert(1)</script>")
    assert "<script>alert(1)" not in page_of(ana)


def test_the_same_queries_for_one_and_three(ana: Member, vibe: Agent, thread: Thread) -> None:
    propose(vibe, thread, "First")
    client = signed_in(ana)
    page_of(ana, client)
    with CaptureQueriesContext(connection) as one:
        page_of(ana, client)
    propose(vibe, thread, "Second")
    propose(vibe, thread, "Third")
    with CaptureQueriesContext(connection) as three:
        page_of(ana, client)
    assert len(one) == len(three)

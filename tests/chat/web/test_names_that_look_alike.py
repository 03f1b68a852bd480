"""The mark of names that are like another's, where people read it, at the cost of no query."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from openvibe.chat.models import Thread
from openvibe.chat.services import open_direct_messages
from openvibe.workspaces.models import Member, Participant
from tests.factories import access, make_agent, say

MARK = 'title="This name can be taken for somebody else’s. The handle tells them apart.">@{}'


def rename(member: Member, name: str) -> None:
    Participant.objects.filter(pk=member.participant_id).update(name=name)


@pytest.fixture
def pages(ana: Member, ben: Member, thread: Thread, home: str) -> list[str]:
    """A thread, its channel's members, everybody, and direct messages."""
    say(thread, ana, "I am the owner.")
    say(thread, ben, "I approve everything.")
    direct = start_direct(ana, ben)
    return [
        f"{home}t/{thread.pk}/",
        f"{home}c/{thread.channel_id}/members/",
        f"{home}members/",
        f"{home}t/{direct.pk}/",
    ]


def start_direct(by: Member, other: Member) -> Thread:
    thread, _ = open_direct_messages(by=access(by), recipient=other.participant)
    say(thread, other, "Hello.")
    return thread


def test_both_are_marked_wherever_they_stand(
    ana: Member, ben: Member, pages: list[str], signed_in: Callable[[Member], Client]
) -> None:
    browser = signed_in(ana)
    for page in pages:
        html = browser.get(page).content.decode()
        assert "name-handle" not in html, page

    rename(ben, "АNA")
    for page in pages:
        html = browser.get(page).content.decode()
        assert MARK.format("ana") in html, page
        assert MARK.format("ben") in html, page


def test_it_costs_no_query(ana: Member, ben: Member, pages: list[str], signed_in: Callable[[Member], Client]) -> None:
    browser = signed_in(ana)
    counts = []
    for name in ("Ben", "Ana"):
        rename(ben, name)
        for page in pages:
            browser.get(page)
        with CaptureQueriesContext(connection) as queries:
            for page in pages:
                browser.get(page)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_an_agent_of_that_name_is_marked_in_the_sidebar(
    ana: Member, ben: Member, thread: Thread, home: str, signed_in: Callable[[Member], Client]
) -> None:
    make_agent(ana, "ben-2", channel=thread.channel)
    Participant.objects.filter(handle="ben-2").update(name="Ben")
    html = signed_in(ana).get(f"{home}t/{thread.pk}/").content.decode()
    assert MARK.format("ben-2") in html
    assert MARK.format("ben<") in html


def test_who_is_offered_for_a_mention_is_marked(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: Callable[[Member], Client]
) -> None:
    rename(dora, "ana")
    names = signed_in(ana).get(f"{home}t/{thread.pk}/names/?q=a").json()["names"]
    assert [(each["handle"], each["name"], each["label"]) for each in names] == [("dora", "ana", "ana (@dora)")]

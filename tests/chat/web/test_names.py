"""The names that are offered for a mention: asked for as one types, so that no page carries everybody."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from openvibe.chat.models import Thread
from openvibe.chat.web.threads import MAX_NAMES
from openvibe.workspaces.models import Member
from tests.factories import write_members

SignedIn = Callable[[Member], Client]


@pytest.mark.parametrize(
    ("typed", "handles"),
    [
        ("", ["vibe", "dora"]),
        ("v", ["vibe"]),
        ("DO", ["dora"]),
        ("ra", []),
        ("fitz", ["dora"]),  # a word of her name
        ("%", []),
        ("_", []),
        ("\x00\u202e", []),
        ("x" * 10_000, []),
    ],
)
def test_agents_and_people_are_found_by_how_they_begin(
    ana: Member,
    dora: Member,
    vibe: Agent,
    thread: Thread,
    home: str,
    signed_in: SignedIn,
    typed: str,
    handles: list[str],
) -> None:
    dora.participant.name = "Dora Fitzgerald"
    dora.participant.save()
    answer = signed_in(ana).get(f"{home}t/{thread.pk}/names/", {"q": typed}).json()
    assert [name["handle"] for name in answer["names"]] == handles
    assert answer["is_complete"]


def test_many_members_are_told_in_parts_at_the_same_cost(
    ana: Member, vibe: Agent, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser, address = signed_in(ana), f"{home}t/{thread.pk}/names/"

    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            browser.get(f"{address}?q=h")
        return len(queries)

    statements()
    few = statements()
    write_members(ana.workspace, MAX_NAMES + 20)
    assert statements() == few
    first = browser.get(f"{address}?q=h").json()
    assert (len(first["names"]), first["is_complete"]) == (MAX_NAMES, False)
    assert browser.get(f"{address}?q=helper+5").json()["is_complete"]
    assert [name["handle"] for name in browser.get(address).json()["names"]] == ["vibe"]  # what a preview needs
    assert "Helper 1" not in browser.get(f"{home}t/{thread.pk}/").content.decode().partition("<main")[2]


def test_who_does_not_see_the_thread_is_told_nobody(
    cleo: Member, ben: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    for stranger in (cleo, ben):
        assert signed_in(stranger).get(f"{home}t/{thread.pk}/names/?q=a").status_code == 404

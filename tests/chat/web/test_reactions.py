"""Emoji on messages in the page: chips, the choice, and what everybody's page is told."""

import json
import re
from collections.abc import Callable

import pytest
from django.test import Client

from openvibe.base.models import Event
from openvibe.chat.models import Thread
from openvibe.chat.services import add_reaction
from openvibe.workspaces.models import Member
from tests.chat.web.event_stream_reader import Reader
from tests.factories import access, say

SignedIn = Callable[[Member], Client]
HTMX = {"HX-Request": "true"}


def pressed(html: str) -> list[str]:
    return re.findall(r'class="reaction"[^>]+aria-pressed="(\w+)"', html)


def test_a_chip_tells_who_and_is_taken_back_by_the_same_press(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = say(thread, ana, "Pruned!")
    browser, url = signed_in(dora), f"{home}m/{message.pk}/reactions/"
    choice = browser.get(url, headers=HTMX).content.decode()
    assert 'name="add" value="👍"' in choice
    add_reaction(message=message, by=access(ana), emoji="🎉")

    added = browser.post(url, {"add": ":tada:"}, headers=HTMX).content.decode()
    assert ("🎉 2" in added, "Ana and Dora" in added, pressed(added)) == (True, True, ["true"])
    assert pressed(signed_in(ana).get(f"{home}t/{thread.pk}/").content.decode().partition('id="messages"')[2]) == [
        "true"
    ]
    removed = browser.post(url, {"remove": "🎉"}, headers=HTMX).content.decode()
    assert ("🎉 1" in removed, pressed(removed)) == (True, ["false"])
    assert browser.post(url, {"add": "🎉"})["Location"] == f"{home}m/{message.pk}/"


def test_what_is_no_emoji_is_said_where_it_was_typed(
    ana: Member, cleo: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = say(thread, ana, "Pruned!")
    url = f"{home}m/{message.pk}/reactions/"
    response = signed_in(ana).post(url, {"add": "<hedgehog>"}, headers=HTMX)
    assert (response.status_code, response["HX-Retarget"]) == (400, f"#reactions-{message.pk}")
    for words in ("React with one emoji", "&lt;hedgehog&gt;"):
        assert words in response.content.decode()
    assert signed_in(ana).post(url).status_code == 400
    assert signed_in(cleo).post(url, {"add": "🎉"}).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_everybodys_page_shows_it_at_once_and_each_her_own_as_pressed(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = say(thread, ana, "Pruned!")
    query = f"after={Event.objects.latest('position').position}&thread={thread.pk}"
    with (
        Reader(signed_in(ana), f"{home}events/", query=query) as anas,
        Reader(signed_in(dora), f"{home}events/", query=query) as doras,
    ):
        add_reaction(message=message, by=access(dora), emoji="🎉")
        frames = [json.loads(reader.next().data) for reader in (anas, doras)]
    assert [(frame["kind"], frame["message"]) for frame in frames] == [("reactions_changed", message.pk)] * 2
    assert [pressed(frame["html"]) for frame in frames] == [["false"], ["true"]]

"""Messages on a page are remembered, and never shown as they were."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.test import Client

from openvibe.chat.models import Message, Thread
from openvibe.chat.services import (
    add_reaction,
    add_to_channel,
    delete_message,
    remove_reaction,
    save_message,
    unsave_message,
    update_message,
)
from openvibe.engines.serving import fragments
from openvibe.workspaces.models import Member, Participant
from tests.factories import access, attach, say

SignedIn = Callable[[Member], Client]


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    fragments._html_cache.clear()
    yield
    fragments._html_cache.clear()


@pytest.fixture
def address(home: str, thread: Thread) -> str:
    return f"{home}t/{thread.pk}/"


def body_of(browser: Client, address: str) -> str:
    """The page without its nonces and tokens, which differ every time."""
    page = browser.get(address).content.decode()
    return re.sub(r"nonce[^ >]*|csrfmiddlewaretoken\" value=\"\w+|X-CSRFToken\": \"\w+", "", page)


def test_the_second_look_is_the_first(ana: Member, thread: Thread, address: str, signed_in: SignedIn) -> None:
    say(thread, ana, "Roses *need* sun")
    browser = signed_in(ana)
    first = body_of(browser, address)
    assert body_of(browser, address) == first
    assert sum("<em>need</em>" in html for html in fragments._html_cache.values()) == 1
    assert "<em>need</em>" in first


def test_a_change_shows_at_once(ana: Member, thread: Thread, address: str, signed_in: SignedIn) -> None:
    message = say(thread, ana, "Before")
    browser = signed_in(ana)
    assert "Before" in body_of(browser, address)
    update_message(message=message, by=access(ana), body="After")
    assert "After" in body_of(browser, address)
    ana.participant.name = "Ana Maria"
    ana.participant.save()
    assert 'data-author="Ana Maria"' in body_of(browser, address)
    delete_message(message=message, by=access(ana))
    assert "This message was deleted." in body_of(browser, address)


def test_each_reader_sees_her_own_buttons_and_token(
    ana: Member, dora: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    say(thread, ana, "Mine")
    own, other = (signed_in(one).get(address).content.decode() for one in (ana, dora))
    assert "data-edit" in own
    assert "data-edit" not in other
    tokens = [set(re.findall(r'csrfmiddlewaretoken" value="(\w+)"', page)) for page in (own, other)]
    assert [len(each) for each in tokens] == [1, 1]
    assert tokens[0] != tokens[1]


def test_many_messages_are_forgotten(
    ana: Member, thread: Thread, address: str, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments, "MAX_CACHED_CHARACTERS", 10_000)
    for body in ("One", "Two", "Three", *"456789"):
        say(thread, ana, body)
    assert "Three" in body_of(signed_in(ana), address)
    assert 0 < sum(map(len, fragments._html_cache.values())) <= 10_000


def test_what_is_remembered_is_what_would_be_made_anew(
    ana: Member, ben: Member, dora: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    first, second = say(thread, ana, "One @dora"), say(thread, ana, "Two")
    browsers = [signed_in(one) for one in (ana, ben, dora)]
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: add_reaction(message=first, by=access(dora), emoji="🎉"),
        lambda: add_reaction(message=first, by=access(ana), emoji="🎉"),
        lambda: remove_reaction(message=first, by=access(dora), emoji="🎉"),
        lambda: save_message(message=second, by=access(dora)),
        lambda: unsave_message(message=second, by=access(dora)),
        lambda: update_message(message=second, by=access(ana), body="Two @ben"),
        lambda: attach(thread, dora, "Look.", **{"plan.md": "Roses"}),
        lambda: Message.objects.filter(pk=second.pk).update(created_at=first.created_at - timedelta(days=2)),
        lambda: Participant.objects.filter(pk=dora.participant_id).update(name="Dorothea"),
        lambda: Member.objects.filter(pk=dora.pk).update(role="admin"),
        lambda: delete_message(message=first, by=access(ana)),
    ]
    for number, change in enumerate(changes):
        change()
        remembered = [body_of(browser, address) for browser in browsers]
        html_cache = dict(fragments._html_cache)
        for browser, page in zip(browsers, remembered, strict=True):
            fragments._html_cache.clear()
            assert body_of(browser, address) == page, f"change {number}"
        fragments._html_cache.update(html_cache)

"""The inbox: what is new first, who said what last, and only what was asked for."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from openvibe.chat.importing.values import ImportedLine, ImportedThread
from openvibe.chat.models import Thread
from openvibe.chat.services import delete_message, mark_read, update_message
from openvibe.chat.services.conversation_import import import_thread
from openvibe.chat.web import thread_lists
from openvibe.workspaces.models import Member
from tests.chat.web.visible_words import visible_words
from tests.factories import access, make_channel, make_thread, say

SignedIn = Callable[[Member], Client]


def lines(page: bytes) -> list[str]:
    """The threads of a page, each as its words in order."""
    items = re.findall(r'<li class="thread-item.*?</li>', page.decode(), flags=re.DOTALL)
    return [visible_words(item) for item in items]


def titles(page: bytes) -> list[str]:
    return re.findall(r'class="thread-name">([^<]+)<', page.decode())


@pytest.fixture
def threads(ana: Member, dora: Member, thread: Thread) -> list[Thread]:
    """Threads: to Dora the oldest is new, the second names her, the newest, in another channel, is read."""
    others = [make_thread(thread.channel, ana, "Frost"), make_thread(make_channel(ana, "seeds"), ana, "Beans")]
    say(thread, ana, "Cut **here**, then there.")
    say(others[0], ana, "Is it cold, @dora?")
    say(others[1], ana, "Sown.")
    for each in others:
        mark_read(thread=Thread.objects.get(pk=each.pk), by=access(dora), seq=1)
    return [thread, *others]


def test_what_is_new_comes_first_with_author_and_first_words(
    dora: Member, threads: list[Thread], home: str, signed_in: SignedIn
) -> None:
    inbox_lines = lines(signed_in(dora).get(home).content)
    assert [re.sub(r"\d\d:\d\d ", "", line) for line in inbox_lines] == [
        "Pruning , something new Ana Cut here, then there. #general 1 message",
        "Beans Ana Sown. #seeds 1 message",
        "Frost Ana Is it cold, @dora? #general 1 message",
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("show=unread", ["Pruning"]),
        ("show=mentions", ["Frost"]),
        ("channel={c}", ["Pruning", "Frost"]),
        ("show=unread&channel={other}", []),
        ("channel=999999", []),
        ("show=nonsense&channel=x&page=-1", ["Pruning", "Beans", "Frost"]),
    ],
)
def test_the_address_says_what_is_shown(
    dora: Member, threads: list[Thread], home: str, signed_in: SignedIn, query: str, expected: list[str]
) -> None:
    address = query.format(c=threads[0].channel_id, other=threads[2].channel_id)
    assert titles(signed_in(dora).get(f"{home}?{address}").content) == expected


def test_pages_keep_the_filter_and_show_every_thread_once(
    dora: Member, threads: list[Thread], home: str, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_lists, "PAGE_SIZE", 1)
    browser, address = signed_in(dora), f"{home}?channel={threads[0].channel_id}"
    first = browser.get(address).content
    (following,) = re.findall(r'href="(\?[^"]+)">Older', first.decode())
    assert titles(first) + titles(browser.get(home + following.replace("&amp;", "&")).content) == ["Pruning", "Frost"]


def test_a_deleted_message_shows_no_words(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    delete_message(message=say(thread, ana, "A secret"), by=access(ana))
    page = signed_in(dora).get(home).content
    assert b"Message deleted" in page
    assert b"A secret" not in page


def test_an_import_is_told_in_one_line_and_arrives_read(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    say(thread, ana, "Welcome!")
    for number in range(3):
        said = [ImportedLine("Pat", f"Point {n}") for n in range(2)]
        import_thread(channel=thread.channel, imported=ImportedThread(f"m{number}", f"Meeting {number}", said))
    browser = signed_in(dora)
    assert titles(browser.get(f"{home}?show=unread").content) == ["Pruning"]
    page = " ".join(re.sub(r"<[^>]+>", "", browser.get(home).content.decode()).split())
    assert "3 conversations were imported into #general ." in page.replace("#general.", "#general .")

    meeting = Thread.objects.get(title="Meeting 1")
    say(meeting, ana, "Did we decide this?")
    more = [ImportedLine("Pat", f"Point {n}") for n in range(3)]
    import_thread(channel=thread.channel, imported=ImportedThread("m1", "Meeting 1", more))
    assert titles(browser.get(f"{home}?show=unread").content) == ["Meeting 1", "Pruning"]


def test_edit_history_tells_each_text_with_its_time_to_who_reads_the_thread(
    ana: Member, dora: Member, ben: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = say(thread, ana, "In May.")
    for text in ("In April.", "In March."):
        update_message(message=message, by=access(ana), body=text)
    address = f"{home}m/{message.pk}/history/"
    page = signed_in(dora).get(address).content.decode()
    assert re.findall(r'<pre class="plain">([^<]+)', page) == ["In March.", "In April.", "In May."]
    times = re.findall(r'<time datetime="([^"]+)"', page)
    assert times == sorted(times, reverse=True)
    assert signed_in(ben).get(address).status_code == 404
    delete_message(message=message, by=access(ana))
    assert signed_in(ana).get(address).status_code == 404

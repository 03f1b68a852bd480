"""Previews of links: to everybody what they may see, of the rest nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from openvibe.chat.models import Thread
from openvibe.chat.queries import read_link_previews
from openvibe.chat.services import delete_message
from openvibe.chat.wiring import LinkPreview
from openvibe.workspaces.models import Member
from tests.factories import access, make_channel, make_entry, make_thread, say


@pytest.fixture
def references(ana: Member, thread: Thread) -> list[str]:
    """A thread, its message by both addresses, an entry; and a private thread and message of Ana's."""
    message = say(thread, ana, "Cut **here**.")
    secret = make_thread(make_channel(ana, "secret", private=True), ana, "Surprise")
    private_message = say(secret, ana, "A party!")
    entry = make_entry(ana)
    visible_references = [
        f"thread-{thread.pk}",
        f"thread-{thread.pk}-1",
        f"message-{message.pk}",
        f"knowledge-{entry.pk}",
    ]
    return [*visible_references, f"thread-{secret.pk}", f"message-{private_message.pk}", f"thread-{secret.pk}-1"]


def test_each_reader_is_shown_what_they_may_see(
    ana: Member, ben: Member, cleo: Member, dora: Member, references: list[str]
) -> None:
    seen = read_link_previews(access(dora), references)
    assert [replace(preview, at=None) for preview in seen.values()] == [
        LinkPreview("Pruning", "Ana", "#general"),
        LinkPreview("Pruning", "Ana", "Cut here."),
        LinkPreview("Pruning", "Ana", "Cut here."),
        LinkPreview("Pricing", "Ana", "Starter costs $29 a month."),
    ]
    assert [preview.at is not None for preview in seen.values()] == [False, True, True, True]
    assert set(read_link_previews(access(ana), references)) == set(references)
    assert set(read_link_previews(access(ben), references)) == {references[3]}
    assert not read_link_previews(access(cleo), references)


def test_many_cost_what_one_of_each_costs(ana: Member, references: list[str]) -> None:
    asker = access(ana)
    with CaptureQueriesContext(connection) as statements:
        read_link_previews(asker, references)
    assert len(statements) == 4  # what she reaches, threads, messages, entries


def test_what_is_no_reference_or_deleted_says_nothing(
    ana: Member, thread: Thread, home: str, signed_in: Callable[[Member], Client]
) -> None:
    message = say(thread, ana, "<b>A secret</b>")
    delete_message(message=message, by=access(ana))
    odd = ["", "thread-", "thread-0", f"thread-{'9' * 18}", "message-1-x", "user-1", "knowledge-9\x00", "x" * 5000]
    answer = signed_in(ana).get(f"{home}previews/", {"ref": [*odd, f"message-{message.pk}"]}).json()["previews"]
    assert list(answer) == [f"message-{message.pk}"]
    assert "Message deleted" in answer[f"message-{message.pk}"]
    assert "secret" not in str(answer)

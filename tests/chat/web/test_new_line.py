"""The place of the "New" line: above what came since one looked, and never above a reply that grows as one looks."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from agents.models import Agent
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_reply, mark_read
from openvibe.workspaces.models import Member
from tests.factories import access, say


def line_above(browser: Client, address: str) -> int | None:
    """The seq of the message that the line stands above."""
    page = browser.get(address).content.decode()
    ahead = page.partition('class="new-line"')
    return int(re.findall(r'data-seq="(\d+)"', ahead[0])[-1]) if ahead[1] else None


@pytest.mark.parametrize("writing", [0, 1, 2])
@pytest.mark.parametrize("more", [0, 1])
def test_a_reply_that_grows_as_the_page_opens_is_not_new(
    ana: Member,
    dora: Member,
    vibe: Agent,
    thread: Thread,
    home: str,
    signed_in: Callable[[Member], Client],
    writing: int,
    more: int,
) -> None:
    seen = say(thread, ana, "When do I prune?")
    mark_read(thread=Thread.objects.get(pk=thread.pk), by=access(ana), seq=seen.seq)
    for number in range(writing):
        create_reply(thread=thread, author=vibe.participant, client_id=f"run-{number}")
    for _ in range(more):
        say(thread, dora, "In March.")
    browser, address = signed_in(ana), f"{home}t/{thread.pk}/"
    assert line_above(browser, address) == (seen.seq + writing + 1 if more else None)
    Message.objects.filter(state=Message.State.WRITING).update(state=Message.State.COMPLETE)
    assert line_above(browser, address) == (seen.seq + 1 if writing or more else None), "nobody has seen it yet"

"""The page of saved messages, and the star of each message."""

from collections.abc import Callable

from django.test import Client

from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.factories import say

SignedIn = Callable[[Member], Client]


def test_the_page_lists_them_and_takes_them_away(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message, browser = say(thread, ana, "Prune in March."), signed_in(dora)
    assert "Nothing saved yet" in browser.get(f"{home}saved/").content.decode()
    url = f"{home}m/{message.pk}/save/"
    button = browser.post(url, headers={"HX-Request": "true"}).content.decode()
    assert ('aria-pressed="true"' in button, 'name="unsave"' in button) == (True, True)

    page = browser.get(f"{home}saved/").content.decode()
    for words in ("Prune in March.", thread.title, f'href="{home}m/{message.pk}/"', "Ana"):
        assert words in page.partition("<main")[2]
    for member, pressed in ((ana, "false"), (dora, "true")):
        row = signed_in(member).get(f"{home}t/{thread.pk}/").content.decode()
        assert f'name="{"unsave" if member == dora else "save"}" value="1" aria-pressed="{pressed}"' in row
    assert browser.post(url, {"unsave": "1", "from": "saved"})["Location"] == f"{home}saved/"
    assert "Prune in March." not in browser.get(f"{home}saved/").content.decode()

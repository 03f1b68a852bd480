"""Direct messages in the browser: begun from a person or an agent, shown by the other's name, nobody else's."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from openvibe.chat.models import Channel, Message, Thread
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import remove_member
from tests.chat.test_direct_messages import begin
from tests.factories import access, make_agent, make_member, say

SignedIn = Callable[[Member], Client]


def test_a_first_message_begins_them_and_the_link_leads_back(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    browser, to = signed_in(dora), ana.participant_id
    empty = browser.get(f"{home}direct/?to={to}").content.decode()
    assert re.search(r'<textarea id="first-body"[^>]* autofocus data-enter>', empty)
    assert "Message to Ana" in empty
    assert not Thread.objects.exists()
    response = browser.post(f"{home}direct/", {"to": to, "body": "Hello!"})
    thread = Thread.objects.get()
    assert response["Location"] == browser.get(f"{home}direct/?to={to}")["Location"] == f"{home}t/{thread.pk}/"
    page = browser.get(response["Location"]).content.decode()
    assert re.search(r'<h1 dir="auto"><a [^>]*href="[^"]*/people/ana/"\s+data-card>Ana</a></h1>', page)
    assert re.search(r'<textarea [^>]*id="composer-body"[^>]* autofocus ', page)
    assert "Message to Ana" in page
    assert f"/c/{thread.channel_id}/" not in page
    for settings in ("", "edit/", "members/"):
        assert browser.get(f"{home}c/{thread.channel_id}/{settings}").status_code == 404


def test_of_many_the_first_are_offered_and_others_are_searched_for(
    ana: Member, dora: Member, home: str, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openvibe.chat.web.direct_messages.MAX_OFFERED_RECIPIENTS", 1)
    browser, zoe = signed_in(ana), make_member("Zoe", ana.workspace)
    page = browser.get(f"{home}direct/").content.decode()
    assert "the first 1 of 2" in page
    assert "@zoe" not in page
    assert "@zoe" in browser.get(f"{home}direct/?q=zo").content.decode()
    assert "Message to Zoe" in browser.get(f"{home}direct/?to={zoe.participant_id}").content.decode()
    assert "Nobody here" in browser.get(f"{home}direct/?q=nobody").content.decode()


@pytest.mark.parametrize(("to", "body", "status"), [("", "Hello!", 400), ("{ben}", "Hello!", 404), ("{ana}", " ", 400)])
def test_what_cannot_be_sent_is_kept_and_nothing_is_begun(
    ana: Member, cleo: Member, dora: Member, home: str, signed_in: SignedIn, to: str, body: str, status: int
) -> None:
    values = {"to": to.format(ana=ana.participant_id, ben=cleo.participant_id), "body": body}
    answer = signed_in(dora).post(f"{home}direct/", values)
    assert answer.status_code == status
    assert body.encode() in answer.content
    assert not Channel.objects.exists()


def test_a_first_message_that_is_sent_twice_is_one(ana: Member, dora: Member, home: str, signed_in: SignedIn) -> None:
    values = {"to": ana.participant_id, "body": "Hello!", "client_id": "a" * 32}
    answers = [signed_in(dora).post(f"{home}direct/", values) for _ in range(2)]
    assert answers[0]["Location"] == answers[1]["Location"]
    assert Message.objects.count() == 1


def test_to_another_admin_there_is_nothing(ana: Member, dora: Member, home: str, signed_in: SignedIn) -> None:
    thread = begin(dora, make_agent(ana).participant)
    message = say(thread, dora, "The roses are ill.")
    admin = signed_in(make_member("Eve", ana.workspace, role="admin"))
    for address in (f"t/{thread.pk}/", f"m/{message.pk}/", f"t/{thread.pk}/names/", f"m/{message.pk}/history/"):
        assert admin.get(home + address).status_code == 404, address
    for address in ("", "search/?q=roses", "sidebar/", "mentions/"):
        assert b"roses are ill" not in admin.get(home + address).content


def test_who_left_leaves_a_page_to_read(ana: Member, dora: Member, home: str, signed_in: SignedIn) -> None:
    thread = begin(ana, dora.participant)
    say(thread, dora, "Goodbye!")
    remove_member(member=dora, by=access(ana))
    browser, address = signed_in(ana), f"{home}t/{thread.pk}/"
    page = browser.get(address).content.decode()
    assert "Goodbye!" in page
    assert "Dora has left the workspace." in page
    assert 'id="composer"' not in page
    assert browser.post(address, {"body": "Wait!"}).status_code == 403
    assert Message.objects.count() == 1

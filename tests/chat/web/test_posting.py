"""Saying, editing and deleting, with and without JavaScript; whatever is sent, the text is kept."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from openvibe.chat.models import Draft, Message, ReadMarker, Thread
from openvibe.chat.services import post_message
from openvibe.workspaces.models import Member
from tests.factories import access, say

SignedIn = Callable[[Member], Client]
JSON = {"Accept": "application/json"}


@pytest.fixture
def address(home: str, thread: Thread) -> str:
    return f"{home}t/{thread.pk}/"


def test_posting_without_javascript(ana: Member, thread: Thread, address: str, signed_in: SignedIn) -> None:
    answer = signed_in(ana).post(address, {"body": "Line one\r\nline two"})
    assert answer["Location"] == f"{address}#m-1"
    assert Message.objects.get(thread=thread).body == "Line one\nline two"


def test_the_same_client_id_is_the_same_message(ana: Member, thread: Thread, address: str, signed_in: SignedIn) -> None:
    browser = signed_in(ana)
    rows = [browser.post(address, {"body": "once", "client_id": "k"}, headers=JSON).json() for _ in range(2)]
    assert rows[0] == rows[1]
    assert thread.messages.count() == 1


def test_a_page_that_heard_no_answer_learns_what_became_of_its_message(
    ana: Member, dora: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    signed_in(ana).post(address, {"body": "once", "client_id": "k"})

    def is_stored(by: Member, client_id: str) -> bool:
        answer = signed_in(by).get(f"{address}sent/", {"client_id": client_id})
        return bool(answer.json()["is_stored"])

    assert is_stored(ana, "k")
    assert not is_stored(dora, "k")  # keys are each author's own
    assert not any(is_stored(ana, key) for key in ("other", "", "\x00"))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("", "There is nothing to send yet."),
        (" \n\u200b ", "There is nothing to send yet."),
        ("nul\x00inside", "NUL character"),
        ("x" * 100_001, "at most 100,000 fit"),
    ],
)
def test_what_cannot_be_kept_gets_a_sentence_and_the_text_back(
    body: str, sentence: str, ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    answer = signed_in(ana).post(address, {"body": body})
    assert answer.status_code == 400
    page = answer.content.decode()
    assert sentence in page
    assert body.replace("\x00", "").replace("\n", "\n")[:50] in page
    as_json = signed_in(ana).post(address, {"body": body}, headers=JSON)
    assert sentence in as_json.json()["message"]
    assert thread.messages.count() == 0


def test_two_tabs_editing_one_message(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    message = say(thread, ana, "the original")
    browser, address = signed_in(ana), f"{home}m/{message.pk}/edit/"
    first = browser.post(address, {"body": "from tab one", "based_on": "the original"})
    assert first.status_code == 302
    second = browser.post(address, {"body": "from tab two", "based_on": "the original"})
    assert second.status_code == 409
    page = second.content.decode()
    assert "changed somewhere else" in page
    assert "from tab one" in page
    assert "from tab two" in page
    message.refresh_from_db()
    assert message.body == "from tab one"
    second_response = browser.post(address, {"body": "from tab two", "based_on": "from tab one"})
    assert second_response.status_code == 302


def test_a_refused_edit_for_htmx_goes_back_into_the_form(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = say(thread, ana, "text")
    answer = signed_in(ana).post(
        f"{home}m/{message.pk}/edit/", {"body": " ", "based_on": "text"}, headers={"HX-Request": "true"}
    )
    assert answer.status_code == 400
    assert answer["HX-Retarget"] == f"#edit-{message.pk}"


def test_only_the_author_edits_and_admins_delete(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = say(thread, ana, "hers")
    dora_browser = signed_in(dora)
    assert dora_browser.get(f"{home}m/{message.pk}/edit/").status_code == 404
    assert dora_browser.post(f"{home}m/{message.pk}/delete/").status_code == 403
    other = say(thread, dora, "to be removed by an admin")
    assert signed_in(ana).post(f"{home}m/{other.pk}/delete/").status_code == 302


def test_history_shows_what_was_said_before(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    message = say(thread, ana, "befor")
    browser = signed_in(ana)
    browser.post(f"{home}m/{message.pk}/edit/", {"body": "after", "based_on": "befor"})
    assert b"befor<" in browser.get(f"{home}m/{message.pk}/history/").content


def test_a_draft_is_kept_and_comes_back_until_it_is_sent(
    ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    version = browser.post(f"{address}draft/", {"body": "half a thought"}, headers=JSON).json()["version"]
    page = browser.get(address).content.decode()
    assert "half a thought" in page
    assert f'data-version="{version}"' in page
    assert f'name="draft_version" value="{version}"' in page
    browser.post(address, {"body": "a whole thought", "draft_version": version})
    assert not Draft.objects.exists()


def saved(browser: Client, address: str, body: str, **more: str) -> tuple[int, dict[str, str]]:
    answer = browser.post(f"{address}draft/", {"body": body, **more}, headers=JSON)
    return answer.status_code, answer.json()


def test_a_draft_of_another_tab_is_not_written_over(
    ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    phone, desk = signed_in(ana), signed_in(ana)
    _, first = saved(phone, address, "Written on the phone")
    status, problem = saved(desk, address, "Written at the desk", version="")
    assert status == 409
    assert (problem["code"], problem["text"], problem["version"]) == (
        "draft_changed",
        "Written on the phone",
        first["version"],
    )
    assert saved(desk, address, "")[0] == 409  # nor is it removed by a field that was emptied
    assert thread.drafts.get().body == "Written on the phone"
    assert saved(desk, address, "Written at the desk", version=problem["version"])[0] == 200
    assert thread.drafts.get().body == "Written at the desk"


def test_a_draft_goes_on_from_what_this_tab_tried_to_save(
    ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    """The answer to the save before it was lost, or is still on its way."""
    browser = signed_in(ana)
    saved(browser, address, "One")
    assert saved(browser, address, "One two", sent="One")[0] == 200
    assert saved(browser, address, "One two")[0] == 200  # the same once more
    assert saved(browser, address, "One")[0] == 409  # what comes late writes over nothing
    assert thread.drafts.get().body == "One two"


def test_a_page_that_is_left_leaves_both_texts(ana: Member, thread: Thread, address: str, signed_in: SignedIn) -> None:
    phone, desk = signed_in(ana), signed_in(ana)
    saved(phone, address, "Written on the phone")
    for _ in range(2):
        assert saved(desk, address, "Written at the desk", leaves="1")[0] == 200
        assert thread.drafts.get().body == "Written on the phone\n\nWritten at the desk"
    saved(desk, address, "", leaves="1")
    saved(desk, address, "Written on the phone\n\nWritten at the desk, and on", leaves="1")
    assert thread.drafts.get().body == "Written on the phone\n\nWritten at the desk, and on"
    assert saved(desk, address, "x" * 99_990, leaves="1")[0] == 409  # together they are no message any more


@pytest.mark.parametrize("sent_by", ["page", "api"])
def test_a_message_takes_no_draft_of_another_tab_with_it(
    sent_by: str, ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    saved(browser, address, "Half a thought of the phone")
    if sent_by == "page":
        browser.post(address, {"body": "Yes", "draft_version": ""})
    else:
        post_message(thread=thread, by=access(ana), body="Yes")
    assert thread.drafts.get().body == "Half a thought of the phone"
    post_message(thread=thread, by=access(ana), body="Half a thought of the phone")  # said, it is no draft any more
    assert not Draft.objects.exists()


def test_reading_and_unreading(ana: Member, dora: Member, thread: Thread, address: str, signed_in: SignedIn) -> None:
    for _ in range(3):
        say(thread, dora, "news")
    browser, home = signed_in(ana), address.partition("t/")[0]
    assert b"Pruning" in browser.get(home).content
    browser.post(f"{address}read/", {"seq": "3"}, headers=JSON)
    assert b"You have read everything." in browser.get(f"{home}?show=unread").content
    browser.post(f"{address}read/", {"seq": "2", "unread": "1"})
    assert ReadMarker.objects.get(participant=ana.participant).last_read_seq == 1
    assert browser.get(f"{home}next/")["Location"] == address
    assert browser.post(f"{address}read/", {"seq": "-1"}, headers=JSON).status_code == 200


def test_a_form_that_is_sent_twice_begins_one_thread(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    address, words = f"{home}c/{thread.channel_id}/threads/", {"title": "Ladder", "body": "Where is it?"}
    page = signed_in(ana).get(f"{home}c/{thread.channel_id}/").content.decode()
    key = re.search(r'name="client_id" value="(\w+)"', page)
    assert key is not None
    sent = [(ana, words), (ana, words), (ana, words | {"body": "Where was it?"}), (dora, words)]
    addresses = [signed_in(by).post(address, each | {"client_id": key[1]}).headers["Location"] for by, each in sent]
    assert addresses[0] == addresses[1]
    assert len(set(addresses)) == 3
    made = Thread.objects.filter(title="Ladder").order_by("pk")
    assert [list(each.messages.values_list("body", flat=True)) for each in made] == [
        ["Where is it?"],
        ["Where was it?"],
        ["Where is it?"],
    ]
    refused = signed_in(ana).post(address, {"title": "bad\x00", "body": "Hello", "client_id": key[1]})
    assert f'value="{key[1]}"' in refused.content.decode()


def test_a_thread_begins_with_its_first_message(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    browser = signed_in(ana)
    browser.post(f"{home}c/{thread.channel_id}/threads/", {"title": "", "body": "**Where** is the ladder?"})
    new_thread = Thread.objects.latest("id")
    assert (new_thread.title, new_thread.last_seq) == ("Where is the ladder?", 1)
    response = browser.post(f"{home}c/{thread.channel_id}/threads/", {"title": "A title", "body": "bad\x00body"})
    assert response.status_code == 400
    assert b"A title" in response.content
    assert not Thread.objects.filter(title="A title").exists()


def test_names_and_memberships_of_channels(
    ana: Member, ben: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    assert b"Use 1 to 40" in browser.post(f"{home}channels/new/", {"name": "Ümlaut!"}).content
    channel_address = browser.post(f"{home}channels/new/", {"name": "plans", "is_private": "on"})["Location"]
    page_response = browser.post(f"{home}channels/new/", {"name": "plans"})
    assert page_response.status_code == 409
    assert signed_in(dora).get(channel_address).status_code == 404
    browser.post(f"{channel_address}members/change/", {"participant": dora.participant_id})
    assert signed_in(dora).get(channel_address).status_code == 200
    response = signed_in(dora).post(
        f"{channel_address}members/change/", {"participant": dora.participant_id, "remove": "1"}
    )
    assert response["Location"] == home
    assert browser.post(f"{channel_address}members/change/", {"participant": "nobody"}).status_code == 400


def test_signed_out_meanwhile_is_said_and_nothing_is_posted(thread: Thread, address: str) -> None:
    answer = Client().post(address, {"body": "text"}, headers=JSON)
    assert answer.status_code == 401
    assert "Sign in again" in answer.json()["message"]
    assert thread.messages.count() == 0

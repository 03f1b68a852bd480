"""What goes wrong in front of an open page: whoever wrote it is told, keeps the text, and nobody is bothered."""

from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from agents.models import Agent, Run
from openvibe.chat.models import Mention, Message, Thread
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import remove_member
from tests.factories import access, say

SignedIn = Callable[[Member], Client]
JSON = {"Accept": "application/json"}
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def address(home: str, thread: Thread) -> str:
    return f"{home}t/{thread.pk}/"


def test_a_megabyte_comes_back_whole_with_the_limit(
    ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    body = "rose <b>" * 131_072
    assert len(body) == 1024 * 1024
    answer = signed_in(ana).post(address, {"body": body})
    page = unescape(answer.content.decode())
    assert answer.status_code == 400
    assert "at most 100,000 fit" in page
    assert body in page
    assert not thread.messages.exists()


@pytest.mark.parametrize("hidden", [b"%ED%A0%80", b"%FF%FE"])
def test_bytes_that_are_no_text_break_nothing(
    hidden: bytes, ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    answer = browser.post(address, b"body=before" + hidden + b"after", content_type=FORM)
    assert answer.status_code == 302
    body = thread.messages.get().body
    assert body.startswith("before\N{REPLACEMENT CHARACTER}")
    assert body.endswith("after")
    assert browser.get(address).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        "Write to ana@vibe.example or someone@vibe",
        "`@vibe` is how to call it",
        "```python\n@vibe\ndef f(): ...\n```",
        "    @vibe.task\n    def f(): ...",
        "https://social.example/@vibe and [@vibe](https://social.example)",
        "npm install @vibe/core",
    ],
)
def test_what_only_looks_like_a_mention_calls_nobody(
    body: str, ana: Member, vibe: Agent, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    browser.post(address, {"body": body})
    assert thread.messages.count() == 1
    assert not Mention.objects.exists()
    assert not Run.objects.exists()
    assert 'class="mention"' not in browser.get(address).content.decode()


def test_an_unknown_mention_is_ordinary_text(ana: Member, thread: Thread, address: str, signed_in: SignedIn) -> None:
    browser = signed_in(ana)
    browser.post(address, {"body": "@nobody-here are you there?"})
    assert not Mention.objects.exists()
    assert "@nobody-here are you there?" in browser.get(address).content.decode()


def test_whoever_is_removed_while_writing_is_told_and_posts_and_changes_nothing(
    ana: Member, dora: Member, thread: Thread, home: str, address: str, signed_in: SignedIn
) -> None:
    hers = say(thread, dora, "before")
    browser = signed_in(dora)
    assert browser.get(address).status_code == 200
    remove_member(member=dora, by=access(ana))

    response = browser.post(address, {"body": "after"}, headers=JSON)
    assert response.status_code == 404
    assert response.json()["message"].endswith(".")
    edit = {"body": "changed after", "based_on": "before"}
    assert browser.post(f"{home}m/{hers.pk}/edit/", edit).status_code == 404
    assert browser.post(f"{home}m/{hers.pk}/delete/").status_code == 404
    assert browser.get(f"{home}m/{hers.pk}/", headers={"HX-Request": "true"}).status_code == 404
    assert list(Message.objects.values_list("body", flat=True)) == ["before"]

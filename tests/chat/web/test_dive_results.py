"""Publishing in the browser: the form, its draft, its preview, and the card that comes of it."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from agents.models import Agent
from openvibe.chat.models import Dive, Message, Thread
from openvibe.chat.services import create_reply, delete_message, finish_reply, publish_dive, request_draft, start_dive
from openvibe.engines.llm.offline.drafts import ResultDraft, render_draft
from openvibe.engines.serving import fragments
from openvibe.workspaces.models import Member
from tests.factories import access, say

SignedIn = Callable[[Member], Client]
HTMX = {"HX-Request": "true"}
FOOT = {**HTMX, "HX-Target": "dive-foot"}
TYPED = {
    "headline": "Prune in March",
    "bullet": ["Before the buds open", "With **clean** shears", "", "Climbers <b>later</b>", ""],
    "full": "All that was said.\n\n- one",
    "deferred": ["The hedge", ""],
    "question": ["", "Who sharpens the shears?"],
}
DRAFT = ResultDraft("Prune early", ("One", "Two", "Three"), "The whole.", ("Later",), ("Who?",))


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    fragments._html_cache.clear()


@pytest.fixture
def dive(ana: Member, vibe: Agent, thread: Thread) -> Dive:
    source = say(thread, ana, "When do we prune the roses?")
    return start_dive(source=source, by=access(ana), agent=vibe.participant, body="And the climbers?")


@pytest.fixture
def address(home: str, dive: Dive) -> str:
    return f"{home}dive/{dive.pk}/publish/"


def quiet(dive: Dive) -> None:
    """The agent has answered what was asked so far."""
    dive.thread.runs.all().delete()


def drafted(dive: Dive, by: Member, *bodies: str) -> None:
    """Somebody asked for a draft, and the agent replied these, one after the other."""
    quiet(dive)
    request_draft(dive=dive, by=access(by))
    quiet(dive)
    for number, body in enumerate(bodies):
        reply = create_reply(thread=dive.thread, author=dive.agent, client_id=f"draft-{number}")
        finish_reply(reply=reply, body=body, state="complete")


def test_published_by_hand_it_stands_as_a_card_in_the_thread(
    ana: Member, dive: Dive, thread: Thread, address: str, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    answer = browser.post(address, TYPED)
    result = Message.objects.get(thread=thread, kind="dive_result")
    assert answer["Location"] == f"{home}t/{thread.pk}/?at={result.seq}#m-{result.seq}"
    page = browser.get(f"{home}t/{thread.pk}/").content.decode()
    card = page[page.index('class="result"') :]
    assert "Prune in March" in card
    assert "<strong>clean</strong>" in card
    assert "&lt;b&gt;later" in card
    assert "The hedge" in card
    assert "Who sharpens the shears?" in card
    assert "dive by Ana with Vibe" in card
    assert "Dive deeper" in card
    assert "All that was said." not in card
    assert "All that was said." in browser.get(f"{home}m/{result.pk}/full/").content.decode()
    inside = browser.get(f"{home}m/{result.pk}/full/", headers={**HTMX, "HX-Target": f"full-{result.pk}"})
    assert b"<html" not in inside.content
    assert b'class="result"' not in inside.content


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"headline": " "}, "A result needs a headline."),
        ({"headline": "x" * 121}, "120"),
        ({"bullet": ["One", "Two"]}, "3 to 5 key points"),
        ({"bullet": list("abcdef")}, "3 to 5 key points"),
        ({"full": "a\x00b"}, "NUL"),
        ({"full": "x" * 200_000}, "100,000"),
        ({"deferred": ["a", "b", "c"]}, "at most 2 deferred"),
        ({"question": ["a", "b", "c"]}, "at most 2 open"),
    ],
)
def test_what_is_wrong_stands_at_its_field_and_everything_is_kept(
    change: dict[str, object], sentence: str, ana: Member, dive: Dive, address: str, signed_in: SignedIn
) -> None:
    answer = signed_in(ana).post(address, {**TYPED, **change}, headers=HTMX)
    page = answer.content.decode()
    assert answer.status_code == 400
    assert answer["HX-Retarget"] == "#dive-foot"
    problem = re.search(r'id="publish-problem-\w+" role="alert">([^<]+)<', page)
    assert problem
    assert sentence in problem[1]
    assert "Climbers &lt;b&gt;later" in page or "bullet" in change
    assert "The hedge" in page or "deferred" in change
    assert not Message.objects.filter(kind="dive_result").exists()


def test_places_that_a_result_names_are_chips(
    ana: Member, dive: Dive, thread: Thread, address: str, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    browser.post(address, {**TYPED, "bullet": ["See #general", "One", "Two"], "question": ["Why #general?"]})
    page = browser.get(f"{home}t/{thread.pk}/").content.decode()
    card = page[page.index('class="result"') :]
    assert card.count(f'<a href="{home}c/{thread.channel_id}/" class="place-chip">#general</a>') == 2


def test_all_that_is_wrong_is_said_at_once_each_beside_its_field(
    ana: Member, dive: Dive, address: str, signed_in: SignedIn
) -> None:
    wrong = {"headline": "", "bullet": ["One", "Two"], "full": "a\x00", "deferred": ["1", "2", "3"]}
    page = signed_in(ana).post(address, {**TYPED, **wrong}, headers=HTMX).content.decode()
    said = dict(re.findall(r'id="publish-problem-(\w+)" role="alert">([^<]+)<', page))
    assert list(said) == ["headline", "bullets", "full", "deferred"]
    assert "3 to 5 key points" in said["bullets"]
    assert all(f'aria-describedby="publish-problem-{field}"' in page for field in said)
    assert "Who sharpens the shears?" in page


def test_only_the_starter_and_admins_get_the_form(
    ana: Member, dora: Member, vibe: Agent, thread: Thread, dive: Dive, address: str, home: str, signed_in: SignedIn
) -> None:
    assert 'id="publish"' in signed_in(ana).get(address).content.decode()
    assert 'id="publish"' not in signed_in(dora).get(address).content.decode()
    assert signed_in(dora).post(address, TYPED).status_code == 403
    source = say(thread, dora, "And the hedge?")
    hers = start_dive(source=source, by=access(dora), agent=vibe.participant)
    assert signed_in(ana).post(f"{home}dive/{hers.pk}/publish/", TYPED).status_code == 302


def test_what_was_published_meanwhile_is_said_and_what_was_typed_is_kept(
    ana: Member, dive: Dive, address: str, signed_in: SignedIn
) -> None:
    publish_dive(dive=dive, by=access(ana), result=DRAFT)
    answer = signed_in(ana).post(address, TYPED, headers=HTMX)
    assert answer.status_code == 409
    assert b"already published" in answer.content
    assert b"Before the buds open" in answer.content


def test_the_form_holds_the_newest_draft(ana: Member, dive: Dive, address: str, signed_in: SignedIn) -> None:
    changed = render_draft(ResultDraft("Prune late", ("One", "Two", "Three")))
    drafted(dive, ana, render_draft(DRAFT), changed, "Anything else?")
    form = signed_in(ana).get(address, headers=FOOT).content.decode()
    assert 'value="Prune late"' in form
    assert "Filled from Vibe’s draft." in form
    assert "<header" not in form


def test_a_reply_that_is_no_result_is_picked_from_and_the_form_says_so(
    ana: Member, dive: Dive, address: str, signed_in: SignedIn
) -> None:
    drafted(dive, ana, "Roses are pruned in March. Climbers follow after they flowered. Clean shears help a lot.")
    form = signed_in(ana).get(address, headers=FOOT).content.decode()
    assert "sentences were picked from it" in form
    assert "Clean shears help a lot." in form


def test_a_draft_is_asked_for_once_and_awaited(ana: Member, dive: Dive, address: str, signed_in: SignedIn) -> None:
    quiet(dive)
    browser, ask = signed_in(ana), address.replace("publish", "draft")
    answer = browser.post(ask, headers={"Accept": "application/json"})
    assert answer.status_code == 201
    asked = answer.json()["seq"]
    assert f'data-asked="{asked}"' in browser.get(address, headers=FOOT).content.decode()
    second_response = browser.post(ask, headers={"Accept": "application/json"})
    assert second_response.status_code == 409


def test_without_javascript_asking_for_a_draft_keeps_what_was_typed(
    ana: Member, dive: Dive, address: str, signed_in: SignedIn
) -> None:
    quiet(dive)
    page = signed_in(ana).post(address.replace("publish", "draft"), TYPED).content.decode()
    assert "Vibe is drafting above." in page
    assert 'value="Prune in March"' in page
    assert "data-typed" in page


def test_the_preview_is_the_card_and_counts(ana: Member, dive: Dive, address: str, signed_in: SignedIn) -> None:
    browser, preview = signed_in(ana), address.replace("publish", "preview")
    card = browser.post(preview, TYPED).content.decode()
    assert "<strong>clean</strong>" in card
    assert "&lt;b&gt;later" in card
    assert "needed" not in card
    card = browser.post(preview, {"bullet": "One"}).content.decode()
    assert "No headline yet" in card
    assert "1 key point so far; 3 to 5 are needed." in card


def test_over_it_says_who_published_and_leads_to_the_result(
    ana: Member, dora: Member, dive: Dive, address: str, home: str, signed_in: SignedIn
) -> None:
    result = publish_dive(dive=dive, by=access(ana), result=DRAFT)
    page = signed_in(dora).get(address, headers=HTMX).content.decode()
    assert "Published by Ana" in page
    assert f"?at={result.seq}#m-{result.seq}" in page
    assert 'id="publish"' not in page
    deeper = signed_in(dora).get(f"{home}m/{result.pk}/dive/", headers=HTMX).content.decode()
    assert "Dive deeper" in deeper


def test_a_deleted_result_leaves_no_card(
    ana: Member, dive: Dive, thread: Thread, home: str, address: str, signed_in: SignedIn
) -> None:
    result = publish_dive(dive=dive, by=access(ana), result=DRAFT)
    browser = signed_in(ana)
    assert "Prune early" in browser.get(f"{home}t/{thread.pk}/").content.decode()
    delete_message(message=result, by=access(ana))
    page = browser.get(f"{home}t/{thread.pk}/").content.decode()
    assert "Prune early" not in page
    assert "Dive deeper" not in page
    assert browser.get(f"{home}m/{result.pk}/full/").status_code == 404
    assert b"deleted since" in browser.get(address, headers=HTMX).content

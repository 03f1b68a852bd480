"""Blocks and notes on an agent's page: who sees them, who changes them, and nothing typed is lost."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.agent.services import deactivate_agent
from agents.models import Agent
from memory.blocks.context_blocks import ContextBlocks
from memory.blocks.models import Block, CarriedVersion, ProfileNote
from memory.blocks.queries import read_notes
from memory.blocks.services import store_notes
from memory.blocks.values import BlockAuthor
from openvibe.workspaces.models import Member
from tests import factories
from tests.factories import signed_in

HTMX = {"HX-Request": "true"}


def home(member: Member) -> str:
    return f"/w/{member.workspace.slug}/agents/vibe/"


def page_of(member: Member, path: str = "") -> str:
    response = signed_in(member).get(home(member) + path)
    assert response.status_code == 200
    return response.content.decode()


def send(member: Member, path: str, **said: Any) -> Any:
    return signed_in(member).post(home(member) + path, said, headers=HTMX)


def note(vibe: Agent, person: Member, text: str) -> ProfileNote:
    return store_notes(
        agent_id=vibe.participant_id, person_id=person.participant_id, text=text, by_id=vibe.participant_id, how="agent"
    )


@pytest.fixture
def own(vibe: Agent) -> ContextBlocks:
    return ContextBlocks(vibe.participant)


def test_blocks_stand_on_the_page_with_their_size(ana: Member, own: ContextBlocks) -> None:
    own.set("team", "We say <hello>.")
    page = page_of(ana)
    assert "We say &lt;hello&gt;." in page
    assert f"{own.list()[1].tokens} / 300 tokens" in page
    assert "Empty." in page
    assert "Make read-only" in page


def test_an_admin_makes_edits_locks_and_deletes(ana: Member, vibe: Agent) -> None:
    send(ana, "blocks/", label="customers", content="Big ones.", description="Who they are.", max_tokens="50")
    block = Block.objects.get()
    assert (block.content, block.description, block.max_tokens) == ("Big ones.", "Who they are.", 50)

    saved = send(ana, "blocks/customers/", do="save", seen=f"{block.pk}.1", content="Small ones.", max_tokens="60")
    assert "Small ones." in saved.content.decode()
    assert 'id="agent-blocks"' in saved.content.decode()
    locked = send(ana, "blocks/customers/", do="lock", seen=f"{block.pk}.2").content.decode()
    assert "Allow edits" in locked
    assert 'aria-label="Edit customers"' not in locked
    refused = send(ana, "blocks/customers/", do="delete", seen=f"{block.pk}.3")
    assert refused.status_code == 403
    assert "Block &quot;customers&quot; is readonly" in refused.content.decode()
    send(ana, "blocks/customers/", do="unlock", seen=f"{block.pk}.3")
    send(ana, "blocks/customers/", do="delete", seen=f"{block.pk}.4")
    assert not Block.objects.exists()


def test_without_javascript_one_comes_back_to_the_page(ana: Member, vibe: Agent) -> None:
    response = signed_in(ana).post(f"{home(ana)}blocks/team/", {"do": "save", "seen": "0", "content": "Hello."})
    assert (response.status_code, response.headers["Location"]) == (302, f"{home(ana)}#agent-blocks")
    assert "Hello." in page_of(ana, "blocks/")


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_what_was_typed_is_kept_when_it_is_refused(ana: Member, own: ContextBlocks, headers: dict[str, str]) -> None:
    first = own.set("team", "Before.")
    own.set("team", "Meanwhile.")
    client = signed_in(ana)
    for said, status, words in (
        ({"seen": first.stamp, "content": "Mine, typed."}, 409, "changed somewhere else meanwhile"),
        ({"seen": own.list()[1].stamp, "content": "Mine, typed." * 300}, 400, "Content exceeds maxTokens"),
        ({"seen": own.list()[1].stamp, "content": "Mine, typed.", "max_tokens": "x"}, 400, "from 1 to 2000"),
    ):
        answer = client.post(f"{home(ana)}blocks/team/", {"do": "save", **said}, headers=headers)
        page = answer.content.decode()
        assert (answer.status_code, words in page, "Mine, typed." in page) == (status, True, True)
        assert "Meanwhile." in page
        assert 'role="alert"' in page
        assert answer.headers["HX-Retarget"] == "#agent-blocks"
    assert own.list()[1].content == "Meanwhile."


def test_a_new_block_that_is_refused_keeps_its_words(ana: Member, own: ContextBlocks) -> None:
    own.set("mine", "There.")
    for label, status in (("Bad Label", 400), ("mine", 409)):
        answer = send(ana, "blocks/", label=label, content="Typed words.", description="For what.")
        page = answer.content.decode()
        assert answer.status_code == status
        assert all(words in page for words in (f'value="{label}"', "Typed words.", 'value="For what."'))


@pytest.mark.parametrize("label", ["\x00", "Größe", "tools", "a" * 41, ""])
def test_a_label_that_is_none_is_refused(ana: Member, vibe: Agent, label: str) -> None:
    answer = send(ana, "blocks/", label=label, content="x")
    assert answer.status_code == 400
    assert "A label begins with a small letter" in answer.content.decode()


def test_versions_say_who_and_when_and_are_restored(ana: Member, own: ContextBlocks, vibe: Agent) -> None:
    own.set("team", "First words.")
    ContextBlocks(vibe.participant, author=BlockAuthor(ana.participant_id, "page", configures=True)).set(
        "team", "Second words.", max_tokens=99
    )
    page = page_of(ana, "blocks/team/")
    assert all(words in page for words in ("First words.", "Second words.", "Ana", "<bdi>Vibe</bdi> in a conversation"))
    block = Block.objects.get()
    send(ana, "blocks/team/", do="restore", number="1", seen=f"{block.pk}.2")
    block.refresh_from_db()
    assert (block.content, block.version, block.max_tokens) == ("First words.", 3, 99)
    for number, stamp, status in (("9", "3", 404), ("x", "3", 404), ("1", "2", 409)):
        answer = send(ana, "blocks/team/", do="restore", number=number, seen=f"{block.pk}.{stamp}")
        assert answer.status_code == status


def test_members_read_blocks_and_do_not_change_them(dora: Member, own: ContextBlocks) -> None:
    own.set("team", "We say hello.")
    page = page_of(dora)
    assert "We say hello." in page
    assert "Owners, admins and the agent itself change them." in page
    assert all(words not in page for words in ("New block", "Make read-only", 'aria-label="Edit team"'))
    assert "We say hello." in page_of(dora, "blocks/team/")
    for path, said in (("blocks/", {"label": "a"}), ("blocks/team/", {"do": "save", "content": "x"})):
        assert send(dora, path, **said).status_code == 403
    assert own.list()[1].content == "We say hello."


@pytest.mark.parametrize("who", ["ben", "cleo"])
def test_who_does_not_know_the_agent_gets_the_answer_for_unknown(
    who: str, ana: Member, own: ContextBlocks, vibe: Agent, request: pytest.FixtureRequest
) -> None:
    own.set("team", "We say hello.")
    note(vibe, ana, "Likes roses.")
    stranger: Member = request.getfixturevalue(who)
    client = signed_in(stranger)
    for slug in {ana.workspace.slug, stranger.workspace.slug}:
        for path in ("blocks/", "blocks/team/", "notes/", "notes/ana/"):
            assert client.get(f"/w/{slug}/agents/vibe/{path}").status_code == 404
            response = client.post(f"/w/{slug}/agents/vibe/{path}", {"do": "clear", "label": "x"})
            assert response.status_code in (404, 405)


def test_signed_out_goes_to_the_door(client: Client, ana: Member, vibe: Agent) -> None:
    for path in ("blocks/", "blocks/team/", "notes/", "notes/ana/"):
        assert "/accounts/login/" in client.get(home(ana) + path).headers["Location"]


def test_a_deactivated_agent_is_only_read(ana: Member, own: ContextBlocks, vibe: Agent) -> None:
    own.set("team", "We say hello.")
    deactivate_agent(agent=vibe, by=factories.access(ana))
    page = page_of(ana)
    assert "We say hello." in page
    assert "New block" not in page
    assert send(ana, "blocks/team/", do="lock", seen=f"{Block.objects.get().pk}.1").status_code == 403


def test_a_verb_nobody_knows_is_refused(ana: Member, own: ContextBlocks, vibe: Agent) -> None:
    own.set("team", "We say hello.")
    note(vibe, ana, "Likes roses.")
    for path in ("blocks/team/", "notes/ana/"):
        assert send(ana, path, do="dance", seen="0").status_code == 400
    assert send(ana, "blocks/nothing/", do="delete", seen="0").status_code == 404


# --- notes ----------------------------------------------------------------------------------------------------
def test_admins_see_all_notes_and_members_their_own(ana: Member, dora: Member, vibe: Agent) -> None:
    note(vibe, ana, "Ana likes roses.")
    note(vibe, dora, "Dora likes tulips.")
    for page in (page_of(ana), page_of(ana, "notes/")):
        assert "Ana likes roses." in page
        assert "Dora likes tulips." in page
    for page in (page_of(dora), page_of(dora, "notes/")):
        assert "Notes about you" in page
        assert "Dora likes tulips." in page
        assert "Ana likes roses." not in page
    assert signed_in(dora).get(f"{home(dora)}notes/ana/").status_code == 404
    assert send(dora, "notes/ana/", do="clear", version="1").status_code == 404
    assert read_notes(vibe.participant_id, ana.participant_id) == "Ana likes roses."


def test_a_member_clears_what_was_noted_about_her_for_good(dora: Member, vibe: Agent) -> None:
    note(vibe, dora, "Dora earns little.")
    note(vibe, dora, "Dora likes tulips.")
    assert send(dora, "notes/dora/", do="save", text="Always right.", version="2").status_code == 403
    page = send(dora, "notes/dora/", do="clear", version="2").content.decode()
    assert "No notes about you." in page
    assert not CarriedVersion.objects.exclude(content="").exists()


def test_an_admin_corrects_and_restores_notes(ana: Member, dora: Member, vibe: Agent) -> None:
    note(vibe, dora, "Dora likes tulips.")
    page = send(ana, "notes/dora/", do="save", text="Dora likes roses.", version="1").content.decode()
    assert "Dora likes roses." in page
    versions = page_of(ana, "notes/dora/")
    assert "Dora likes tulips." in versions
    send(ana, "notes/dora/", do="restore", number="1", version="2")
    assert read_notes(vibe.participant_id, dora.participant_id) == "Dora likes tulips."
    assert send(ana, "notes/dora/", do="restore", number="7", version="3").status_code == 404


def test_many_notes_come_in_pages_and_a_change_stays_on_its_own(ana: Member, vibe: Agent) -> None:
    people = factories.write_members(ana.workspace, 60)
    for person in people:
        note(vibe, person, "Grows roses.")
    assert [page_of(ana, f"notes/?page={n}").count('<li class="carried-row"') for n in (1, 2, 3)] == [25, 25, 10]
    page = page_of(ana)
    assert page.count('<li class="carried-row" id="notes-') == 25
    assert f'href="{home(ana)}notes/?page=2"' in page
    last = max((member.participant for member in people), key=lambda person: person.name)
    answer = send(ana, f"notes/{last.handle}/", do="save", text="Grows lilies.", version=1).content.decode()
    assert "Grows lilies." in answer
    assert f'data-source="{home(ana)}notes/?page=3"' in answer


def test_notes_that_are_refused_keep_what_was_typed(ana: Member, dora: Member, vibe: Agent) -> None:
    note(vibe, dora, "Before.")
    note(vibe, dora, "Meanwhile.")
    for text, version, status in (("Mine, typed.", "1", 409), ("Mine, typed." * 400, "2", 400)):
        answer = send(ana, "notes/dora/", do="save", text=text, version=version)
        page = answer.content.decode()
        assert answer.status_code == status
        assert "Mine, typed." in page
        assert 'role="alert"' in page
    assert read_notes(vibe.participant_id, dora.participant_id) == "Meanwhile."


def test_the_same_queries_for_one_row_and_three(ana: Member, dora: Member, own: ContextBlocks, vibe: Agent) -> None:
    def cost(*paths: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            for path in paths:
                page_of(ana, path)
        return len(queries)

    paths = ("", "blocks/", "notes/", "blocks/a/", "notes/dora/")
    own.set("a", "x")
    note(vibe, dora, "One.")
    few = cost(*paths)
    for label in ("a", "b", "c"):
        own.set(label, "y")
    note(vibe, dora, "Two.")
    note(vibe, ana, "One.")
    assert cost(*paths) == few

"""Snippets: texts that instructions include; written by admins, refused where they could not be followed, recorded with
every prompt that held them."""

import pytest

from agents.models import Agent
from agents.prompts.assembler.assemble import assemble
from agents.prompts.snapshots.redaction import view_of_prompt
from memory.work.handoff import INSTRUCTIONS, create_handoff
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel, set_instructions, start_dive
from openvibe.workspaces.models import Member, Snippet
from openvibe.workspaces.services import create_snippet, delete_snippet, update_snippet, update_workspace
from tests.admin.conftest import as_superuser
from tests.factories import access, say, signed_in


def snippet(ana: Member, name: str, text: str) -> Snippet:
    return create_snippet(workspace=ana.workspace, by=access(ana), name=name, text=text)


def instruct(ana: Member, text: str) -> None:
    workspace = ana.workspace
    update_workspace(workspace=workspace, by=access(ana), name=workspace.name, description="", instructions=text)


def test_instructions_of_every_scope_include_them_and_the_prompt_records_which(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    tone = snippet(ana, "tone", "Answer in one sentence.")
    snippet(ana, "house", "Name the bed.\n@include tone")
    instruct(ana, "We garden.\n@include tone")
    set_instructions(scope=thread.channel, by=access(ana), text="@include house")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request="go")
    assert "We garden.\nAnswer in one sentence." in prompt.messages[0].content
    assert "Name the bed.\nAnswer in one sentence." in prompt.messages[0].content
    refs = {item.key: item.ref for item in prompt.included if item.section == "instructions"}
    assert refs["instructions:organisation"].endswith(f" snippet:{tone.pk}@1")
    assert refs["instructions:channel"].startswith(f"channel:{thread.channel_id}@")

    update_snippet(snippet=tone, by=access(ana), text="Answer in two sentences.", version=1)
    prompt = assemble(agent=vibe, thread=thread, task="mention", request="go")
    assert prompt.messages[0].content.count("two sentences") == 2
    assert any(f"snippet:{tone.pk}@2" in item.ref for item in prompt.included)
    handoff = create_handoff(thread=thread, trigger="hand")
    assert f"snippet:{tone.pk}@2" in [line["ref"] for line in handoff.sections[INSTRUCTIONS]]

    dive = start_dive(source=say(thread, ana, "Which mulch?"), by=access(ana), agent=vibe.participant)
    assert "Name the bed." in assemble(agent=vibe, thread=dive.thread, task="dive").messages[0].content


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("@include own", "include_cycle"),
        ("@include first", "include_cycle"),
        ("@include second", "include_too_deep"),
        ("@include nobody", "include_unknown"),
        ("@include two words", "include_unknown"),
        ("Be kind.\n@Include fourth", "include_miswritten"),
        ("@include fourth\n- @include third", "include_miswritten"),
        ("@include: fourth", "include_miswritten"),
        ("word " * 1_500 + "\n@include long", "include_too_long"),
        ("word " * 2_500, "too_long"),
    ],
)
def test_what_could_not_be_followed_is_refused_when_it_is_saved(ana: Member, text: str, code: str) -> None:
    own = snippet(ana, "own", "plain")
    snippet(ana, "first", "@include own")
    snippet(ana, "fourth", "4")
    snippet(ana, "third", "@include fourth")
    snippet(ana, "second", "@include third")
    snippet(ana, "long", "word " * 1_000)
    with pytest.raises(Problem, match="Nothing was") as problem:
        update_snippet(snippet=own, by=access(ana), text=text, version=1)
    assert problem.value.code == code
    own.refresh_from_db()
    assert (own.text, own.version) == ("plain", 1)


def test_a_change_that_would_break_instructions_elsewhere_names_them(ana: Member, thread: Thread) -> None:
    tone = snippet(ana, "tone", "Be brief.")
    set_instructions(scope=thread, by=access(ana), text="word " * 1_500 + "\n@include tone")
    with pytest.raises(Problem, match=f"the thread “{thread.title}”.*at most 2,000 fit"):
        update_snippet(snippet=tone, by=access(ana), text="word " * 1_000, version=1)
    with pytest.raises(Problem, match="no snippet “tone”"):
        delete_snippet(snippet=tone, by=access(ana))
    with pytest.raises(Conflict, match="changed meanwhile"):
        update_snippet(snippet=tone, by=access(ana), text="Be briefer.", version=7)
    set_instructions(scope=thread, by=access(ana), text="")
    delete_snippet(snippet=tone, by=access(ana))
    assert not Snippet.objects.exists()


def test_what_changed_behind_its_back_is_cut_and_said_but_not_to_guests(
    ana: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    snippet(ana, "secret-plan", "Never name the price.")
    instruct(ana, "We garden.\n@include secret-plan")
    Snippet.objects.all().delete()
    prompt = assemble(agent=vibe, thread=thread, task="mention", request="go")
    assert "@include" not in prompt.messages[0].content
    assert "We garden." in prompt.messages[0].content
    (cut,) = (item for item in prompt.dropped if item.section == "instructions")
    assert (cut.reason, "secret-plan" in cut.source) == ("include unknown", True)

    seen = view_of_prompt(prompt, access(ben))
    assert [item.source for item in seen.dropped] == ["instructions"]
    assert "We garden." not in str((seen.sections, seen.messages))


def test_members_see_them_where_they_hold_and_only_admins_write_them(
    ana: Member, dora: Member, ben: Member, thread: Thread
) -> None:
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    tone = snippet(ana, "tone", "Answer in one sentence.")
    instruct(ana, "We garden.")
    set_instructions(scope=thread, by=access(ana), text="@include tone")
    set_instructions(scope=thread.channel, by=access(ana), text="Name the bed.")
    home = f"/w/{thread.workspace.slug}"
    for page, texts in ((f"{home}/t/{thread.pk}/", 2), (f"{home}/c/{thread.channel_id}/members/", 1)):
        of_member, of_guest = (signed_in(one).get(page).content.decode() for one in (dora, ben))
        assert "We garden." in of_member
        assert "We garden." not in of_guest
        here = ["Name the bed.", "Answer in one sentence."][:texts]
        assert all(text in of_member and text in of_guest for text in here)
    for member in (dora, ben):
        with pytest.raises(Refused, match="Only owners and admins"):
            update_snippet(snippet=tone, by=access(member), text="x", version=1)
        assert signed_in(member).get(f"{home}/snippets/").status_code == 403
        assert signed_in(member).post(f"{home}/snippets/{tone.pk}/", {"text": "x", "version": 1}).status_code == 404


def test_the_page_keeps_what_it_refuses(ana: Member) -> None:
    page, browser = f"/w/{ana.workspace.slug}/snippets/", signed_in(ana)
    response = browser.post(page, {"name": "Tone!", "text": "Be brief."})
    assert response.status_code == 400
    assert "Be brief." in response.content.decode()
    assert browser.post(page, {"name": "tone", "text": "Be brief."}).status_code == 302
    one = Snippet.objects.get()
    response = browser.post(f"{page}{one.pk}/", {"text": "Be\n@include tone", "version": 1})
    assert "would include itself" in response.content.decode()
    assert browser.post(f"{page}{one.pk}/", {"text": "Be kind.", "version": 1}).status_code == 302
    assert "Be kind." in browser.get(page).content.decode()
    assert browser.post(f"{page}{one.pk}/", {"delete": "1"}).status_code == 302
    assert not Snippet.objects.exists()


def test_a_snippet_that_nobody_can_see_needs_a_text(ana: Member) -> None:
    with pytest.raises(Problem, match="A snippet needs a text"):
        snippet(ana, "tone", "\u202e\u200b")


def test_who_comes_second_sees_what_the_first_wrote_and_keeps_her_own_text(ana: Member) -> None:
    page, browser = f"/w/{ana.workspace.slug}/snippets/", signed_in(ana)
    one = snippet(ana, "tone", "Be brief.")
    update_snippet(snippet=one, by=access(ana), text="Be kind, says Dora.", version=1)
    response = browser.post(f"{page}{one.pk}/", {"text": "Be late.", "version": 1})
    assert response.status_code == 409
    assert all(text in response.content.decode() for text in ("Be late.", "What it says now", "Be kind, says Dora."))

    delete_snippet(snippet=one, by=access(ana))
    response = browser.post(f"{page}{one.pk}/", {"text": "Be late.", "version": 2})
    assert response.status_code == 404
    assert all(text in response.content.decode() for text in ("Be late.", "deleted meanwhile"))


def test_the_admin_writes_them_by_the_same_rules(ana: Member) -> None:
    browser = as_superuser(ana)
    form = {"workspace": ana.workspace_id, "name": "tone", "text": "@include tone", "version": 1}
    page = "/admin/workspaces/snippet/"
    assert "would include itself" in browser.post(f"{page}add/", form).content.decode()
    assert browser.post(f"{page}add/", {**form, "text": "Be brief."}).status_code == 302
    one = Snippet.objects.get()
    assert (one.text, one.version, one.changed_by) == ("Be brief.", 1, ana.participant)
    for version, text in ((1, "Be kind."), (1, "Be late.")):
        answer = browser.post(f"{page}{one.pk}/change/", {"text": text, "version": version})
    assert "was changed meanwhile" in answer.content.decode()
    one.refresh_from_db()
    assert (one.text, one.version) == ("Be kind.", 2)

"""Instructions of a channel and a thread: admins write them where one looks for them, whoever reads there sees them."""

import re

import pytest

from agents.models import Agent
from agents.prompts.assembler.assemble import assemble
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services import add_to_channel, set_instructions, start_dive
from openvibe.workspaces.models import Member, Workspace
from tests.api.conftest import token_client
from tests.factories import access, make_member, say, signed_in

RULE = "Answer in one sentence."


def test_only_admins_write_them_and_agents_follow_them(
    ana: Member, dora: Member, ben: Member, cleo: Member, vibe: Agent, thread: Thread
) -> None:
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    for member in (dora, ben, cleo):
        for scope in (thread, thread.channel):
            with pytest.raises(Refused, match="Only owners and admins"):
                set_instructions(scope=scope, by=access(member), text=RULE)
    set_instructions(scope=thread, by=access(ana), text=f"  {RULE}\n")
    set_instructions(scope=thread.channel, by=access(ana), text="Name the bed.")
    system = assemble(agent=vibe, thread=thread, task="mention", request="go").messages[0].content
    assert system.index("Name the bed.") < system.index(RULE)
    set_instructions(scope=thread, by=access(ana), text=" ")
    assert RULE not in assemble(agent=vibe, thread=thread, task="mention", request="go").messages[0].content


def test_too_long_ones_are_refused_with_their_numbers(ana: Member, thread: Thread) -> None:
    with pytest.raises(Problem, match=r"2,50\d tokens; at most 2,000 fit"):
        set_instructions(scope=thread, by=access(ana), text="word " * 2_500)
    with pytest.raises(Problem):
        set_instructions(scope=thread.channel, by=access(ana), text="a\x00b")
    thread.refresh_from_db()
    assert thread.instructions == ""


def test_a_dive_has_those_of_its_thread(ana: Member, vibe: Agent, thread: Thread) -> None:
    dive = start_dive(source=say(thread, ana, "Which mulch?"), by=access(ana), agent=vibe.participant)
    with pytest.raises(Refused):
        set_instructions(scope=dive.thread, by=access(ana), text=RULE)


def test_the_pages_show_them_to_readers_and_take_them_from_admins(ana: Member, dora: Member, thread: Thread) -> None:
    home = f"/w/{thread.workspace.slug}"
    edit = f"{home}/t/{thread.pk}/edit/"
    settings = f"{home}/c/{thread.channel_id}/edit/"
    assert signed_in(ana).post(edit, {"instructions": RULE}).status_code == 302
    assert signed_in(ana).post(settings, {"instructions": "Name the bed."}).status_code == 302
    page = f"{home}/t/{thread.pk}/"
    shown = signed_in(dora).get(page).content.decode()
    assert RULE in shown
    assert "Name the bed." in shown
    assert "Save instructions" not in shown
    assert "Save instructions" in signed_in(ana).get(page).content.decode()
    assert "Name the bed." in signed_in(ana).get(settings).content.decode()
    assert signed_in(dora).post(edit, {"instructions": "x"}).status_code == 403

    html = signed_in(ana).post(settings, {"instructions": "word " * 2_500}).content.decode()
    assert "at most 2,000 fit" in html
    assert "word word" in html
    assert f'value="{thread.channel.name}"' in html


def read_version(page: bytes) -> str:
    """The version of the first form of instructions on the page."""
    match = re.search(rb'name="version" value="([0-9a-f]{8})"', page)
    assert match
    return match[1].decode()


def test_of_two_who_edit_the_second_is_told_and_loses_no_word(ana: Member, thread: Thread) -> None:
    eve, home = make_member("Eve", ana.workspace, role="admin"), f"/w/{thread.workspace.slug}"
    workspace, channel = thread.workspace, thread.channel
    pages: list[tuple[str, str, Thread | Channel | Workspace]] = [
        (f"{home}/t/{thread.pk}/", f"{home}/t/{thread.pk}/edit/", thread),
        (f"{home}/c/{channel.pk}/edit/", f"{home}/c/{channel.pk}/edit/", channel),
        (f"{home}/settings/instructions/", f"{home}/settings/instructions/", workspace),
    ]
    for page, edit, row in pages:
        opened = {member: read_version(signed_in(member).get(page).content) for member in (ana, eve)}
        hers = {"instructions": "What Eve wrote first.", "version": opened[eve]}
        assert signed_in(eve).post(edit, hers).status_code == 302
        late = {"instructions": "What Ana wrote, at length.", "version": opened[ana]}
        answer = signed_in(ana).post(edit, late)
        text = answer.content.decode()
        assert answer.status_code == 409, page
        assert "changed meanwhile" in text
        assert "What Ana wrote, at length." in text
        row.refresh_from_db()
        assert row.instructions == "What Eve wrote first.", page
        if row is not thread:
            assert text.count("What Eve wrote first.") == 1  # beside what Ana wrote; saved again, hers goes
            assert signed_in(ana).post(edit, {**late, "version": read_version(answer.content)}).status_code == 302
    beds = f"{home}/settings/instructions/"
    listed = {"channel": channel.pk, "instructions": "Late, in the list.", "version": "00000000"}
    answer = signed_in(ana).post(beds, listed)
    assert (answer.status_code, b"Late, in the list." in answer.content) == (409, True)


def test_what_was_written_for_a_channel_that_is_gone_is_kept_and_offered_to_no_other_place(
    ana: Member, thread: Thread
) -> None:
    page, channel = f"/w/{thread.workspace.slug}/settings/instructions/", thread.channel
    set_instructions(scope=channel, by=access(ana), text="Name the bed.")
    lost = {"channel": channel.pk + 999, "instructions": "Only for the people of the beds.", "version": "00000000"}
    for _ in range(2):  # where every other channel has instructions of its own, and where one has none
        answer = signed_in(ana).post(page, lost)
        text = answer.content.decode()
        assert answer.status_code == 404
        assert text.count("Only for the people of the beds.") == 1
        assert "There is no such channel any more, or it is not visible to you. Nothing was saved" in text
        organisation, channels = text.split('<section class="apart"><h2>Channels</h2>')
        assert "Only for the people of the beds." not in organisation
        assert re.search(r'<option value="" selected>', channels)
        set_instructions(scope=channel, by=access(ana), text="")


def test_the_api_says_which_version_was_read_and_is_told_the_same(ana: Member, thread: Thread) -> None:
    api = token_client(ana.participant)
    for path in ("workspace/", f"channels/{thread.channel_id}/", f"threads/{thread.pk}/"):
        version = api.get(path).json()["instructions_version"]
        change = {"instructions": RULE, "instructions_version": version}
        saved = api.patch(path, change)
        assert (saved.status_code, saved.json()["instructions"]) == (200, RULE), path
        stale = api.patch(path, {**change, "instructions": "Mine."})
        assert (stale.status_code, stale.json()["code"]) == (409, "changed_meanwhile"), path
        newer = {"instructions": "Mine.", "instructions_version": saved.json()["instructions_version"]}
        assert api.patch(path, newer).json()["instructions"] == "Mine."
        assert api.patch(path, {"instructions": ""}).status_code == 200  # who does not say is not asked

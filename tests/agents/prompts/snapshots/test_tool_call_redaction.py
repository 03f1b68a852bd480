"""The people who see what a run called, on the page and through the API, and for how long."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Agent, Run, ToolCall
from agents.prompts.snapshots.redaction import CALL_QUOTES_DELETED, CALL_QUOTES_NOTES, visible_tool_calls
from agents.tasks import expire_records_task
from knowledge.services import update_entry
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel, delete_message, start_dive
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import LOG, ask, calling, told
from tests.factories import access, make_agent, make_channel, make_entry, make_thread, say, signed_in

PROFILE = ("memory", {"action": "profile_update", "text": "Dora is allergic to bees."})


@pytest.fixture
def called(ana: Member, vibe: Agent, thread: Thread) -> Run:
    run = ask(thread, ana)
    told(run, calling(LOG, ("spade", {})), "In March.")
    return run


def test_the_viewer_lists_the_calls(ana: Member, called: Run) -> None:
    client = signed_in(ana)
    page = client.get(f"/w/{ana.workspace.slug}/runs/{called.pk}/context/tools/").content.decode()
    assert "log_progress" in page
    assert "Bed 1 is mulched" in page
    assert "There is no tool" in page
    assert "Tool calls (2)" in client.get(f"/w/{ana.workspace.slug}/runs/{called.pk}/context/").content.decode()


def test_a_preview_has_no_calls_to_show(ana: Member, vibe: Agent, thread: Thread) -> None:
    client = signed_in(ana)
    assert client.get(f"/w/{ana.workspace.slug}/t/{thread.pk}/preview/vibe/").status_code == 200
    assert client.get(f"/w/{ana.workspace.slug}/t/{thread.pk}/preview/vibe/tools/").status_code == 404


def test_the_api_gives_the_same(ana: Member, called: Run) -> None:
    said = visible_tool_calls(called, access(ana))
    assert [(call.name, call.decision, call.round, call.hidden) for call in said] == [
        ("log_progress", "allowed", 1, ""),
        ("spade", "refused", 1, ""),
    ]
    assert said[0].result.startswith("Logged as progress:")


def test_after_a_deletion_nothing_that_may_quote_it_is_shown(ana: Member, thread: Thread, vibe: Agent) -> None:
    secret = say(thread, ana, "The vault code is tulip.")
    run = ask(thread, ana)
    told(run, calling(("memory", {"action": "search", "query": "vault"})), "In March.")
    assert "tulip" in visible_tool_calls(run, access(ana))[0].result
    delete_message(message=secret, by=access(ana))
    (call,) = visible_tool_calls(run, access(ana))
    assert (call.result, call.arguments, call.hidden) == ("", "", CALL_QUOTES_DELETED)


def test_notes_about_a_person_are_for_that_person_and_admins(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, dora)
    told(run, calling(PROFILE), "Noted.")
    other = ask(thread, ana)
    told(other, calling(PROFILE), "Noted.")
    assert visible_tool_calls(run, access(dora))[0].hidden == ""
    assert visible_tool_calls(run, access(ana))[0].hidden == ""
    (call,) = visible_tool_calls(other, access(dora))
    assert (call.arguments, call.result, call.hidden) == ("", "", CALL_QUOTES_NOTES)


def test_results_are_emptied_after_thirty_days(ana: Member, called: Run) -> None:
    ToolCall.objects.filter(name="spade").update(created_at=timezone.now() - timedelta(days=31))
    expire_records_task()
    emptied = {call.name: call.result == "" for call in visible_tool_calls(called, access(ana))}
    assert emptied == {"log_progress": False, "spade": True}
    assert called.tool_calls.get(name="spade").result_tokens > 0


def test_dives_from_a_message_that_was_deleted_quote_it_no_more(ana: Member, thread: Thread, vibe: Agent) -> None:
    source = say(thread, ana, "The vault code is tulip.")
    dive = start_dive(source=source, by=access(ana), agent=vibe.participant, body="Remember it.")
    run = Run.objects.get(thread=dive.thread)
    told(run, calling(("log_progress", {"checkpoint": "The code is tulip"})), "Done.")
    delete_message(message=source, by=access(ana))

    (call,) = visible_tool_calls(run, access(ana))
    assert (call.arguments, call.result) == ("", "")


def test_knowledge_that_was_restricted_when_it_was_read_stays_with_those_who_could_read_it(
    ana: Member, dora: Member
) -> None:
    """Dora reads the thread only afterwards: before her eyes it would not have been read."""
    thread = make_thread(make_channel(ana, "den", private=True), ana)
    make_agent(ana, "max", level=4, channel=thread.channel)
    deal = make_entry(ana, "Starter deal", "Acme pays ZQX9 for Starter.", visibility="restricted")
    run = ask(thread, ana, "@max what does Acme pay for Starter?")
    told(run, calling(("knowledge_search", {"query": "Acme Starter"})), "Enough.")
    update_entry(entry=deal, by=access(ana), content="Acme is a customer.", visibility="shared")
    add_to_channel(channel=thread.channel, participant=dora.participant, by=access(ana))

    address = f"/w/{ana.workspace.slug}/runs/{run.pk}/context/"
    for tab, holds in (("", True), ("dropped/", False), ("raw/", True), ("tools/", True)):
        assert ("ZQX9" in signed_in(ana).get(address + tab).content.decode()) == holds, tab
        assert "ZQX9" not in signed_in(dora).get(address + tab).content.decode(), tab


def test_the_topic_of_an_entry_that_was_restricted_since_is_shown_no_more(
    ana: Member, dora: Member, thread: Thread
) -> None:
    make_agent(ana, "max", level=4, channel=thread.channel)
    deal = make_entry(ana, "Takeover of ZQX9", "It is in May.")
    run = ask(thread, ana, "@max when do I prune?")
    told(run, "In March.")
    address = f"/w/{ana.workspace.slug}/runs/{run.pk}/context/raw/"
    assert "ZQX9" in signed_in(dora).get(address).content.decode()

    update_entry(entry=deal, by=access(ana), visibility="restricted")
    assert "ZQX9" not in signed_in(dora).get(address).content.decode()
    assert "ZQX9" in signed_in(ana).get(address).content.decode()

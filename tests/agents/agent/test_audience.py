"""The audience of a tool's results: one rule for later prompts, the viewer and the API."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from agents.agent.access import visible_to
from agents.agent.audience import CallSource, reusable_calls, visible_calls
from agents.agent.services import set_trust_level
from agents.models import Agent, Run, ToolCall
from agents.prompts.assembler.stack import MORE_TOOLS
from agents.prompts.snapshots.redaction import CALL_WITHOUT_AUDIENCE, read_snapshot, visible_tool_calls
from agents.tools import toolbox
from agents.tools.toolbox import TOOLS, Toolbox
from agents.tools.values import Tool, ToolContext, ToolRegistration, tool_spec
from knowledge.services import archive_entry, update_entry
from memory.blocks.services import update_notes
from openvibe.chat.models import Thread, reread_visibility
from openvibe.chat.services import remove_from_channel
from openvibe.workspaces.models import Member
from tests.agents.conftest import WriteFile
from tests.agents.runs.scripted_runs import LOG, ask, calling, told
from tests.agents.tools.tool_calls import call, written
from tests.factories import access, attach, make_agent, make_entry

SECRET = "Dora is allergic to bees."
NOTE = ("memory", {"action": "profile_update", "text": SECRET})
LOOK = ("memory", {"action": "profile_get"})


def prompt_of(run: Run) -> str:
    return "\n".join(message.content for message in told(run, "Yes.").calls[0].messages)


def pages_of(run: Run, reader: Member) -> str:
    client = Client()
    client.force_login(reader.user)
    address = f"/w/{reader.workspace.slug}/runs/{run.pk}/context/"
    return "".join(client.get(address + tab).content.decode() for tab in ("", "dropped/", "raw/", "tools/"))


def test_notes_about_one_person_are_not_read_while_another_is_answered(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    told(ask(thread, dora), calling(NOTE, LOOK), "Noted.")

    assert "bees" not in prompt_of(ask(thread, ana))
    assert "bees" in prompt_of(ask(thread, dora))


def test_notes_in_a_later_prompt_are_shown_to_that_person_and_admins(
    ana: Member, ben: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    thread.channel.memberships.create(participant=ben.participant)
    told(ask(thread, dora), calling(NOTE, LOOK), "Noted.")
    later = ask(thread, dora)
    assert "bees" in prompt_of(later)

    assert "bees" in pages_of(later, dora)
    assert "bees" in pages_of(later, ana)
    assert "bees" not in pages_of(later, ben)
    view = read_snapshot(later, access(ben))
    assert view is not None
    hidden = [item for section in view.sections for item in section.items if item.hidden and item.section != "soul"]
    assert len(hidden) == 3  # the notes, and both calls


def test_notes_that_were_cleared_are_in_no_later_prompt(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    told(ask(thread, dora), calling(NOTE, LOOK), "Noted.")
    update_notes(agent=vibe.participant, person=dora.participant, by=access(dora), text="", how="page")

    later = ask(thread, dora)
    assert "bees" not in prompt_of(later)
    for run in Run.objects.all():
        assert "bees" not in pages_of(run, ana)


def test_knowledge_is_shown_to_whom_may_read_it_at_this_moment(ana: Member, dora: Member, thread: Thread) -> None:
    max_ = make_agent(ana, "max", level=4, channel=thread.channel)
    entry = make_entry(ana, "Prices", "Starter costs ZQX9.")
    run = ask(thread, ana, "@max what does Starter cost?")
    told(run, calling(("knowledge_search", {"query": "Starter"})), "Enough.")
    assert "ZQX9" in visible_tool_calls(run, access(dora))[0].result

    update_entry(entry=entry, by=access(ana), visibility="restricted")
    assert visible_tool_calls(run, access(dora))[0].result == ""
    assert "ZQX9" in visible_tool_calls(run, access(ana))[0].result
    set_trust_level(agent=max_, by=access(ana), level=3, note="Too eager.")
    max_.refresh_from_db()
    assert not visible_calls(visible_to(max_)).exists()


def test_an_agent_that_left_the_channel_reads_nothing_of_what_it_read_there(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, ana)
    told(run, calling(LOG), "In March.")
    agent = visible_to(vibe)
    assert reusable_calls(agent, ana.participant_id).exists()

    remove_from_channel(channel=thread.channel, participant=vibe.participant, by=access(ana))
    assert not reusable_calls(reread_visibility(agent), ana.participant_id).exists()
    assert not visible_calls(reread_visibility(agent)).exists()


def test_every_tool_says_what_its_calls_tell_of(ana: Member, thread: Thread, skill: WriteFile) -> None:
    """A call that is refused says it too, and one whose arguments cannot be read."""
    skill("pruning", "# Pruning\nIn March.", folder="sage")
    sage = make_agent(ana, "sage", level=4, channel=thread.channel)
    attach(thread, ana, plan_md="Prune in March.")
    box = Toolbox.for_agent(sage, thread, run=ask(thread, ana, "@sage hello"))
    assert set(box.tools) == {registration.name for registration in TOOLS} | {MORE_TOOLS}
    for name in box.tools:
        for attempt in (call(name), written(name, "no JSON")):
            assert CallSource("thread", thread.pk) in box.execute(attempt).sources, name


def blabber(context: ToolContext) -> Tool:
    def run(arguments: Mapping[str, Any]) -> str:
        return "The vault code is tulip."

    return Tool(tool_spec("blabber", "Says something.", required={}), run)


def test_what_a_tool_returns_that_says_nothing_of_its_audience_is_for_nobody(
    ana: Member, vibe: Agent, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolbox, "TOOLS", (*TOOLS, ToolRegistration("blabber", blabber, "reads")))
    run = ask(thread, ana)
    told(run, calling(("blabber", {})), "Done.")
    assert "tulip" in ToolCall.objects.get().result

    (seen,) = visible_tool_calls(run, access(ana))
    assert (seen.arguments, seen.result, seen.hidden) == ("", "", CALL_WITHOUT_AUDIENCE)
    assert "tulip" not in pages_of(run, ana)
    assert "tulip" not in prompt_of(ask(thread, ana))


def test_an_archived_entry_is_in_no_later_prompt_and_people_still_read_it(ana: Member, thread: Thread) -> None:
    make_agent(ana, "max", level=4, channel=thread.channel)
    entry = make_entry(ana, "Prices", "Starter costs ZQX9.")
    run = ask(thread, ana, "@max what does Starter cost?")
    told(run, calling(("knowledge_search", {"query": "Starter"})), "Enough.")
    archive_entry(entry=entry, by=access(ana))

    assert "ZQX9" not in prompt_of(ask(thread, ana, "@max and now?"))
    assert "ZQX9" in visible_tool_calls(run, access(ana))[0].result


def test_calls_cost_as_many_queries_as_one(
    ana: Member, vibe: Agent, thread: Thread, django_assert_max_num_queries: Any
) -> None:
    run = ask(thread, ana)
    told(run, calling(LOG, LOOK, ("knowledge_suggest", {})), "In March.")
    reader = access(ana)
    with django_assert_max_num_queries(5):
        assert len(visible_tool_calls(run, reader)) == 3

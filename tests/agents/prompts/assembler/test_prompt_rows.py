"""One statement reads what a prompt needs; what is seen stays defined where it always was."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.agent.access import visible_to
from agents.models import Agent
from agents.prompts.assembler.assemble import assemble
from agents.prompts.assembler.prompt_rows import FRAGMENTS, read_prompt_rows
from agents.prompts.assembler.sections.blocks import BLOCKS, PROFILE_NOTES
from agents.prompts.assembler.sections.episodes import EPISODES
from agents.prompts.assembler.sections.history import enabled_plugin
from agents.prompts.assembler.sections.work import WORK_ITEMS
from memory.blocks.models import ProfileNote
from memory.episodes.services import give_feedback
from openvibe.chat.models import Message, Thread, visibility_of
from openvibe.chat.search.thread import MAX_FULL_SCAN_MESSAGES as SPAN
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_channel, make_thread, say
from tests.memory.factories import BlockFactory, WorkItemFactory


def found(of: Access, thread: Thread) -> Mapping[str, Any] | None:
    return read_prompt_rows(of, thread_id=thread.pk, person_id=None)


def test_it_sees_exactly_what_visible_to_sees(ana: Member, ben: Member, dora: Member, cleo: Member) -> None:
    public, den = make_channel(ana), make_channel(ana, "den", private=True)
    agents = [make_agent(ana, f"agent{level}", level=level) for level in (1, 2, 3, 4)]
    inside = [make_agent(ana, f"inside{level}", level=level, channel=den) for level in (1, 2, 3, 4)]
    public.memberships.create(participant=ben.participant)
    threads = [make_thread(channel, ana, kind) for channel, kind in product((public, den), Thread.Access.values)]
    for thread in threads:
        Thread.objects.filter(pk=thread.pk).update(access=thread.title)
        thread.allowed_agents.add(agents[1].participant, inside[1].participant, agents[3].participant)
    askers = [access(member) for member in (ana, ben, dora, cleo)]
    askers += [visible_to(agent) for agent in (*agents, *inside)]
    for asker, thread in product(askers, threads):
        sees = Thread.objects.visible_to(asker).filter(pk=thread.pk).exists()
        assert (found(asker, thread) is not None) == sees, (asker, thread.title)


def test_it_is_one_query_however_much_there_is(ana: Member, vibe: Agent, thread: Thread) -> None:
    for rows in (1, 3):
        for n in range(rows):
            answer = Message.objects.create(thread=thread, author=vibe.participant, body=f"Answer {n}")
            give_feedback(message=answer, by=access(ana), verdict="down", text=f"Shorter, {n}.")
        agent = visible_to(vibe)
        visibility_of(agent)
        with CaptureQueriesContext(connection) as queries:
            assert found(agent, thread) is not None
        assert len(queries) == 1


def test_it_reads_what_the_agent_carries_and_what_is_open_here(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    answer = Message.objects.create(thread=thread, author=vibe.participant, body="five")
    give_feedback(message=answer, by=access(ana), verdict="down", text="Say the month.")
    BlockFactory.create(agent=vibe.participant, label="team", content="Ana prunes.", tokens=4)
    for person in (ana, dora):
        ProfileNote.objects.create(agent=vibe.participant, person=person.participant, content=f"About {person}")
    for state, text in (("open", "Water the roses"), ("done", "Buy mulch")):
        closed = None if state == "open" else timezone.now()
        WorkItemFactory.create(
            thread=thread, kind="todo", text=text, state=state, author=ana.participant, closed_at=closed
        )

    seen = read_prompt_rows(visible_to(vibe), thread_id=thread.pk, person_id=dora.participant_id)

    assert seen is not None
    assert [(e.text, e.feedback_author, e.is_usable) for e in EPISODES.all(seen)] == [("Say the month.", "Ana", True)]
    assert [block.content for block in BLOCKS.all(seen)] == ["Ana prunes."]
    assert [notes.person_id for notes in PROFILE_NOTES.all(seen)] == [dora.participant_id]
    assert [(row.kind, row.text, row.author) for row in WORK_ITEMS.all(seen)] == [("todo", "Water the roses", "Ana")]
    assert enabled_plugin(seen) == ("memory/lcm", {})


def test_every_part_of_the_statement_has_a_name_of_its_own() -> None:
    names = ["thread", *(rows.name for rows in FRAGMENTS)]
    assert len(set(names)) == len(names)


def test_it_works_where_connections_are_shared(
    ana: Member, vibe: Agent, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(thread, ana, "hello")
    prepared = found(visible_to(vibe), thread)
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    assert found(visible_to(vibe), thread) == prepared


def test_a_rare_word_is_found_however_long_ago_it_was_said(ana: Member, vibe: Agent, thread: Thread) -> None:
    talk = "roses want water and mulch " * 4
    bodies = [
        "The spare key of the Harbour roof hangs behind the pump.",
        *[f"Row {n}: {talk}" for n in range(SPAN + 60)],
    ]
    Message.objects.bulk_create(
        Message(thread=thread, seq=seq, author=ana.participant, body=body, token_count=25)
        for seq, body in enumerate(bodies, start=1)
    )
    Thread.objects.filter(pk=thread.pk).update(last_seq=len(bodies))
    question = say(thread, ana, "@vibe where is the spare key of the Harbour roof, by the roses?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    assert any("behind the pump" in entry.text for entry in prompt.included if entry.section == "recall")

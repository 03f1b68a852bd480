"""What a prompt reads of the database: what may be seen stays defined where it always was."""

from itertools import product

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.agent.access import visible_to
from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.sections.episodes import MAX_EPISODES
from agents.prompts.assembler.sections.request import read_thread
from memory.blocks.models import ProfileNote
from memory.episodes.services import give_feedback
from openvibe.base.problems import Missing
from openvibe.chat.models import Message, Thread
from openvibe.chat.search.thread import MAX_FULL_SCAN_MESSAGES as SPAN
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_channel, make_thread, say
from tests.memory.factories import BlockFactory, EpisodeFactory, WorkItemFactory

MAX_STATEMENTS = 30
"""Statements of a prompt in a thread that stands whole, where nothing is known."""


def sees(asker: Access, thread: Thread) -> bool:
    try:
        return read_thread(asker, thread.pk).thread_id == thread.pk
    except Missing:
        return False


def wish(thread: Thread, ana: Member, vibe: Agent, text: str) -> None:
    """Feedback of Ana's on an answer."""
    answer = Message.objects.create(thread=thread, author=vibe.participant, body="five")
    give_feedback(message=answer, by=access(ana), verdict="down", text=text)


def texts(prompt: Prompt, section: str) -> str:
    return "\n".join(item.text for item in prompt.included if item.section == section)


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
        is_visible = Thread.objects.visible_to(asker).filter(pk=thread.pk).exists()
        assert sees(asker, thread) == is_visible, (asker, thread.title)


def test_it_takes_as_many_statements_however_much_there_is(ana: Member, vibe: Agent, thread: Thread) -> None:
    counts = []
    for rows in (1, 3, 3):
        for n in range(rows):
            wish(thread, ana, vibe, f"Shorter, {n} of {rows}.")
            WorkItemFactory.create(thread=thread, kind="todo", text=f"Weed {n}", author=ana.participant)
        with CaptureQueriesContext(connection) as queries:
            assemble(agent=vibe, thread=thread, task="mention", request="Roses?", asked_by=ana.participant)
        counts.append(len(queries))
    assert counts[1] == counts[2] <= MAX_STATEMENTS


def test_what_several_sections_need_is_read_once(ana: Member, vibe: Agent, thread: Thread) -> None:
    ana.workspace.instructions = "@include(style)"
    ana.workspace.save()
    with CaptureQueriesContext(connection) as queries:
        assemble(agent=vibe, thread=thread, task="mention", request="Roses?", asked_by=ana.participant)
    statements = [query["sql"] for query in queries]
    assert len(set(statements)) == len(statements)
    assert sum("workspaces_snippet" in statement for statement in statements) == 1


def test_it_reads_what_the_agent_carries_and_what_is_open_here(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    wish(thread, ana, vibe, "Say the month.")
    BlockFactory.create(agent=vibe.participant, label="team", content="Ana prunes.", tokens=4)
    for person in (ana, dora):
        ProfileNote.objects.create(agent=vibe.participant, person=person.participant, content=f"About {person}")
    for state, text in (("open", "Water the roses"), ("done", "Buy mulch")):
        closed = None if state == "open" else timezone.now()
        WorkItemFactory.create(
            thread=thread, kind="todo", text=text, state=state, author=ana.participant, closed_at=closed
        )

    prompt = assemble(agent=vibe, thread=thread, task="mention", request="Roses?", asked_by=dora.participant)

    assert "User Ana" in texts(prompt, "feedback")
    assert "Say the month." in texts(prompt, "feedback")
    assert "Ana prunes." in texts(prompt, "blocks")
    assert f"About {dora}" in texts(prompt, "profile")
    assert f"About {ana}" not in texts(prompt, "profile")
    assert "Water the roses" in texts(prompt, "work")
    assert "Buy mulch" not in texts(prompt, "work")


def test_older_feedback_comes_beside_newer_episodes_each_once(ana: Member, vibe: Agent, thread: Thread) -> None:
    for n in range(7):
        wish(thread, ana, vibe, f"Wish {n}.")
    for n in range(MAX_EPISODES):
        EpisodeFactory.create(agent=vibe.participant, kind="task_failed", subject=f"run:{n}", summary=f"Fault {n}.")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request="Roses?", asked_by=ana.participant)
    feedback = texts(prompt, "feedback")
    assert [f"Wish {n}." in feedback for n in range(7)] == [False, False, *[True] * 5]
    assert f"Fault {MAX_EPISODES - 1}." in texts(prompt, "episodes")


def test_it_works_where_connections_are_shared(
    ana: Member, vibe: Agent, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = say(thread, ana, "@vibe hello")
    prepared = assemble(agent=vibe, thread=thread, task="mention", request=question)
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    assert assemble(agent=vibe, thread=thread, task="mention", request=question) == prepared


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

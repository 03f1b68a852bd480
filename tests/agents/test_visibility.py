"""Random workspaces: no prompt, tool answer, stored prompt, search or preview says what its reader may not see.

Every text holds a word of its own, so whatever is shown tells where it comes from. What happens is drawn, narrowing
included: a level is lowered, a channel left, a thread closed, an entry restricted, a message deleted, notes cleared."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agents.agent.access import visible_to
from agents.agent.permissions import reply_denied_reason
from agents.agent.services import set_trust_level
from agents.api.prompt_serializers import AssembledOut
from agents.models import Agent, Run
from agents.prompts.assembler.assemble import assemble
from agents.prompts.snapshots.redaction import prompt_payload, read_snapshot, view_of_prompt, visible_tool_calls
from agents.runs.executor import execute_run
from agents.tools.toolbox import Toolbox
from knowledge.models import Entry
from knowledge.services import archive_entry, update_entry
from memory.blocks.services import store_notes, update_notes
from openvibe.chat.models import Attachment, Channel, Message, Thread
from openvibe.chat.queries import search_messages
from openvibe.chat.services import (
    add_to_channel,
    delete_message,
    erase_texts,
    publish_dive,
    remove_from_channel,
    set_thread_access,
    start_dive,
    update_message,
)
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import calling
from tests.agents.tools.tool_calls import call
from tests.engines.llm.scripted_client import ScriptedModel
from tests.examples import examples
from tests.factories import access, attach, make_agent, make_channel, make_entry, make_thread, say

WORD = re.compile(r"\bzq\d+x\b")
VERBS = (
    *("say", "attach", "ask", "enter", "note", "dive"),
    *("lower", "leave", "close", "restrict", "archive", "rewrite", "delete", "clear"),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=10
)


@dataclass
class World:
    """A workspace and where each telling word stands: the kind of its source, and the ids that it takes to find it."""

    people: list[Member]
    agents: list[Agent]
    channels: list[Channel]
    threads: list[Thread]
    sources: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def word(self) -> str:
        return f"zq{len(self.sources)}x"

    def keep(self, word: str, kind: str, source: Any) -> None:
        self.sources[word] = (kind, source)

    @property
    def ana(self) -> Member:
        return self.people[0]

    def may_post(self, person: Member, thread: Thread) -> bool:
        return Thread.objects.visible_to(access(person)).filter(pk=thread.pk).exists()


def say_something(world: World, a: int, b: int, c: int) -> None:
    person, thread = world.people[a % 3], world.threads[b % len(world.threads)]
    if world.may_post(person, thread):
        word = world.word()
        world.keep(word, "message", say(thread, person, f"The roses say {word} today.").pk)


def attach_a_file(world: World, a: int, b: int, c: int) -> None:
    person, thread = world.people[a % 3], world.threads[b % len(world.threads)]
    if world.may_post(person, thread):
        word = world.word()
        world.keep(word, "message", attach(thread, person, "Roses.", **{f"{word}_md": f"Roses want {word}."}).pk)


def read_everything() -> list[dict[str, int]]:
    """Arguments of `read_file` for every file there is, wherever it is."""
    return [{"id": pk} for pk in Attachment.objects.order_by("pk").values_list("pk", flat=True)]


def ask_an_agent(world: World, a: int, b: int, c: int) -> None:
    """The agent looks at everything it can reach."""
    person, thread, agent = world.people[a % 3], world.threads[b % len(world.threads)], world.agents[c % 4]
    if not world.may_post(person, thread) or thread.parent_id is not None:
        return
    word = world.word()
    message = say(thread, person, f"@{agent.handle} what of the roses, {word}?")
    world.keep(word, "message", message.pk)
    for run in Run.objects.filter(trigger=message, agent=agent):
        looks: list[tuple[str, object]] = [
            ("memory", {"action": "search", "query": "roses"}),
            ("memory", {"action": "profile_get"}),
        ]
        looks += [("knowledge_search", {"query": "roses"}), ("log_progress", {"checkpoint": "Looked"})]
        looks += [("read_file", arguments) for arguments in read_everything()[-1:]]
        execute_run(run.pk, client=ScriptedModel([calling(*looks), "Done."]))


def write_entry(world: World, a: int, b: int, c: int) -> None:
    word = world.word()
    visibility = "restricted" if b % 2 else "shared"
    entry = make_entry(world.ana, f"Roses {word}", f"Roses need {word}.", visibility=visibility)
    world.keep(word, "entry", entry.pk)


def note_something(world: World, a: int, b: int, c: int) -> None:
    person, agent, word = world.people[a % 3].participant, world.agents[c % 4].participant, world.word()
    note = store_notes(agent_id=agent.pk, person_id=person.pk, text=f"Likes {word}.", by_id=agent.pk, how="agent")
    world.keep(word, "notes", (agent.pk, note.person_id))


def publish_a_result(world: World, a: int, b: int, c: int) -> None:
    thread, agent = world.threads[b % len(world.threads)], world.agents[c % 4]
    agent.refresh_from_db()
    source = Message.objects.filter(thread=thread, deleted_at=None, kind="text").first()
    may_ask = reply_denied_reason(agent, thread, "dive") is None
    if source is None or not may_ask or not world.may_post(world.ana, thread) or thread.parent_id is not None:
        return
    dive = start_dive(source=source, by=access(world.ana), agent=agent.participant, body="Why the roses?")
    Run.objects.filter(thread=dive.thread).update(state=Run.State.STOPPED)
    word = world.word()
    result = ResultDraft(f"Roses want {word}", ("One", "Two", "Three"), f"Roses {word}", (), ())
    world.keep(word, "message", publish_dive(dive=dive, by=access(world.ana), result=result).pk)


def lower_a_level(world: World, a: int, b: int, c: int) -> None:
    agent = world.agents[c % 4]
    agent.refresh_from_db()
    if agent.level > 1:
        set_trust_level(agent=agent, by=access(world.ana), level=agent.level - 1, note="Too eager.")


def leave_a_channel(world: World, a: int, b: int, c: int) -> None:
    who = world.agents[c % 4].participant if a % 2 else world.people[2].participant
    channel = world.channels[b % 2]
    if channel.memberships.filter(participant=who).exists():
        remove_from_channel(channel=channel, participant=who, by=access(world.ana))
    else:
        add_to_channel(channel=channel, participant=who, by=access(world.ana))


def close_a_thread(world: World, a: int, b: int, c: int) -> None:
    thread, kind = world.threads[b % len(world.threads)], Thread.Access.values[a % 3]
    allowed = [world.agents[c % 4].participant] if kind == Thread.Access.AGENT_RESTRICTED else []
    set_thread_access(thread=thread, by=access(world.ana), access=kind, allowed_agents=allowed)


def an_entry(world: World, number: int) -> Entry | None:
    entries = list(Entry.objects.filter(workspace=world.ana.workspace, status="active").order_by("pk"))
    return entries[number % len(entries)] if entries else None


def restrict_an_entry(world: World, a: int, b: int, c: int) -> None:
    if entry := an_entry(world, a):
        update_entry(entry=entry, by=access(world.ana), visibility="restricted")


def archive_an_entry(world: World, a: int, b: int, c: int) -> None:
    if entry := an_entry(world, a):
        archive_entry(entry=entry, by=access(world.ana))


def a_message(world: World, number: int) -> Message | None:
    messages = Message.objects.filter(
        thread__in=world.threads, deleted_at=None, kind="text", state="complete", author=world.ana.participant
    )
    rows = list(messages.select_related("thread").order_by("pk"))
    return rows[number % len(rows)] if rows else None


def rewrite_a_message(world: World, a: int, b: int, c: int) -> None:
    if message := a_message(world, a):
        word = world.word()
        for known in WORD.findall(message.body):
            world.keep(known, "former", message.pk)
        world.keep(word, "message", message.pk)
        update_message(message=message, by=access(world.ana), body=f"The roses say {word} now.")


def delete_a_message(world: World, a: int, b: int, c: int) -> None:
    if message := a_message(world, a):
        delete_message(message=message, by=access(world.ana))


def clear_notes(world: World, a: int, b: int, c: int) -> None:
    person, agent = world.people[a % 3], world.agents[c % 4].participant
    update_notes(agent=agent, person=person.participant, by=access(person), text="", how="page")
    for word, (kind, source) in list(world.sources.items()):
        if (kind, source) == ("notes", (agent.pk, person.participant_id)):
            world.keep(word, "gone", None)


ACTIONS: dict[str, Callable[[World, int, int, int], None]] = {
    "say": say_something,
    "attach": attach_a_file,
    "ask": ask_an_agent,
    "enter": write_entry,
    "note": note_something,
    "dive": publish_a_result,
    "lower": lower_a_level,
    "leave": leave_a_channel,
    "close": close_a_thread,
    "restrict": restrict_an_entry,
    "archive": archive_an_entry,
    "rewrite": rewrite_a_message,
    "delete": delete_a_message,
    "clear": clear_notes,
}


def readers_of(world: World, thread: Thread, agent: Agent) -> list[Access]:
    """Everybody else who reads what the agent answers there, found one by one."""
    agents = [visible_to(Agent.objects.get(pk=other.pk)) for other in world.agents if other.pk != agent.pk]
    return [
        reader
        for reader in (*map(access, world.people), *agents)
        if Thread.objects.visible_to(reader).filter(pk=thread.pk).exists()
    ]


def untold(world: World, text: str, readers: list[Access]) -> list[str]:
    """Words of restricted knowledge that stand there and that one of the readers may not see."""
    entries = {word: world.sources[word][1] for word in set(WORD.findall(text)) if world.sources[word][0] == "entry"}
    restricted = Entry.objects.filter(pk__in=entries.values(), visibility="restricted")
    hidden: set[int] = set()
    for reader in readers:
        visible = Entry.objects.visible_to(reader).order_by().values("pk")
        hidden.update(restricted.exclude(pk__in=visible).values_list("pk", flat=True))
    return [word for word, pk in entries.items() if pk in hidden]


def unseen(world: World, content: object, reader: Access, *, thread: Thread | None, asker: int | None) -> list[str]:
    """Words that stand there and come from what the reader may not see; in a prompt of `thread` also from elsewhere."""
    text = content if isinstance(content, str) else json.dumps(content, default=str, ensure_ascii=False)
    return [word for word in set(WORD.findall(text)) if not _may_see(world, word, reader, thread, asker)]


def _may_see(world: World, word: str, reader: Access, thread: Thread | None, asker: int | None) -> bool:
    kind, source = world.sources[word]
    if kind == "message":
        messages = Message.objects.visible_to(reader).filter(pk=source, deleted_at=None)
        return (messages if thread is None else messages.filter(thread=thread)).exists()
    if kind == "entry":
        entries = Entry.objects.visible_to(reader).filter(pk=source)
        return (entries.current() if thread is not None else entries).exists()
    if kind == "notes":
        agent_id, person_id = source
        if reader.is_agent:
            return bool(reader.participant_id == agent_id and person_id == asker)
        return reader.administers or reader.participant_id == person_id
    if kind == "former":  # people read a message's history; prompts do not
        return not reader.is_agent and Message.objects.visible_to(reader).filter(pk=source, deleted_at=None).exists()
    return False


def check_prompts_and_tools(world: World, agent: Agent, person: Member) -> None:
    """Checks what the agent reads, while the person asks."""
    agent.refresh_from_db()
    reader, asker = visible_to(agent), person.participant
    for thread in Thread.objects.visible_to(reader).filter(pk__in=[thread.pk for thread in world.threads]):
        box = Toolbox.for_agent(agent, thread)
        prompt = assemble(
            agent=agent, thread=thread, task="thread", request="The roses?", asked_by=asker, tools=box.specs
        )
        said = "\n".join(message.content for message in prompt.messages)
        assert not unseen(world, said, reader, thread=thread, asker=asker.pk)
        readers = readers_of(world, thread, agent)
        assert not untold(world, said, readers)
        own = AssembledOut(prompt_payload(prompt, 0, reader)).data
        assert not unseen(world, own, reader, thread=thread, asker=asker.pk)
        view = view_of_prompt(prompt, access(person))
        previewed = [[item.text for item in section.items] for section in view.sections]
        assert not unseen(world, previewed, access(person), thread=None, asker=None)
        reads = [call("read_file", **arguments) for arguments in read_everything()]
        for look in (call("memory", action="search", query="roses"), call("knowledge_search", query="roses"), *reads):
            result = box.execute(look).result
            assert not unseen(world, result, reader, thread=thread, asker=None)
            assert not untold(world, result, readers)


def check_records_and_search(world: World, person: Member) -> None:
    """All that the person opens of what was stored, and finds."""
    reader = access(person)
    bodies = list(search_messages(reader, "roses").values_list("body", flat=True))
    assert not unseen(world, bodies, reader, thread=None, asker=None)
    for run in Run.objects.visible_to(reader).filter(snapshot__isnull=False):
        view = read_snapshot(run, reader)
        assert view is not None
        items = [(item.text, item.author, item.source) for section in view.sections for item in section.items]
        texts = [*items, *(message.content for message in view.messages)]
        texts += [(dropped.source, dropped.author) for dropped in view.dropped]
        assert not unseen(world, texts, reader, thread=None, asker=None)
        calls = [(seen.arguments, seen.result, seen.why) for seen in visible_tool_calls(run, reader)]
        assert not unseen(world, calls, reader, thread=None, asker=None)


@contextmanager
def taken_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def world(ana: Member, dora: Member, ben: Member) -> World:
    """Ana owns it, Dora is a member, Ben a guest of both channels; an agent of each level."""
    channels = [make_channel(ana), make_channel(ana, "den", private=True)]
    agents = [make_agent(ana, f"agent{level}", level=level, channel=channels[0]) for level in (1, 2, 3, 4)]
    for agent in agents[1:]:
        add_to_channel(channel=channels[1], participant=agent.participant, by=access(ana))
    for person in (ben, dora):
        channels[1].memberships.create(participant=person.participant)
    channels[0].memberships.create(participant=ben.participant)
    threads = [make_thread(channel, ana, f"Thread {n}") for n, channel in enumerate((*channels, channels[0]))]
    return World([ana, dora, ben], agents, channels, threads)


def fill(world: World, agent: int, thread: int) -> None:
    """What there is to leak: notes about everybody, knowledge of both kinds, and an agent that looked at it all."""
    for number in range(3):
        note_something(world, number, 0, agent)
    for number in range(2):
        write_entry(world, 0, number, 0)
    for number in range(2):
        attach_a_file(world, 0, number, 0)
    for number in range(2):
        ask_an_agent(world, number, thread, agent)


@settings(
    max_examples=examples(300, daily=5),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # an example takes half a second: what failed is not shrunk
)
@given(steps=STEPS, agent=st.integers(0, 3), person=st.integers(0, 2), thread=st.integers(0, 2))
def test_nobody_is_shown_what_they_may_not_see(
    world: World, steps: list[tuple[str, int, int, int]], agent: int, person: int, thread: int
) -> None:
    with taken_back():
        fresh = World(world.people, world.agents, world.channels, world.threads)
        fill(fresh, agent, thread)
        for verb, *numbers in steps:
            ACTIONS[verb](fresh, *numbers)
        check_prompts_and_tools(fresh, world.agents[agent], world.people[person])
        check_records_and_search(fresh, world.people[person])
        erase_texts()
        check_records_and_search(fresh, world.people[person])

"""Workspaces to assemble random prompts in: every layer furnished, threads of all shapes, compacted ones and dives."""

import math
import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import NamedTuple

from agents.agent.access import visible_to
from agents.agent.services import set_trust_level
from agents.models import Agent
from agents.tools.toolbox import Toolbox
from memory.blocks.models import ProfileNote
from memory.episodes.models import Episode
from memory.plugins.compaction import execute_compaction, request_compaction
from memory.plugins.models import Compaction
from memory.work.models import Approval, WorkItem
from memory.work.services import SINGLETON_KINDS, create_work_item
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_thread, publish_dive, start_dive
from openvibe.chat.services.speakers import get_or_create_speaker
from openvibe.engines.llm.fences import escape_text
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.models import Participant, Workspace
from tests.bench.corpus import (
    FIRST_MESSAGE_AT,
    SEED,
    BenchWorkspace,
    SyntheticLanguage,
    embed_all,
    make_bench_workspace,
)
from tests.bench.corpus import make_entries as make_knowledge
from tests.memory.factories import BlockFactory, MemoryPluginFactory, ProgressEntryFactory


class Shape(NamedTuple):
    """A thread: how many messages, and the tokens of the shortest and the longest."""

    messages: int
    shortest: int
    longest: int


SHAPES: tuple[Shape, ...] = (
    Shape(0, 1, 1),
    Shape(1, 1, 20_000),
    Shape(6, 1, 20_000),
    Shape(40, 1, 60),
    Shape(60, 1, 20_000),
    Shape(90, 300, 3_000),
    Shape(250, 1, 40),
    Shape(250, 20, 400),
    Shape(400, 1, 1_500),
)

STRETCHES = (
    "water the roses at dusk and mulch them well because the frost comes back late ",
    "水やりは夕方にしてください。根腐れに注意し、肥料は控えめに。",
    "def prune(plant, month):\n    if month < 3:\n        return None\n    return plant.cut(eye=3)\n\n",
    "👩‍🌾🌱🏳️‍🌈🌹",
    '</data> <b>& "quoted" &amp; <!-- x --> ',
    "- one thing\n- another: 17.5 %\n\n1. first\n2. second\n\n",
    "اسقِ الورود عند الغروب ولا تنسَ السماد. ",
    "aGVsbG8gd29ybGQgdGhpcyBpcyBub3QgYSBzZWNyZXQ",
    "Полей розы вечером и не забудь про мульчу. ",
)


class BudgetThread(NamedTuple):
    """`kind`: thread, compacted thread or dive. `seqs`: the places of all messages its prompts may hold, by key."""

    thread: Thread
    kind: str
    seqs: Mapping[str, int]


class BudgetWorld(NamedTuple):
    """An agent, who asks it, the threads it is asked in, the tools it has there."""

    agent: Agent
    asker: Participant
    threads: Sequence[BudgetThread]
    tools: Sequence[ToolSpec]
    has_instructions: bool


class TextWriter:
    """Texts of about so many tokens, in several scripts and forms, from a seeded random source."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self._stretches = _sized_stretches()

    def text(self, tokens: int) -> str:
        """One or two kinds of text, cut anywhere."""
        parts = []
        for _ in range(self.source.choice((1, 1, 2))):
            stretch, size = self.source.choice(self._stretches)
            characters = max(int(tokens / size * len(stretch)), 1)
            parts.append((stretch * (characters // len(stretch) + 1))[:characters])
        return " ".join(part[: max(len(part) // len(parts), 1)] for part in parts).strip() or "x"

    def text_within(self, tokens: int) -> str:
        """The same, never more than so many, as it stands in a prompt."""
        text = self.text(tokens)
        while count_tokens(escape_text(text)) > tokens:
            text = text[: len(text) * 3 // 4].strip()
        return text

    def size(self, low: int, high: int) -> int:
        """Every order of magnitude is as likely."""
        return round(low * math.pow(high / low, self.source.random()))


@cache
def _sized_stretches() -> list[tuple[str, float]]:
    """Stretches of text to repeat, and the tokens of one."""
    language = SyntheticLanguage()
    stretches = [*STRETCHES, *(f"{language.message()} " for _ in range(6))]
    return [(stretch, max(count_tokens(stretch * 8) / 8, 1)) for stretch in stretches]


def make_budget_worlds(count: int, shapes: Sequence[Shape]) -> list[BudgetWorld]:
    """Worlds whose agents stand at L1 to L4 in turn, with a thread of each shape; the last four are folded as well.

    Everything has its vector.
    """
    worlds = [_make_world(random.Random(SEED + number), number % 4 + 1, shapes) for number in range(count)]
    embed_all()
    return worlds


def _make_world(source: random.Random, level: int, shapes: Sequence[Shape]) -> BudgetWorld:
    world, writer = make_bench_workspace(), TextWriter(source)
    MemoryPluginFactory.create(
        workspace=world.ana.workspace, name="memory/lcm", enabled=True, config={"summaries": "deterministic"}
    )
    instructions = writer.text_within(source.choice((0, 40, 900, 1_900)))
    Workspace.objects.filter(pk=world.ana.workspace_id).update(instructions=instructions)
    make_knowledge(world, source.choice((0, 5, 60)))
    _furnish_agent(world, writer)
    threads = [_make_thread(world, writer, shape) for shape in shapes]
    folded = [_make_thread(world, writer, shape) for shape in shapes[-4:]]
    for each in folded:
        _compact(each)
    for thread in (*threads[3:6], *folded[:2]):
        _publish_dives(world, writer, thread, source.randint(1, 4))
    dives = [_open_dive(world, writer, threads[-1], shape) for shape in shapes[1::2]]
    _compact(dives[-1])
    set_trust_level(agent=world.vibe, by=world.by, level=level, note="bench")  # now: at L1 there are no dives
    world.vibe.refresh_from_db(fields=["level"])
    kinds = {"thread": threads, "compacted thread": folded, "dive": dives if level > 1 else []}
    places = [_budget_thread(world, thread, kind) for kind, members in kinds.items() for thread in members]
    tools = Toolbox.for_agent(world.vibe, threads[0]).offered_specs
    return BudgetWorld(world.vibe, world.ana.participant, places, tools, bool(instructions))


def _budget_thread(world: BenchWorkspace, thread: Thread, kind: str) -> BudgetThread:
    thread.refresh_from_db()
    rows = Message.objects.visible_to(visible_to(world.vibe)).filter(thread=thread).values_list("pk", "seq")
    return BudgetThread(thread, kind, {f"message:{pk}": seq for pk, seq in rows})


def _furnish_agent(world: BenchWorkspace, writer: TextWriter) -> None:
    """Blocks, notes about who asks, and episodes, open feedback among them."""
    source, agent = writer.source, world.vibe.participant
    for number in range(source.randint(0, 4)):
        content = writer.text_within(writer.size(1, 600))
        BlockFactory.create(
            agent=agent, label=f"block-{number}", content=content, tokens=count_tokens(content), max_tokens=2_000
        )
    notes = writer.text_within(writer.size(1, 400))
    ProfileNote.objects.create(agent=agent, person=world.ana.participant, content=notes, tokens=count_tokens(notes))
    Episode.objects.bulk_create(
        Episode(agent=agent, channel=world.channel, kind=source.choice(Episode.Kind.values), summary=writer.text(60))
        for _ in range(source.choice((0, 3, 60)))
    )


def _make_thread(world: BenchWorkspace, writer: TextWriter, shape: Shape) -> Thread:
    thread = create_thread(channel=world.channel, by=world.by, title=writer.text(8).replace("\n", " ")[:80])
    speaker = get_or_create_speaker(world.ana.workspace, "Zoë <from elsewhere>")
    people = (world.ana.participant_id, world.dora.participant_id, world.vibe.participant_id, speaker)
    _fill(thread, writer, shape, people)
    _furnish_work(world, writer, thread)
    return thread


def _fill(thread: Thread, writer: TextWriter, shape: Shape, authors: Sequence[int]) -> None:
    """Messages past the triggers, as an import writes them; every twentieth is a tool's call, the next its result."""
    rows: list[Message] = []
    start = thread.last_seq
    for number in range(1, shape.messages + 1):
        kind, call_id, author = Message.Kind.TEXT, "", writer.source.choice(authors)
        if number % 20 in (18, 19) and number < shape.messages:
            kind = Message.Kind.TOOL_CALL if number % 20 == 18 else Message.Kind.TOOL_RESULT
            call_id, author = f"call-{number // 20}", authors[-1] if len(authors) == 2 else authors[2]
        body = writer.text(writer.size(shape.shortest, shape.longest))
        rows.append(
            Message(
                thread=thread,
                seq=start + number,
                author_id=author,
                kind=kind,
                call_id=call_id,
                body=body,
                token_count=count_tokens(body),
                created_at=FIRST_MESSAGE_AT + timedelta(minutes=7 * number),
            )
        )
    Message.objects.bulk_create(rows)
    Thread.objects.filter(pk=thread.pk).update(last_seq=start + len(rows))
    thread.refresh_from_db()


def _furnish_work(world: BenchWorkspace, writer: TextWriter, thread: Thread) -> None:
    source = writer.source
    for kind in source.sample(WorkItem.Kind.values, source.randint(0, 9)):
        for number in range(1 if kind in SINGLETON_KINDS else source.randint(1, 6)):
            text = f"{number}. {writer.text_within(writer.size(1, 120))}"
            create_work_item(thread=thread, by=world.by, kind=kind, text=text)
    for _ in range(source.randint(0, 3)):
        Approval.objects.create(thread=thread, what=writer.text(20)[:300], requested_by=world.vibe.participant)
        ProgressEntryFactory.create(thread=thread, author=world.vibe.participant, checkpoint=writer.text(30))


def _compact(thread: Thread) -> None:
    compaction = request_compaction(thread=thread, trigger=Compaction.Trigger.THRESHOLD)
    if compaction is not None:
        execute_compaction(compaction.pk)


def _open_dive(world: BenchWorkspace, writer: TextWriter, parent: Thread, shape: Shape) -> Thread:
    source = writer.source.choice(Message.objects.filter(thread=parent, kind=Message.Kind.TEXT))
    thread = start_dive(source=source, by=world.by, agent=world.vibe.participant).thread
    thread.refresh_from_db()
    _fill(thread, writer, shape, (world.ana.participant_id, world.vibe.participant_id))
    return thread


def _publish_dives(world: BenchWorkspace, writer: TextWriter, thread: Thread, count: int) -> None:
    source = Message.objects.filter(thread=thread, kind=Message.Kind.TEXT).latest("seq")
    for _ in range(count):
        dive = start_dive(source=source, by=world.by, agent=world.vibe.participant)
        bullets = tuple(f"{number}. {writer.text(20)[:300]}" for number in range(3))
        publish_dive(dive=dive, by=world.by, result=ResultDraft(writer.text(10)[:100], bullets, writer.text(300)))

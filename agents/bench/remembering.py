"""`bench compact` and `bench cache`: what it costs to fold a long conversation, and how much of a prompt stays the same
from one turn to the next, so that providers need not read it again."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from agents.assembler.assemble import Prompt, assemble
from agents.assembler.snapshot import prefix_of
from agents.bench.content import World, make_thread, make_world, settle
from agents.bench.report import Aim, Report, Row
from agents.bench.timing import Step
from agents.models import Agent
from agents.tools.toolbox import Toolbox
from agents.visibility import visible_to
from memory.models import Episode, MemoryPlugin
from memory.providers.base import Compacted, Compactor, MemoryProvider, Session
from memory.providers.budgets import context_budget
from memory.providers.registry import provider_named
from openvibe.chat.importing.qmsum import read_qmsum
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_thread, post_message
from openvibe.llm.tokens import count
from openvibe.workspaces.models import Workspace
from openvibe.workspaces.services import access_of_member

LCM = "memory/lcm"
DETERMINISTIC = {"summaries": "deterministic"}
TURNS = 1_000
LONG = 460  # tokens of a message of the second kind of conversation
KNOWLEDGE = 1_500  # tokens that change with every request
MOST_GROWTH = 1.5
STEP_SIZES = (1_000, 10_000, 100_000)


def measure_compact(*, messages: int = 100_000, sizes: Sequence[int] = STEP_SIZES, steps: int = 7) -> Report:
    """A full compaction with the deterministic level, and incremental steps in threads of growing length, in turns.

    The floor is taking the same messages in without folding them.
    """
    world = make_world()
    provider = provider_named(LCM, DETERMINISTIC)
    threads = {size: make_thread(world, size) for size in sorted({*sizes, messages})}
    settle()
    rows = _folded(world, provider, threads[messages], messages)
    for size in set(sizes) - {messages}:
        provider.bootstrap(_session(world.vibe, threads[size]))
        _compactor(provider).compact(_session(world.vibe, threads[size]), context_budget(threads[size]), full=True)
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(steps):
        for size in sizes:
            taken[size].append(_one_step(world, provider, threads[size]))
    medians = {size: median(times) for size, times in taken.items()}
    rows += [Row(f"one incremental step at {size:,} messages", medians[size], "ms") for size in sizes]
    growth = medians[sizes[-1]] / medians[sizes[0]]
    aim = Aim(f"a step at {sizes[-1]:,} messages over one at {sizes[0]:,}", growth, MOST_GROWTH)
    return Report("compact", rows, (aim,))


def _folded(world: World, provider: MemoryProvider, thread: Thread, messages: int) -> list[Row]:
    """The thread taken in, asked whether it is due while nothing is folded, and folded in full."""
    session, budget, compactor = _session(world.vibe, thread), context_budget(thread), _compactor(provider)
    taken_in = _seconds(lambda: provider.bootstrap(session))
    asked = [_seconds(lambda: compactor.needs_compaction(session, budget)) for _ in range(5)]
    done: list[Compacted] = []
    folded = _seconds(lambda: done.append(compactor.compact(session, budget, full=True)))
    return [
        Row(f"{messages:,} messages taken in", messages / taken_in, "/s"),
        Row("asking whether they are due", 1000 * median(asked), "ms"),
        Row("folded in full", messages / folded, "/s", folded / taken_in),
        Row("tokens before", done[0].tokens_before, "tok"),
        Row("tokens after", done[0].tokens_after, "tok"),
        Row("summaries made", len(done[0].created), ""),
    ]


def _one_step(world: World, provider: MemoryProvider, thread: Thread) -> float:
    """Milliseconds of one incremental compaction of a folded thread, once it has grown until that is due."""
    session, budget, compactor = _session(world.vibe, thread), context_budget(thread), _compactor(provider)
    while not compactor.needs_compaction(session, budget):
        for _ in range(10):
            post_message(thread=thread, by=world.by, body=" ".join(world.language.message() for _ in range(4)))
        provider.bootstrap(session)
    return 1000 * _seconds(lambda: compactor.compact(session, budget))


def _seconds(step: Step) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def _compactor(provider: MemoryProvider) -> Compactor:
    if not isinstance(provider, Compactor):
        raise TypeError("The bench measures a plugin that compacts.")
    return provider


def _session(agent: Agent, thread: Thread) -> Session:
    return Session(thread.pk, visible_to(agent))


@dataclass
class Tally:
    """What the prompts of one kind add up to. Sizes in tokens."""

    prompts: int = 0
    tokens: int = 0
    shared: int = 0
    over: int = 0
    represented: list[float] = field(default_factory=list)
    last: Prompt | None = None

    def take(self, prompt: Prompt, said_before: int) -> None:
        """One more prompt; the first has nothing to share with."""
        self.over += prompt.tokens > prompt.ceiling
        if self.last is not None:
            self.prompts += 1
            self.tokens += prompt.tokens
            tools = [entry for entry in self.last.included if entry.section == "tools"]
            self.shared += prefix_of(tools, self.last.messages, prompt)
            self.represented.append(_represented(prompt) / said_before)
        self.last = prompt

    @property
    def share(self) -> float:
        return 100 * self.shared / self.tokens


def _represented(prompt: Prompt) -> int:
    """How many messages of the conversation stand in the prompt, themselves or in a summary."""
    seen: set[int] = set()
    for entry in prompt.included:
        if entry.section == "history":
            first, _, last = entry.ref.partition("-")
            seen.update(range(int(first), int(last or first) + 1))
    return len(seen)


VARIANTS: dict[str, dict[str, int]] = {
    "conversation alone": {"P6": 0},
    f"with {KNOWLEDGE:,} changing tokens": {"P6": KNOWLEDGE},
    "with everything that can be recalled": {},
}
"""What a workspace allows P6: nothing recalled, some of it, or whatever is left."""


def measure_cache(*, turns: int = TURNS, data: Path | None = None) -> Report:
    """One prompt for each message of a conversation an agent follows, ceiling 15,000 tokens, compacting when due.

    `data` is a QMSum file whose meetings are strung together; without one, talk of the same lengths is made up.
    """
    world = make_world()
    Episode.objects.filter(agent=world.vibe.participant).delete()  # feedback changes between requests: measured apart
    MemoryPlugin.objects.create(workspace=world.ana.workspace, name=LCM, enabled=True, config=DETERMINISTIC)
    rows: list[Row] = []
    aims: list[Aim] = []
    talks = (("short messages", _short(world, turns, data), 99.0), (f"{LONG} tokens each", _long(world, turns), 92.5))
    for name, bodies, share in talks:
        tallies = _talked(world, list(bodies))
        for variant, tally in tallies.items():
            rows += _rows(f"{name}, {variant}", tally)
        alone = tallies["conversation alone"]
        represented = 100 * sum(alone.represented) / len(alone.represented)
        aims += [
            Aim(f"{name}: % of prompt tokens read anew", 100 - alone.share, round(100 - share, 1)),
            Aim(f"{name}: % of history not represented", 100 - represented, 2.0),
            Aim(f"{name}: prompts over budget", sum(tally.over for tally in tallies.values()), 0),
        ]
        if share == 99.0:
            changing = tallies[f"with {KNOWLEDGE:,} changing tokens"]
            aims.append(Aim(f"{name}: % read anew with {KNOWLEDGE:,} changing tokens", 100 - changing.share, 17.0))
    return Report("cache", rows, tuple(aims))


def _rows(name: str, tally: Tally) -> Iterator[Row]:
    yield Row(f"{name}: in the common prefix", tally.share, "%")
    yield Row(f"{name}: uncached a turn", (tally.tokens - tally.shared) / tally.prompts, "tok")
    yield Row(f"{name}: prompt", tally.tokens / tally.prompts, "tok")


def _talked(world: World, bodies: Sequence[str]) -> dict[str, Tally]:
    thread = create_thread(channel=world.channel, by=world.by, title="Cache")
    provider = provider_named(LCM, DETERMINISTIC)
    session, budget = _session(world.vibe, thread), context_budget(thread)
    tools = Toolbox.of(world.vibe, thread).specs
    tallies = {name: Tally() for name in VARIANTS}
    speakers = (world.by, access_of_member(world.dora))
    for turn, body in enumerate(bodies):
        posted = post_message(thread=thread, by=speakers[turn % 2], body=body)
        asked = Message.objects.select_related("author").get(pk=posted.pk)
        for name, caps in VARIANTS.items():
            Workspace.objects.filter(pk=world.ana.workspace_id).update(budgets={"thread": caps} if caps else {})
            prompt = assemble(agent=world.vibe, thread=thread, task="thread", request=asked, tools=tools)
            tallies[name].take(prompt, max(asked.seq - 1, 1))
        provider.bootstrap(session)
        if _compactor(provider).needs_compaction(session, budget):
            _compactor(provider).compact(session, budget)
    return tallies


def _short(world: World, turns: int, data: Path | None) -> Iterator[str]:
    """Utterances of real meetings, or made-up ones of the same lengths: most are a few words, some are long."""
    if data is None:
        for turn in range(turns):
            words = world.language.message().split()
            yield " ".join(words[: (3, 6, 10, 14, 40)[turn % 5]])
        return
    said = (line.text for meeting in read_qmsum(data) for line in meeting.lines if line.text.strip())
    for _, body in zip(range(turns), said, strict=False):
        yield body


def _long(world: World, turns: int) -> Iterator[str]:
    """Messages of LONG tokens, or a word less: the last sentence breaks off there."""
    for _ in range(turns):
        words: list[str] = []
        while count(" ".join(words)) <= LONG:
            words += world.language.message().split()
        while count(" ".join(words)) > LONG:
            words.pop()
        yield " ".join(words)

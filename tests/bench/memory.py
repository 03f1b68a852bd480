"""`bench compact` and `bench cache`: what it costs to fold a long conversation, and how much of a prompt stays the same
from one turn to the next, so that providers need not read it again."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from agents.agent.access import visible_to
from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.snapshots.store import shared_prefix_with
from agents.tools.toolbox import Toolbox
from memory.episodes.models import Episode
from memory.plugins.base import CompactionResult, Compactor, MemoryProvider, Session
from memory.plugins.registry import provider_by_name
from memory.plugins.sessions import context_budget
from openvibe.chat.importing.readers import read_qmsum
from openvibe.chat.importing.values import ImportedLine
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_thread, post_message
from openvibe.chat.wiring import embed_pending_messages
from openvibe.workspaces.models import Workspace
from openvibe.workspaces.queries import member_access
from tests.bench.chats import ChatWriter
from tests.bench.corpus import BenchWorkspace, make_bench_workspace, make_thread, vacuum_messages
from tests.bench.dialogue import answer_request, store_prompt
from tests.bench.measurement import Aim, Measurement, Report, Step
from tests.memory.factories import MemoryPluginFactory

LCM_PLUGIN = "memory/lcm"
LCM_CONFIG = {"summaries": "deterministic"}
TURNS = 1_000
MAX_GROWTH = 1.5
STEP_SIZES = (1_000, 10_000, 100_000)


def measure_compact(*, messages: int = 100_000, sizes: Sequence[int] = STEP_SIZES, steps: int = 7) -> Report:
    """A full compaction with the deterministic level, and incremental steps in threads of growing length, in turns.

    The floor is taking the same messages in without folding them.
    """
    world = make_bench_workspace()
    provider = provider_by_name(LCM_PLUGIN, LCM_CONFIG)
    threads = {size: make_thread(world, size) for size in sorted({*sizes, messages})}
    vacuum_messages()
    rows = _full_compaction_rows(world, provider, threads[messages], messages)
    for size in set(sizes) - {messages}:
        provider.bootstrap(_session(world.vibe, threads[size]))
        _check_compactor(provider).compact(
            _session(world.vibe, threads[size]), context_budget(threads[size]), full=True
        )
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(steps):
        for size in sizes:
            times[size].append(_incremental_step(world, provider, threads[size]))
    medians = {size: median(times) for size, times in times.items()}
    rows += [Measurement(f"one incremental step at {size:,} messages", medians[size], "ms") for size in sizes]
    growth = medians[sizes[-1]] / medians[sizes[0]]
    aim = Aim(f"a step at {sizes[-1]:,} messages over one at {sizes[0]:,}", growth, MAX_GROWTH)
    return Report("compact", rows, (aim,))


def _full_compaction_rows(
    world: BenchWorkspace, provider: MemoryProvider, thread: Thread, messages: int
) -> list[Measurement]:
    """The thread taken in, asked whether it is due while nothing is folded, and folded in full."""
    session, budget, compactor = _session(world.vibe, thread), context_budget(thread), _check_compactor(provider)
    ingest_seconds = _seconds(lambda: provider.bootstrap(session))
    check_seconds = [_seconds(lambda: compactor.needs_compaction(session, budget)) for _ in range(5)]
    compactions: list[CompactionResult] = []
    compact_seconds = _seconds(lambda: compactions.append(compactor.compact(session, budget, full=True)))
    return [
        Measurement(f"{messages:,} messages taken in", messages / ingest_seconds, "/s"),
        Measurement("asking whether they are due", 1000 * median(check_seconds), "ms"),
        Measurement("folded in full", messages / compact_seconds, "/s", compact_seconds / ingest_seconds),
        Measurement("tokens before", compactions[0].tokens_before, "tok"),
        Measurement("tokens after", compactions[0].tokens_after, "tok"),
        Measurement("summaries made", len(compactions[0].created), ""),
    ]


def _incremental_step(world: BenchWorkspace, provider: MemoryProvider, thread: Thread) -> float:
    """Milliseconds of one incremental compaction of a folded thread, once it has grown until that is due."""
    session, budget, compactor = _session(world.vibe, thread), context_budget(thread), _check_compactor(provider)
    while not compactor.needs_compaction(session, budget):
        for _ in range(10):
            post_message(thread=thread, by=world.by, body=" ".join(world.language.message() for _ in range(4)))
        provider.bootstrap(session)
    return 1000 * _seconds(lambda: compactor.compact(session, budget))


def _seconds(step: Step) -> float:
    start_time = time.perf_counter()
    step()
    return time.perf_counter() - start_time


def _check_compactor(provider: MemoryProvider) -> Compactor:
    if not isinstance(provider, Compactor):
        raise TypeError("The bench measures a plugin that compacts.")
    return provider


def _session(agent: Agent, thread: Thread) -> Session:
    return Session(thread.pk, visible_to(agent))


@dataclass
class PrefixTally:
    """What the prompts of one kind add up to. Sizes in tokens."""

    prompts: int = 0
    tokens: int = 0
    shared: int = 0
    over: int = 0
    represented: list[float] = field(default_factory=list)
    last: Prompt | None = None

    def add_prompt(self, prompt: Prompt, said_before: int) -> None:
        """One more prompt; the first has nothing to share with."""
        self.over += prompt.tokens > prompt.ceiling
        if self.last is not None:
            self.prompts += 1
            self.tokens += prompt.tokens
            tools = [entry for entry in self.last.included if entry.section == "tools"]
            self.shared += shared_prefix_with(tools, self.last.messages, prompt)
            self.represented.append(_represented_messages(prompt) / said_before)
        self.last = prompt

    @property
    def share(self) -> float:
        return 100 * self.shared / self.tokens


def _represented_messages(prompt: Prompt) -> int:
    """How many messages of the conversation stand in the prompt, themselves or in a summary."""
    seen: set[int] = set()
    for entry in prompt.included:
        if entry.section == "history":
            first, _, last = entry.ref.partition("-")
            seen.update(range(int(first), int(last or first) + 1))
    return len(seen)


VARIANTS: dict[str, dict[str, int]] = {"conversation alone": {"P6": 0}, "as shipped": {}}
"""What a workspace allows P6: nothing recalled, or whatever is left."""

MAX_READ_ANEW = {"short messages": (2.5, 12.0), "long messages": (9.0, 30.0)}
"""Percent of prompt tokens that may stand outside the common prefix, by talk, for each of VARIANTS."""


def measure_cache(*, turns: int = TURNS, data: Path | None = None) -> Report:
    """One prompt for each message to an agent that follows a thread and answers there; ceiling 15,000 tokens, compacted
    when due.

    `data` is a QMSum file whose meetings are strung together for the short messages; without one they are made up.
    """
    world = make_bench_workspace()
    Episode.objects.filter(agent=world.vibe.participant).delete()  # feedback changes between requests: measured apart
    MemoryPluginFactory.create(workspace=world.ana.workspace, name=LCM_PLUGIN, enabled=True, config=LCM_CONFIG)
    rows: list[Measurement] = []
    aims: list[Aim] = []
    talks = {"short messages": _short_messages(turns, data), "long messages": _long_messages(turns)}
    for talk, lines in talks.items():
        tallies = _tally_conversation(world, list(lines))
        for (variant, tally), limit in zip(tallies.items(), MAX_READ_ANEW[talk], strict=True):
            name = f"{talk}, {variant}"
            rows += _tally_rows(name, tally)
            represented = 100 * sum(tally.represented) / len(tally.represented)
            aims += [
                Aim(f"{name}: % of prompt tokens read anew", 100 - tally.share, limit),
                Aim(f"{name}: % of history not represented", 100 - represented, 2.0),
                Aim(f"{name}: prompts over budget", tally.over, 0),
            ]
    return Report("cache", rows, tuple(aims))


def _tally_rows(name: str, tally: PrefixTally) -> Iterator[Measurement]:
    yield Measurement(f"{name}: in the common prefix", tally.share, "%")
    yield Measurement(f"{name}: uncached a turn", (tally.tokens - tally.shared) / tally.prompts, "tok")
    yield Measurement(f"{name}: prompt", tally.tokens / tally.prompts, "tok")


def _tally_conversation(world: BenchWorkspace, lines: Sequence[ImportedLine]) -> dict[str, PrefixTally]:
    """Every second line is said by a person, the one after it is what the agent answers."""
    thread = create_thread(channel=world.channel, by=world.by, title="Cache")
    provider = provider_by_name(LCM_PLUGIN, LCM_CONFIG)
    session, budget = _session(world.vibe, thread), context_budget(thread)
    tools = Toolbox.for_agent(world.vibe, thread).offered_specs
    tallies = {name: PrefixTally() for name in VARIANTS}
    speakers = (world.by, member_access(world.dora))
    for turn, (line, answer) in enumerate(zip(lines[::2], lines[1::2], strict=False)):
        message = post_message(thread=thread, by=speakers[turn % 2], body=line.text)
        _keep_time(message, line)
        request = Message.objects.select_related("author").get(pk=message.pk)
        for name, caps in VARIANTS.items():
            Workspace.objects.filter(pk=world.ana.workspace_id).update(budgets={"thread": caps} if caps else {})
            prompt = assemble(agent=world.vibe, thread=thread, task="thread", request=request, tools=tools)
            tallies[name].add_prompt(prompt, max(request.seq - 1, 1))
        store_prompt(world.vibe, request, prompt)
        answer_request(world, request, answer.text, at=answer.at)
        embed_pending_messages()
        provider.bootstrap(session)
        if _check_compactor(provider).needs_compaction(session, budget):
            _check_compactor(provider).compact(session, budget)
    return tallies


def _keep_time(message: Message, line: ImportedLine) -> None:
    if line.at is not None:
        Message.objects.filter(pk=message.pk).update(created_at=line.at)


def _short_messages(turns: int, data: Path | None) -> Iterator[ImportedLine]:
    """Utterances of real meetings, or lines of a chat, three to a message: about 30 tokens."""
    if data is None:
        lines = tuple(ChatWriter(0).short_chat(6 * turns).imported.lines)
        for three in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
            yield replace(three[0], text=". ".join(line.text for line in three))
        return
    utterances = (line for meeting in read_qmsum(data) for line in meeting.lines if line.text.strip())
    for _, line in zip(range(2 * turns), utterances, strict=False):
        yield line


def _long_messages(turns: int) -> Iterable[ImportedLine]:
    """Requests of a few sentences, answers of about 460 tokens."""
    return ChatWriter(0).assistant_thread(2 * turns).imported.lines

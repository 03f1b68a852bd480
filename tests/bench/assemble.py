"""`bench assemble`: a full prompt from threads of growing length, against its own statements in bare SQL."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import cycle

from agents.prompts.assembler.assemble import Prompt, assemble
from openvibe.chat.models import Thread
from tests.bench.bare_sql import bare_sql_step, range_read_step
from tests.bench.corpus import BenchWorkspace, embed_all, make_bench_workspace, make_entries, make_thread
from tests.bench.measurement import Aim, Measurement, Report, Step, interleaved_medians, profile_shares
from tests.bench.scratch_database import connect_bare

SIZES = (100, 1_000, 10_000, 100_000)
QUESTIONS = 48
ENTRIES = 400
LEVEL = 3
"""The agent reads shared knowledge; what is restricted or expired is looked for too, and named as left out."""

MAX_SQL_RATIO = 2.0
"""Times its own statements in bare SQL, in threads of any length."""

MAX_GROWTH = 1.5
PROFILED_FUNCTIONS = (
    ("SQL, driver included", "openvibe/engines/database/prepared_statements.py", "fetch_prepared"),
    ("work of the thread", "agents/prompts/assembler/sections/work.py", "work_candidates"),
    ("making items of history", "agents/prompts/assembler/sections/history.py", "history_candidates"),
    ("episodes and feedback", "agents/prompts/assembler/sections/episodes.py", "episode_candidates"),
    ("knowledge, with its searches", "agents/prompts/assembler/sections/knowledge.py", "knowledge_candidates"),
    ("recall", "agents/prompts/assembler/sections/recall.py", "recall_messages"),
    ("ranking, of knowledge and of messages", "openvibe/engines/search/ranking.py", "rank"),
    ("counting tokens, everywhere", "openvibe/engines/llm/tokens.py", "count_text"),
    ("choosing what fits", "agents/prompts/assembler/fit.py", "fit"),
    ("rendering", "agents/prompts/assembler/render.py", "render"),
)


def measure_assemble(
    *, sizes: Sequence[int] = SIZES, entries: int = ENTRIES, repeats: int = 60, warm_up: int = 8
) -> Report:
    """Prompts for a mention (ceiling 8,000 tokens), another question each time, in a database of the bench's own.

    The workspace knows something, part of it restricted, part of it expired, and everything has its vector. The floor
    of each size is what these prompts send to the database, in bare SQL; beside it stands one range read of as many
    bytes of message bodies as the prompt of that thread holds.
    """
    world = make_bench_workspace(level=LEVEL)
    threads = {size: make_thread(world, size) for size in sizes}
    make_entries(world, entries, mixed=True)
    embed_all()
    questions = [world.language.question() for _ in range(QUESTIONS)]
    with closing(connect_bare()) as connection:
        prompts = {size: _prompt(world, thread, questions[0]) for size, thread in threads.items()}
        steps: dict[str, Step] = {}
        for size, thread in threads.items():
            prompt_bytes = sum(len(message.content.encode()) for message in prompts[size].messages)
            steps[f"range read {size}"] = range_read_step(connection, thread, prompt_bytes)
            steps[f"bare SQL {size}"] = bare_sql_step(
                connection, [partial(_prompt, world, thread, question) for question in questions]
            )
            steps[f"assemble {size}"] = _assemble_step(world, thread, questions)
        medians = interleaved_medians(steps, repeats=repeats, warm_up=warm_up)
    rows: list[Measurement] = []
    for size in sizes:
        floor, milliseconds = medians[f"bare SQL {size}"], medians[f"assemble {size}"]
        range_read, prompt = f"range read {size}", f"prompt of {prompts[size].tokens:,} tokens"
        rows.append(Measurement(f"{size:,} messages: one range read of the same bytes", medians[range_read], "ms"))
        rows.append(Measurement(f"{size:,} messages: floor, its statements in bare SQL", floor, "ms"))
        rows.append(Measurement(f"{size:,} messages: {prompt}", milliseconds, "ms", milliseconds / floor))
    profiled_step = _assemble_step(world, threads[sizes[-1]], questions)
    rows += profile_shares(profiled_step, repeats=len(questions), total_of="assemble", functions=PROFILED_FUNCTIONS)
    return Report("assemble", rows, tuple(_aims(medians, sizes)))


def _aims(medians: dict[str, float], sizes: Sequence[int]) -> Iterator[Aim]:
    for size in sizes:
        ratio = medians[f"assemble {size}"] / medians[f"bare SQL {size}"]
        yield Aim(f"a prompt at {size:,} messages over its own statements in bare SQL", ratio, MAX_SQL_RATIO)
    flat = [size for size in sizes if size >= 1_000] or list(sizes)
    growth = medians[f"assemble {flat[-1]}"] / medians[f"assemble {flat[0]}"]
    yield Aim(f"time at {flat[-1]:,} messages over time at {flat[0]:,}", growth, MAX_GROWTH)


def _prompt(world: BenchWorkspace, thread: Thread, question: str) -> Prompt:
    return assemble(agent=world.vibe, thread=thread, task="mention", request=question, asked_by=world.ana.participant)


def _assemble_step(world: BenchWorkspace, thread: Thread, questions: Sequence[str]) -> Step:
    turn = cycle(questions)
    return lambda: _prompt(world, thread, next(turn))

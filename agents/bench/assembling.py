"""`bench assemble`: a full prompt from threads of growing length, against reading the same bytes with one SELECT."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import cycle
from typing import Any

import psycopg

from agents.assembler.assemble import Prompt, assemble
from agents.bench.content import World, make_thread, make_world
from agents.bench.knowing import embed_all, make_entries
from agents.bench.profiling import shares
from agents.bench.report import Aim, Report, Row
from agents.bench.scratch import bare_connection
from agents.bench.timing import Step, interleaved
from openvibe.chat.models import Thread

SIZES = (100, 1_000, 10_000, 100_000)
QUESTIONS = 48
ENTRIES = 400
LEVEL = 3
"""The agent reads shared knowledge; what is restricted or expired is looked for too, and named as left out."""

MOST_OF_FLOOR = 4.0
MOST_GROWTH = 1.15
PLACES = (
    ("SQL, driver included", "base/prepared.py", "prepared_rows"),
    ("reading thread, history and episodes", "agents/assembler/reading.py", "read"),
    ("making items of history", "agents/assembler/history.py", "history"),
    ("episodes and feedback", "agents/assembler/gather.py", "remembered"),
    ("knowledge, with its searches", "agents/assembler/knowing.py", "knowledge"),
    ("recall", "agents/assembler/recall.py", "recalled"),
    ("ranking, of knowledge and of messages", "openvibe/search/ranking.py", "rank"),
    ("counting tokens, everywhere", "agents/assembler/items.py", "count_text"),
    ("choosing what fits", "agents/assembler/fit.py", "fit"),
    ("rendering", "agents/assembler/render.py", "render"),
)


def measure_assemble(
    *, sizes: Sequence[int] = SIZES, entries: int = ENTRIES, repeats: int = 60, warm_up: int = 8
) -> Report:
    """Prompts for a mention (ceiling 8,000 tokens), another question each time, in a database of the bench's own.

    The workspace knows something, part of it restricted, part of it expired, and everything has its vector. The floor
    reads as many bytes of message bodies as the prompt of that thread holds.
    """
    world = make_world(level=LEVEL)
    threads = {size: make_thread(world, size) for size in sizes}
    make_entries(world, entries, mixed=True)
    embed_all()
    questions = [world.language.question() for _ in range(QUESTIONS)]
    with closing(bare_connection()) as bare:
        prompts = {size: _prompt(world, thread, questions[0]) for size, thread in threads.items()}
        steps: dict[str, Step] = {}
        for size, thread in threads.items():
            steps[f"floor {size}"] = _range_read(bare, thread, prompts[size])
            steps[f"assemble {size}"] = _assembling(world, thread, questions)
        medians = interleaved(steps, repeats=repeats, warm_up=warm_up)
    rows: list[Row] = []
    for size in sizes:
        floor, taken = medians[f"floor {size}"], medians[f"assemble {size}"]
        rows.append(Row(f"{size:,} messages: floor", floor, "ms"))
        rows.append(Row(f"{size:,} messages: prompt of {prompts[size].tokens:,} tokens", taken, "ms", taken / floor))
    again = _assembling(world, threads[sizes[-1]], questions)
    rows += shares(again, repeats=len(questions), whole="assemble", places=PLACES)
    return Report("assemble", rows, tuple(_aims(medians, sizes)))


def _aims(medians: dict[str, float], sizes: Sequence[int]) -> Iterator[Aim]:
    ratios = [medians[f"assemble {size}"] / medians[f"floor {size}"] for size in sizes]
    yield Aim("a prompt costs at most so many times one range read of the same bytes", max(ratios), MOST_OF_FLOOR)
    flat = [size for size in sizes if size >= 1_000] or list(sizes)
    growth = medians[f"assemble {flat[-1]}"] / medians[f"assemble {flat[0]}"]
    yield Aim(f"time at {flat[-1]:,} messages over time at {flat[0]:,}", growth, MOST_GROWTH)


def _prompt(world: World, thread: Thread, question: str) -> Prompt:
    return assemble(agent=world.vibe, thread=thread, task="mention", request=question, asked_by=world.ana.participant)


def _assembling(world: World, thread: Thread, questions: Sequence[str]) -> Step:
    turn = cycle(questions)
    return lambda: _prompt(world, thread, next(turn))


def _range_read(bare: psycopg.Connection[Any], thread: Thread, prompt: Prompt) -> Step:
    wanted = sum(len(message.content.encode()) for message in prompt.messages)
    held = bare.execute(
        "SELECT count(*) + 1 FROM (SELECT sum(octet_length(body)) OVER (ORDER BY seq DESC) AS bytes"
        " FROM chat_message WHERE thread_id = %s ORDER BY seq DESC LIMIT 2000) AS newest WHERE bytes < %s",
        [thread.pk, wanted],
    ).fetchone()
    read = "SELECT body FROM chat_message WHERE thread_id = %s AND seq BETWEEN %s AND %s ORDER BY seq"
    between = [thread.pk, max(thread.last_seq - (held[0] if held else 0) + 1, 1), thread.last_seq]
    return lambda: bare.execute(read, between).fetchall()

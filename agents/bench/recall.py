"""`bench recall`: how much of what a question needs stands in what the search selects, for budgets of tokens.

The whole way is measured: conversations are imported, their vectors made by the built-in embedder, and each question
asked of `find_messages`. A message costs the tokens of "speaker: text"; what is selected beyond the budget does not
count. Recall is the share of a question's evidence that was selected, averaged over the questions.
"""

from collections.abc import Iterable
from pathlib import Path
from statistics import mean

from agents.bench.content import World, make_world, settle
from agents.bench.conversations import MadeUp, Talk, meetings_in
from agents.bench.report import Aim, Report, Row
from openvibe.chat.embedding import embed_waiting
from openvibe.chat.models import Thread
from openvibe.chat.searching import find_messages
from openvibe.chat.services.importing import import_thread
from openvibe.llm.tokens import count

MOST_MISSED = {1_000: 66.0, 2_000: 52.0, 4_000: 36.0, 8_000: 17.0}
"""Percent of the evidence in meetings that may be missed, by budget in tokens."""

FACT_MISSED = 10.0
FACT_BUDGET = 2_000


def measure_recall(*, data: Path | None = None, meetings: int | None = None, facts: int = 60) -> Report:
    """Recall in meetings (of the QMSum file `data`, or made up), of facts in a long chat, and in long messages.

    `meetings`: how many are taken, all of the file or five made up when not given; `facts`: how many are asked for.
    """
    world, made_up = make_world(), MadeUp()
    talks = meetings_in(data) if data is not None else made_up.meetings(meetings or 5)
    taken = [talk for _, talk in zip(range(meetings), talks, strict=False)] if meetings else list(talks)
    long = made_up.long_messages(min(facts, 40))
    kinds = {"meetings": taken, "facts": [made_up.facts(facts)], "long messages": [long]}
    found = {kind: _recalls(world, talks) for kind, talks in kinds.items()}
    rows = [
        Row(f"{kind}: evidence in {budget:,} tokens", recall, "%")
        for kind, recalls in found.items()
        for budget, recall in recalls.items()
    ]
    rows.append(Row("questions asked", sum(len(talk.asked) for talks in kinds.values() for talk in talks), ""))
    aims = [
        Aim(f"meetings: % missed in {budget:,} tokens", 100 - found["meetings"][budget], limit)
        for budget, limit in MOST_MISSED.items()
    ]
    aims += [
        Aim(f"{kind}: % missed in {FACT_BUDGET:,} tokens", 100 - found[kind][FACT_BUDGET], FACT_MISSED)
        for kind in ("facts", "long messages")
    ]
    return Report("recall", rows, tuple(aims))


def _recalls(world: World, talks: Iterable[Talk]) -> dict[int, float]:
    """Percent of the evidence found, by budget."""
    threads = [(import_thread(channel=world.channel, imported=talk.imported).thread, talk) for talk in talks]
    embed_waiting()
    settle()
    shares: dict[int, list[float]] = {budget: [] for budget in MOST_MISSED}
    for thread, talk in threads:
        costs = [count(f"{line.author}: {line.text}") for line in talk.imported.lines]
        for asked in talk.asked:
            for budget, found in shares.items():
                selected = _selected(world, thread, asked.question, budget, costs)
                found.append(len(selected & asked.evidence) / len(asked.evidence))
    return {budget: 100 * mean(found) for budget, found in shares.items()}


def _selected(world: World, thread: Thread, question: str, budget: int, costs: list[int]) -> set[int]:
    """The places of what the search selects, as far as it fits the budget at the cost measured here."""
    selected: set[int] = set()
    left = budget
    for hit in find_messages(world.by, question, thread_id=thread.pk, budget=budget).hits:
        cost = costs[hit.seq - 1]
        if cost <= left:
            selected.add(hit.seq)
            left -= cost
    return selected

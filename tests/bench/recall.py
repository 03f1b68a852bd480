"""`bench recall`: how much of what a question needs stands in what the search selects, for budgets of tokens.

The whole way is measured: conversations are imported, their vectors made by the built-in embedder, and each question
asked of `find_messages`. A message costs the tokens of "speaker: text"; what is selected beyond the budget does not
count. Recall is the share of a question's evidence that was selected, averaged over the questions.
"""

from collections.abc import Iterable
from pathlib import Path
from statistics import mean

from openvibe.chat.models import Thread
from openvibe.chat.search.thread import find_messages
from openvibe.chat.services.importing import import_thread
from openvibe.chat.wiring import embed_pending_messages
from openvibe.llm.tokens import count_tokens
from tests.bench.conversations import SampleConversation, SyntheticConversations, read_meetings
from tests.bench.corpus import BenchWorkspace, make_bench_workspace, vacuum_messages
from tests.bench.measurement import Aim, Measurement, Report

MAX_MISSED = {1_000: 66.0, 2_000: 52.0, 4_000: 36.0, 8_000: 17.0}
"""Percent of the evidence in meetings that may be missed, by budget in tokens."""

MAX_FACT_MISSED = 10.0
FACT_BUDGET = 2_000


def measure_recall(*, data: Path | None = None, meetings: int | None = None, facts: int = 60) -> Report:
    """Recall in meetings (of the QMSum file `data`, or made up), of facts in a long chat, and in long messages.

    `meetings`: how many are taken, all of the file or five made up when not given; `facts`: how many are asked for.
    """
    world, made_up = make_bench_workspace(), SyntheticConversations()
    conversations = read_meetings(data) if data is not None else made_up.meetings(meetings or 5)
    meeting_conversations = (
        [talk for _, talk in zip(range(meetings), conversations, strict=False)] if meetings else list(conversations)
    )
    long = made_up.long_messages(min(facts, 40))
    kinds = {"meetings": meeting_conversations, "facts": [made_up.facts(facts)], "long messages": [long]}
    recall_by_kind = {kind: _recall_by_budget(world, conversations) for kind, conversations in kinds.items()}
    rows = [
        Measurement(f"{kind}: evidence in {budget:,} tokens", recall, "%")
        for kind, recalls in recall_by_kind.items()
        for budget, recall in recalls.items()
    ]
    rows.append(
        Measurement(
            "questions asked", sum(len(talk.asked) for conversations in kinds.values() for talk in conversations), ""
        )
    )
    aims = [
        Aim(f"meetings: % missed in {budget:,} tokens", 100 - recall_by_kind["meetings"][budget], limit)
        for budget, limit in MAX_MISSED.items()
    ]
    aims += [
        Aim(f"{kind}: % missed in {FACT_BUDGET:,} tokens", 100 - recall_by_kind[kind][FACT_BUDGET], MAX_FACT_MISSED)
        for kind in ("facts", "long messages")
    ]
    return Report("recall", rows, tuple(aims))


def _recall_by_budget(world: BenchWorkspace, conversations: Iterable[SampleConversation]) -> dict[int, float]:
    """Percent of the evidence found, by budget."""
    threads = [
        (import_thread(channel=world.channel, imported=conversation.imported).thread, conversation)
        for conversation in conversations
    ]
    embed_pending_messages()
    vacuum_messages()
    shares: dict[int, list[float]] = {budget: [] for budget in MAX_MISSED}
    for thread, conversation in threads:
        costs = [count_tokens(f"{line.author}: {line.text}") for line in conversation.imported.lines]
        for question in conversation.asked:
            for budget, recalls in shares.items():
                selected = _selected_seqs(world, thread, question.text, budget, costs)
                recalls.append(len(selected & question.evidence) / len(question.evidence))
    return {budget: 100 * mean(recalls) for budget, recalls in shares.items()}


def _selected_seqs(world: BenchWorkspace, thread: Thread, question: str, budget: int, costs: list[int]) -> set[int]:
    """The places of what the search selects, as far as it fits the budget at the cost measured here."""
    selected: set[int] = set()
    left = budget
    for hit in find_messages(world.by, question, thread_id=thread.pk, budget=budget).hits:
        cost = costs[hit.seq - 1]
        if cost <= left:
            selected.add(hit.seq)
            left -= cost
    return selected

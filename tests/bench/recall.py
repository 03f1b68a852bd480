"""`bench recall`: how much of what a question needs is recalled, for budgets of tokens: by the search alone, and as the
prompt asks for it.

The whole way is measured: conversations are imported, their vectors made by the built-in embedder, and each question
asked. To the bare search a message costs the tokens of "speaker: text"; what the prompt asks for costs what it takes
there, fences and all. Recall is the share of a question's evidence that was selected, averaged over the questions; of
a long message that the prompt cuts, the sentence that answers has to be left."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from agents.agent.access import visible_to
from agents.prompts.assembler.sections.recall import recall_messages
from agents.prompts.assembler.sections.request import PromptRequest, RequestMessage, read_thread
from agents.prompts.assembler.stack import BUDGETS
from openvibe.chat.models import Message, Thread
from openvibe.chat.search.thread import find_messages
from openvibe.engines.llm.tokens import counter_for
from tests.bench.conversations import Question, SampleConversation
from tests.bench.corpus import FIRST_MESSAGE_AT, BenchWorkspace, make_bench_workspace
from tests.bench.evidence import holds_text, import_conversations, normalize
from tests.bench.measurement import Aim, Measurement, Report
from tests.bench.samples import KINDS, sample_conversations

MEASURED_BUDGETS = (1_000, 2_000, 4_000, 8_000)  # tokens

MAX_MISSED: Mapping[str, Sequence[float]] = {
    "meetings": (61.0, 45.0, 28.0, 14.0),
    "short facts": (20.0, 13.0, 7.5, 3.0),
    "long messages": (33.0, 27.0, 20.0, 14.0),
    "dated questions": (15.0, 5.0, 3.0, 2.0),
    "lists": (25.0, 12.0, 4.0, 2.0),
    "links": (10.0, 8.0, 6.0, 4.0),
    "standing instructions": (100.0, 100.0, 100.0, 100.0),
    "echoes": (36.0, 22.0, 15.0, 12.0),
}
"""Percent of the evidence that the bare search may miss, by kind, for each budget."""

MAX_BEHIND = 2.0
"""Points by which what the prompt asks for may stay behind the bare search."""


@dataclass(frozen=True)
class Recalls:
    """Percent of the evidence recalled within a budget."""

    bare: float
    shipped: float


def measure_recall(*, data: Path | None = None, kinds: Sequence[str] = KINDS, quick: bool = False) -> Report:
    """Recall in each kind of conversation; `data` is a QMSum file."""
    rows: list[Measurement] = []
    aims: list[Aim] = []
    for kind in kinds:
        by_budget = recall_by_budget(sample_conversations(kind, data=data, quick=quick))
        for (budget, recalls), limit in zip(by_budget.items(), MAX_MISSED[kind], strict=True):
            rows.append(Measurement(f"{kind}: {budget:,} tokens of the bare search", recalls.bare, "%"))
            rows.append(Measurement(f"{kind}: {budget:,} tokens as the prompt asks", recalls.shipped, "%"))
            aims.append(Aim(f"{kind}: % the bare search misses in {budget:,} tokens", 100 - recalls.bare, limit))
            behind = recalls.bare - recalls.shipped
            aims.append(Aim(f"{kind}: points the prompt stays behind in {budget:,} tokens", behind, MAX_BEHIND))
    return Report("recall", rows, tuple(aims))


def recall_by_budget(conversations: Iterable[SampleConversation]) -> dict[int, Recalls]:
    """What is recalled of every question's evidence, by budget in tokens."""
    world = make_bench_workspace()
    threads = import_conversations(world, conversations)
    seqs = {
        thread.pk: {f"message:{pk}": seq for pk, seq in Message.objects.filter(thread=thread).values_list("pk", "seq")}
        for thread, _ in threads
    }
    asked = [(thread, question) for thread, conversation in threads for question in conversation.asked]
    recalls: dict[int, Recalls] = {}
    for budget in MEASURED_BUDGETS:
        bare = [_bare_share(world, thread, question, budget) for thread, question in asked]
        shipped = [_shipped_share(world, thread, seqs[thread.pk], question, budget) for thread, question in asked]
        recalls[budget] = Recalls(100 * mean(bare), 100 * mean(shipped))
    return recalls


def _bare_share(world: BenchWorkspace, thread: Thread, question: Question, budget: int) -> float:
    """The share of the evidence in what the search selects, as far as it fits the budget."""
    hits = find_messages(world.by, question.text, thread_id=thread.pk, budget=budget, asked_at=question.asked_at).hits
    return len({hit.seq for hit in hits} & question.evidence) / len(question.evidence)


def _shipped_share(
    world: BenchWorkspace, thread: Thread, seqs: Mapping[str, int], question: Question, budget: int
) -> float:
    """The share of the evidence in what is offered for a prompt with so much room and no history in view.

    `seqs`: the places of the thread's messages by the keys of their items.
    """
    left = budget
    recalled: set[int] = set()
    for group in recall_messages(_prompt_request(world, thread, question), (), budget).candidates.groups:
        if group.tokens <= left:
            left -= group.tokens
            recalled.update(
                seqs[item.key] for item in group.items if holds_text(normalize(item.text), question.sentence)
            )
    return len(recalled & question.evidence) / len(question.evidence)


def _prompt_request(world: BenchWorkspace, thread: Thread, question: Question) -> PromptRequest:
    """A question that Ana asks and has not posted."""
    access, asker = visible_to(world.vibe), world.ana.participant
    return PromptRequest(
        agent=world.vibe,
        access=access,
        thread=read_thread(access, thread.pk),
        task="mention",
        message=RequestMessage(question.text, asker, question.asked_at or FIRST_MESSAGE_AT),
        counter=counter_for("offline"),
        budget=BUDGETS["mention"],
    )

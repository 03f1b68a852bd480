"""`bench prompt`: how much of what a question needs stands, word for word, in the prompt that the agent is sent.

The whole way is measured: conversations are imported as the command does, their vectors made by the built-in embedder,
and each question is posted, as a mention and in a thread the agent follows, before and after the thread was compacted;
in a followed thread also one after the other, each answered, so that what was recalled for one keeps its place.
What `assemble` makes of it is searched for the text of each piece of evidence, white space as one blank and escapes
undone on both sides."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import mean, median

from django.db import transaction

from agents.agent.soul import TaskType
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.snapshots.store import shared_prefix_with
from agents.tools.toolbox import Toolbox
from memory.plugins.compaction import execute_compaction, request_compaction_if_due
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import post_message
from tests.bench.conversations import Question, SampleConversation
from tests.bench.corpus import BenchWorkspace, make_bench_workspace
from tests.bench.dialogue import answer_request, store_prompt
from tests.bench.evidence import holds_text, import_conversations, normalize
from tests.bench.measurement import Aim, Measurement, Report
from tests.bench.samples import KINDS, sample_conversations

TASKS: tuple[TaskType, ...] = ("mention", "thread")

MAX_MISSED: dict[str, tuple[float, float]] = {
    "meetings": (32.0, 15.0),
    "short facts": (7.0, 4.0),
    "long messages": (38.0, 22.0),
    "dated questions": (10.0, 10.0),
    "lists": (10.0, 5.0),
    "links": (25.0, 15.0),
    "standing instructions": (5.0, 5.0),
    "echoes": (20.0, 15.0),
}
"""Percent of the evidence that may be missing, by kind, as a mention and in a thread."""


AskedQuestion = tuple[Thread, Question, Sequence[str]]
"""A thread where a question is asked, and the texts of its evidence that are looked for."""

MIN_EVIDENCE_WORDS = 5
"""Shorter texts ("Yeah .") stand in any prompt: they are not looked for."""


@dataclass(frozen=True)
class Answer:
    """What one prompt holds of a question's evidence: `found` of `pieces`. Tokens of the prompt and its ceiling."""

    found: int
    pieces: int
    tokens: int
    ceiling: int
    shared: int | None = None
    """Tokens of it that began as the prompt before it in the same thread, None for the first."""

    @property
    def share(self) -> float:
        return self.found / self.pieces

    @property
    def used(self) -> float:
        return self.tokens / self.ceiling


def measure_prompt(*, data: Path | None = None, kinds: Sequence[str] = KINDS, quick: bool = False) -> Report:
    """The evidence found in prompts, for each kind of conversation and each task; `data` is a QMSum file."""
    rows: list[Measurement] = []
    aims: list[Aim] = []
    for kind in kinds:
        for state, answers_by_task in ask_questions(sample_conversations(kind, data=data, quick=quick)).items():
            for task, answers in answers_by_task.items():
                name, limit = f"{kind}, {state}, {task}", MAX_MISSED[kind][TASKS.index(task)]
                rows += _answer_rows(name, answers)
                aims.append(Aim(f"{name}: % of the evidence missing", 100 - _found(answers), limit))
    return Report("prompt", rows, tuple(aims))


def _answer_rows(name: str, answers: Sequence[Answer]) -> Iterator[Measurement]:
    yield Measurement(f"{name}: evidence found, mean of {len(answers)} questions", _found(answers), "%")
    pieces = sum(answer.pieces for answer in answers)
    if pieces > len(answers):
        found_pieces = sum(answer.found for answer in answers)
        yield Measurement(f"{name}: evidence found, of all {pieces} pieces", 100 * found_pieces / pieces, "%")
        yield Measurement(f"{name}: answered fully", 100 * mean(answer.share == 1 for answer in answers), "%")
    yield Measurement(f"{name}: of the ceiling used, median", 100 * median(answer.used for answer in answers), "%")
    yield Measurement(f"{name}: of the ceiling used, least", 100 * min(answer.used for answer in answers), "%")
    yield Measurement(f"{name}: prompt, median", median(answer.tokens for answer in answers), "tok")
    if in_turn := [answer for answer in answers if answer.shared is not None]:
        yield Measurement(f"{name}: in the common prefix", _shared(in_turn), "%")


def _found(answers: Sequence[Answer]) -> float:
    """Percent, averaged over the questions."""
    return 100 * mean(answer.share for answer in answers)


def _shared(answers: Sequence[Answer]) -> float:
    """Percent of the prompts' tokens that stand in the prefix they share with the one before."""
    return 100 * sum(answer.shared or 0 for answer in answers) / sum(answer.tokens for answer in answers)


def ask_questions(conversations: Iterable[SampleConversation]) -> dict[str, dict[TaskType, list[Answer]]]:
    """What prompts hold of every question's evidence, by state of the threads and task."""
    world = make_bench_workspace()
    threads = import_conversations(world, conversations)
    questions = [
        (thread, question, texts)
        for thread, conversation in threads
        for question in conversation.asked
        if (texts := [text for text in conversation.evidence_texts(question) if _is_telling(text)])
    ]
    imported = {task: _ask_as(task, world, questions) for task in TASKS}
    for thread, _ in threads:
        compact_if_due(thread)
    return {
        "imported": imported,
        "compacted": {task: _ask_as(task, world, questions) for task in TASKS},
        "one after the other": {task: _ask_in_turn(task, world, questions) for task in TASKS},
    }


def _ask_as(task: TaskType, world: BenchWorkspace, questions: Sequence[AskedQuestion]) -> list[Answer]:
    return [count_evidence(make_prompt(world, thread, question, task), texts) for thread, question, texts in questions]


def _ask_in_turn(task: TaskType, world: BenchWorkspace, questions: Sequence[AskedQuestion]) -> list[Answer]:
    """The questions of each thread in a dialogue with the agent, whose prompts are stored; none of it stays."""
    answers: list[Answer] = []
    for thread, asked in groupby(questions, key=lambda each: each[0]):
        before: Prompt | None = None
        with transaction.atomic():
            for _, question, texts in asked:
                request = _post(world, thread, question.text)
                request.created_at = question.asked_at or request.created_at
                prompt = _assemble(world, request, task)
                shared = None if before is None else shared_tokens(before, prompt)
                answers.append(replace(count_evidence(prompt, texts), shared=shared))
                before = prompt
                store_prompt(world.vibe, request, prompt)
                answer_request(world, request, "I looked that up for you above.")
            transaction.set_rollback(True)
    return answers


def shared_tokens(before: Prompt, prompt: Prompt) -> int:
    """Tokens that a prompt has at its beginning in common with another."""
    return shared_prefix_with([item for item in before.included if item.section == "tools"], before.messages, prompt)


def compact_if_due(thread: Thread) -> None:
    """What a worker does to a thread after an agent answered in it."""
    compaction = request_compaction_if_due(thread=thread)
    if compaction is not None:
        execute_compaction(compaction.pk)


def _is_telling(text: str) -> bool:
    return len(text.split()) >= MIN_EVIDENCE_WORDS


def make_prompt(world: BenchWorkspace, thread: Thread, question: Question, task: TaskType) -> Prompt:
    """The prompt of a question that Ana posts; nothing of it stays in the thread."""
    body = f"@{world.vibe.participant.handle} {question.text}" if task == "mention" else question.text
    with transaction.atomic():
        request = _post(world, thread, body)
        request.created_at = question.asked_at or request.created_at
        prompt = _assemble(world, request, task)
        transaction.set_rollback(True)
    return prompt


def _post(world: BenchWorkspace, thread: Thread, body: str) -> Message:
    message = post_message(thread=thread, by=world.by, body=body)
    return Message.objects.select_related("author", "thread").get(pk=message.pk)


def _assemble(world: BenchWorkspace, request: Message, task: TaskType) -> Prompt:
    tools = Toolbox.for_agent(world.vibe, request.thread).offered_specs
    return assemble(agent=world.vibe, thread=request.thread, task=task, request=request, tools=tools)


def count_evidence(prompt: Prompt, texts: Sequence[str]) -> Answer:
    """How many of the texts stand word for word in the prompt."""
    words = normalize(" ".join(message.content for message in prompt.messages))
    return Answer(sum(holds_text(words, text) for text in texts), len(texts), prompt.tokens, prompt.ceiling)

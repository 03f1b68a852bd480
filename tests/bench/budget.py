"""`bench budget`: random prompts of every task, from threads of every shape, against what a budget promises: never over
the ceiling, what must be there is there, and the ceiling is used wherever anything was left out.

A case is a number: its world, thread, task, request, model, budget and the workspace's own numbers are drawn from it.
Left out is what P6 dropped for want of room, and every message before the request that does not stand in the prompt;
what the cap of another layer keeps out does not count."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles

from django.db import transaction

from agents.agent.soul import TaskType
from agents.models import Run
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.stack import BUDGETS, LAYER_NAMES, MIN_CEILING, MIN_REQUEST_TOKENS, check_budgets
from openvibe.base.problems import Problem
from openvibe.chat.models import Message
from openvibe.engines.llm.tokens import count_prompt_tokens
from openvibe.workspaces.models import Workspace
from tests.bench.budget_worlds import SHAPES, BudgetThread, BudgetWorld, Shape, TextWriter, make_budget_worlds
from tests.bench.dialogue import store_prompt
from tests.bench.measurement import Aim, Measurement, Report

CASES, QUICK_CASES = 100_000, 500
WORLDS, QUICK_WORLDS = 16, 3
MODELS = ("gpt-4o", "gpt-4", "somebodys-own-model")  # o200k_base, cl100k_base, a tokenizer nobody knows
MIN_USED = 97.0
"""Percent of the ceiling that is used wherever anything was left out."""

WORST_CASES = 5
DIALOGUE_SHARE = 0.4
"""The share of those cases in which the agent was asked before, so that recalled messages keep their place."""

USUAL_TASKS: Mapping[str, Sequence[TaskType]] = {
    "thread": ("mention", "thread"),
    "compacted thread": ("mention", "thread"),
    "dive": ("dive", "publish"),
}


@dataclass(frozen=True)
class Case:
    """What one case found. `used`: percent of the ceiling. `problem`: why there was no prompt, if there was none."""

    number: int
    kind: str
    used: float = 0.0
    left_out: bool = False
    is_over: bool = False
    miscounted: bool = False
    missing: tuple[str, ...] = ()
    problem: str = ""


def measure_budget(
    *, cases: Sequence[int] = range(CASES), worlds: int = WORLDS, shapes: Sequence[Shape] = SHAPES
) -> Report:
    """What the cases of these numbers add up to, in so many worlds with threads of these shapes."""
    pool = make_budget_worlds(worlds, shapes)
    results = [run_case(pool, number) for number in cases]
    return Report("budget", list(_report_rows(results)), tuple(_aims(results)))


def _report_rows(results: Sequence[Case]) -> Iterator[Measurement]:
    yield Measurement("prompts assembled", sum(not case.problem for case in results), "")
    for problem, count in Counter(case.problem for case in results if case.problem).most_common():
        yield Measurement(f"refused: {problem}", count, "")
    for part, count in Counter(part for case in results for part in case.missing).most_common():
        yield Measurement(f"missing: {part}", count, "")
    by_kind: dict[str, list[float]] = defaultdict(list)
    for case in results:
        if case.left_out:
            by_kind[case.kind].append(case.used)
            by_kind["anything left out"].append(case.used)
    for kind, shares in sorted(by_kind.items()):
        below = 100 * sum(share < MIN_USED for share in shares) / len(shares)
        yield Measurement(f"{kind}: prompts", len(shares), "")
        yield Measurement(f"{kind}: of the ceiling used, least", min(shares), "%")
        yield Measurement(f"{kind}: of the ceiling used, 1st percentile", _percentile(shares), "%")
        yield Measurement(f"{kind}: of the ceiling used, median", median(shares), "%")
        yield Measurement(f"{kind}: prompts that use less than {MIN_USED:g} %", below, "%")
    for case in sorted((case for case in results if case.left_out), key=lambda case: case.used)[:WORST_CASES]:
        yield Measurement(f"worst: case {case.number} ({case.kind})", case.used, "%")


def _percentile(shares: Sequence[float]) -> float:
    """The first of a hundred."""
    return quantiles(shares, n=100, method="inclusive")[0] if len(shares) > 1 else shares[0]


def _aims(results: Sequence[Case]) -> Iterator[Aim]:
    least = min((case.used for case in results if case.left_out), default=100.0)
    yield Aim("prompts over the ceiling", sum(case.is_over for case in results), 0)
    yield Aim("prompts that say another size than they have", sum(case.miscounted for case in results), 0)
    yield Aim("prompts without all of P0 and the request", sum(bool(case.missing) for case in results), 0)
    yield Aim("legal settings without a prompt", sum(bool(case.problem) for case in results), 0)
    yield Aim("% of the ceiling empty where anything was left out, at most", 100 - least, round(100 - MIN_USED, 1))


def run_case(pool: Sequence[BudgetWorld], number: int) -> Case:
    """One random prompt, looked at."""
    source = random.Random(number)
    world = source.choice(pool)
    place = source.choice(world.threads)
    task = _choose_task(source, place)
    model = source.choice(MODELS)
    kind = f"{task} in a {place.kind}" if task in USUAL_TASKS[place.kind] else "task of another place"
    _set_budgets(source, world, task)
    request = _choose_request(source, place)
    ask = partial(
        assemble,
        agent=world.agent,
        thread=place.thread,
        task=task,
        asked_by=world.asker,
        budget=source.choice((None, None, source.randint(MIN_CEILING, 40_000))),
        model=model,
        tools=source.choice((world.tools, world.tools[: source.randint(0, len(world.tools))])),
    )
    try:
        with transaction.atomic():
            if source.random() < DIALOGUE_SHARE:
                _store_earlier_prompts(source, world, place, ask)
            prompt = ask(request=request)
            transaction.set_rollback(True)
    except Problem as error:
        return Case(number, kind, problem=error.code)
    tokens = count_prompt_tokens(prompt.messages, prompt.tools, prompt.counter)
    return Case(
        number,
        kind,
        used=100 * tokens / prompt.ceiling,
        left_out=_is_anything_left_out(prompt, place),
        is_over=tokens > prompt.ceiling,
        miscounted=tokens != prompt.tokens,
        missing=tuple(_missing_parts(prompt, world)),
    )


def _choose_task(source: random.Random, place: BudgetThread) -> TaskType:
    """A dive's own tasks in a dive; now and then one that belongs elsewhere."""
    return source.choice(USUAL_TASKS[place.kind] if source.random() < 0.95 else [*BUDGETS])


def _choose_request(source: random.Random, place: BudgetThread) -> Message | str | None:
    """A stored message, the newest as a rule; words not sent yet, of any length; or none."""
    messages = Message.objects.select_related("author").filter(thread=place.thread, kind=Message.Kind.TEXT)
    choice = source.random()
    if choice < 0.5 and place.thread.last_seq:
        seq = place.thread.last_seq if choice < 0.3 else source.randint(1, place.thread.last_seq)
        return messages.filter(seq__lte=seq).order_by("-seq").first()
    if choice < 0.9:
        writer = TextWriter(source)
        return writer.text(writer.size(1, 60 if choice < 0.75 else 20_000))
    return None


def _store_earlier_prompts(
    source: random.Random, world: BudgetWorld, place: BudgetThread, ask: Callable[..., Prompt]
) -> None:
    """The agent was asked before, a little earlier in the thread: what was recalled then keeps its place."""
    messages = Message.objects.select_related("author").filter(thread=place.thread, kind=Message.Kind.TEXT)
    for seq in sorted(place.thread.last_seq - source.randint(0, 6) for _ in range(source.randint(1, 3))):
        request = messages.filter(seq__lte=seq).order_by("-seq").first()
        if request is not None and not Run.objects.filter(agent=world.agent, trigger=request).exists():
            store_prompt(world.agent, request, ask(request=request))


def _set_budgets(source: random.Random, world: BudgetWorld, task: TaskType) -> None:
    """The workspace's own numbers for the task, as an admin may save them."""
    overrides: dict[str, int] = {}
    if source.random() < 0.5:
        overrides = {"ceiling": source.randint(MIN_CEILING, 60_000)}
        for layer in source.sample(LAYER_NAMES[:-1], source.randint(0, 3)):
            overrides[layer] = source.randint(MIN_REQUEST_TOKENS, 20_000)
    budgets = {task: overrides} if overrides else {}
    check_budgets(budgets)
    Workspace.objects.filter(pk=world.agent.workspace_id).update(budgets=budgets)


def _is_anything_left_out(prompt: Prompt, place: BudgetThread) -> bool:
    if any(left.reason == "over budget" and left.layer == "P6" for left in prompt.dropped):
        return True
    known_keys = {item.key for item in prompt.included} | {
        left.key for left in prompt.dropped if "trust" in left.reason
    }
    request_key = next((item.key for item in prompt.included if item.section == "request"), "")
    end = place.seqs.get(request_key, place.thread.last_seq + 1)
    return any(seq < end and key not in known_keys for key, seq in place.seqs.items())


def _missing_parts(prompt: Prompt, world: BudgetWorld) -> Iterator[str]:
    """What every prompt holds and this one does not."""
    keys, sections = {item.key for item in prompt.included}, {item.section for item in prompt.included}
    yield from (name for name in ("policy", "soul", "request") if name not in sections)
    yield from (tool.name for tool in prompt.tools if f"tool:{tool.name}" not in keys)
    if world.has_instructions and "instructions:organisation" not in keys:
        yield "organisation instructions"

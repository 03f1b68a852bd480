"""Carrying out the calls of one round: each with its row in one transaction, fenced by the run's attempt."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from time import perf_counter

from django.db import transaction

from agents.models import Run, ToolCall
from agents.runs.rounds import Answered
from agents.runs.writing import Answer, still_mine, stop_wanted, wait
from agents.tools.toolbox import Toolbox, refused
from agents.tools.values import Outcome
from openvibe.chat.models import Message
from openvibe.llm import values
from openvibe.llm.fences import clean
from openvibe.llm.tokens import count

AT_ONCE = 16
"""Calls carried out in one round; what a model asks for beyond that is refused."""

BULKY = 2_000
"""Tokens from which on a result is a reason to compact."""


@dataclass
class Called:
    """What one round's calls came to. `waits`: the run waits for an approval now. `stopped`: a person stopped it."""

    answered: tuple[Answered, ...] = ()
    waits: bool = False
    stopped: bool = False
    is_bulky: bool = False


def call_all(
    run: Run, reply: Message, answer: Answer, toolbox: Toolbox, calls: Iterable[values.ToolCall], number: int
) -> Called:
    """Carry out the calls of round `number`, one after the other. Raises RunLost.

    Once one has to wait for an approval, the run waits: the rest are not carried out.
    """
    done = Called()
    for place, call in enumerate(calls):
        if stop_wanted(run):
            done.stopped = True
            return done
        outcome = _call(run, reply, answer, toolbox, call, number, place)
        done.answered += (Answered(call, outcome.result),)
        done.is_bulky = done.is_bulky or count(outcome.result) > BULKY
        if outcome.approval is not None:
            done.waits = True
            return done
    return done


def with_ids(calls: Iterable[values.ToolCall], taken: Iterable[str]) -> tuple[values.ToolCall, ...]:
    """The calls with ids that fit their column and are unique in the exchange: some endpoints begin at 0 each time."""
    used = set(taken)
    named = []
    for call in calls:
        wanted = clean(call.id)[:80] or "call"
        name, number = wanted, 2
        while name in used:
            name, number = f"{wanted}-{number}", number + 1
        used.add(name)
        named.append(replace(call, id=name, name=clean(call.name)[:100] or "?", arguments=clean(call.arguments)))
    return tuple(named)


def _call(
    run: Run, reply: Message, answer: Answer, toolbox: Toolbox, call: values.ToolCall, number: int, place: int
) -> Outcome:
    """What the tool changes and the record of the call, together or not at all."""
    with transaction.atomic():
        current = still_mine(run)
        began = perf_counter()
        outcome = toolbox.carry(call) if place < AT_ONCE else refused(f"At most {AT_ONCE} calls in one turn.")
        ToolCall.objects.create(
            run=run,
            attempt=run.attempt,
            round=number,
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            decision=outcome.decision,
            why=outcome.why,
            result=outcome.result,
            result_tokens=count(outcome.result),
            milliseconds=round((perf_counter() - began) * 1000),
        )
        if outcome.approval is not None:
            wait(current, reply, answer, outcome.approval)
    return outcome

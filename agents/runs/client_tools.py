"""What a chat client (the OpenAI-compatible door) asks of a run: how it is to be answered, and the client's own tools,
offered to the model beside the agent's.

A turn that calls one of them ends the run: the calls are on its record, the client is given them, and brings their
results with its next request, whose run goes on from there. Whether a call is carried out is the client's to
decide, with its own rights, so the agent's trust level says nothing of it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.agent.audience import CallSource, save_sources
from agents.agent.models import RUNS, ClientTurn, Run, ToolCall, ToolSource
from agents.runs.previous_attempts import request_of
from agents.runs.provider_fields import dump_fields, may_be_sent, message_fields
from agents.runs.transcript import Round, ToolResult, with_renamed_calls, without_fields
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.llm.values import CallOptions, ToolCallRequest, ToolSpec
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe.engines.text.masking import mask_secrets

CLIENT_EFFECT = "client"
"""`ToolCall.effect` of a call that the client carries out."""
MAX_CLIENT_CALLS = 16
OPTION_NAMES = tuple(field.name for field in fields(CallOptions))
NO_RESULT = "The client brought no result of this call."


def client_turn_of(run: Run) -> ClientTurn | None:
    """The turn it answers, None for a run that no chat client asked for. No query where it was loaded."""
    return getattr(run, "client_turn", None)


def client_specs(turn: ClientTurn | None) -> tuple[ToolSpec, ...]:
    tools = turn.tools if turn else ()
    return tuple(ToolSpec(tool["name"], tool["description"], tool["parameters"]) for tool in tools)


def options_of(run: Run, turn: ClientTurn | None) -> CallOptions:
    """The options of a run, and of the turn that it answers, where a chat client asked."""
    asked: Mapping[str, Any] = turn.options if turn else {}
    values = {name: asked[name] for name in OPTION_NAMES if asked.get(name) is not None}
    values["stop"] = tuple(values.get("stop", ()))
    values.setdefault("effort", run.agent.effort or None)
    return CallOptions(**values)


def client_calls(run: Run) -> QuerySet[ToolCall]:
    """What the client was asked to call in the run's last attempt, in order."""
    return run.tool_calls.filter(effect=CLIENT_EFFECT, attempt=run.attempt).order_by("id")


def call_id(run_id: int, attempt: int, number: int) -> str:
    """An id that names its run: no other call has it."""
    return f"call_{run_id}_{attempt}_{number}"


def earlier_rounds(turn: ClientTurn | None, origin: str = "") -> list[Round]:
    """Calls of the turns that this one continues, with the results that the client brought, the oldest first. `origin`:
    of the client that is asked now, which gets back what it gave."""
    rounds: list[Round] = []
    while turn is not None and turn.continues is not None:
        turn = turn.continues
        rows = list(client_calls(turn.run))
        results = tuple(ToolResult(request_of(row), row.result or NO_RESULT) for row in rows)
        text = model_text(turn.run)
        if may_be_sent(rows, origin):
            rounds.insert(0, Round(text, results, message_fields(rows)))
        else:
            rounds.insert(0, Round(text, without_fields(results), is_told=True))
    return rounds


@transaction.atomic
def record_client_calls(
    run: Run, calls: Sequence[ToolCallRequest], round_number: int, provider_fields: Mapping[str, Any]
) -> str:
    """Records the calls of a turn with the run, with what its provider wants back with its message; returns the line
    that tells readers of the thread. Raises JobLost."""
    RUNS.lock_owned(run)
    calls = calls[:MAX_CLIENT_CALLS]
    renamed = [replace(call, id=call_id(run.pk, run.attempt, number)) for number, call in enumerate(calls, start=1)]
    kept_fields = dump_fields(with_renamed_calls(provider_fields, calls, renamed), renamed)
    for call, kept in zip(renamed, kept_fields, strict=True):
        row = ToolCall.objects.create(
            run=run,
            attempt=run.attempt,
            round=round_number,
            call_id=call.id,
            provider_fields=kept,
            name=call.name,
            arguments=clean_text(call.arguments) or "{}",
            effect=CLIENT_EFFECT,
            decision=ToolCall.Decision.ALLOWED,
            why="Carried out by the client that asked.",
            finished_at=None,
        )
        save_sources(row, [CallSource(ToolSource.Kind.THREAD, run.thread_id)])
    return handover_line([call.name for call in calls])


def save_client_results(run: Run, results: dict[str, str]) -> None:
    """Stores what the client brought, each result once."""
    for row in client_calls(run).filter(call_id__in=results, finished_at=None):
        row.result = mask_secrets(clean_text(results[row.call_id][:MAX_BODY_CHARACTERS]))
        row.finished_at = timezone.now()
        row.result_tokens = count_tokens(row.result)
        row.save(update_fields=["result", "result_tokens", "finished_at"])


def handover_line(names: Sequence[str]) -> str:
    return f"*Asks the client to call {', '.join(f'`{name}`' for name in names)}.*"


def model_text(run: Run) -> str:
    """The run's answer without the line about the client's calls."""
    text = run.reply.body if run.reply else ""
    names = list(client_calls(run).values_list("name", flat=True))
    return text.removesuffix(handover_line(names)).rstrip() if names else text

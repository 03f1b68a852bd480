"""What a model's provider wants back, as it is kept with the calls of a run that may have to be taken up again.

In the row of each call, as JSON: `call`, what belongs to it, and in the first of a turn `message`, what belongs to the
message that called. Empty where there was nothing; ERASED_FIELDS where there was something that is not kept any more.
Opaque: nobody is shown it, and it leaves with whatever the run had read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.agent.models import Run, ToolCall
from agents.agent.models.run import ERASED_FIELDS
from openvibe.engines.llm.answers.provider_fields import ORIGIN
from openvibe.engines.llm.values import ToolCallRequest

MAX_KEPT_CHARACTERS = 4_000_000
"""The most characters of one call's row. What is longer is sent back by the attempt that was given it, and by none
after it."""


def dump_fields(message_fields: Mapping[str, Any], calls: Sequence[ToolCallRequest]) -> list[str]:
    """What is kept in the row of each call of a turn."""
    if not message_fields and not any(call.provider_fields for call in calls):
        return [""] * len(calls)
    rows = []
    for number, call in enumerate(calls):
        message = {} if number else {"message": dict(message_fields)}
        text = json.dumps({"call": dict(call.provider_fields), **message})
        rows.append(text if len(text) <= MAX_KEPT_CHARACTERS else ERASED_FIELDS)
    return rows


def call_fields(row: ToolCall) -> dict[str, Any]:
    """The fields of one call."""
    return _read(row.provider_fields, "call")


def message_fields(rows: Sequence[ToolCall]) -> dict[str, Any]:
    """The fields of the message that made these calls."""
    return next((fields for row in rows if (fields := _read(row.provider_fields, "message"))), {})


def may_be_sent(rows: Sequence[ToolCall], origin: str) -> bool:
    """Whether what these calls of one turn want back is there, whole, and from the model that is asked now."""
    texts = [row.provider_fields for row in rows]
    return not any(texts) or (ERASED_FIELDS not in texts and message_fields(rows).get(ORIGIN, "") == origin)


def forget_fields(run: Run) -> None:
    """The run is over, and nothing goes on from it."""
    run.tool_calls.exclude(provider_fields="").update(provider_fields="")


def _read(text: str, name: str) -> dict[str, Any]:
    value = json.loads(text).get(name) if text else None
    return value if isinstance(value, dict) else {}

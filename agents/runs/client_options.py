"""How a model is to answer a run: the agent's own effort, and what a chat client asks for besides.

What a client sent stands in its turn as JSON, by the names of `CallOptions`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from agents.models import ClientTurn, Run
from openvibe.llm.values import CallOptions

OPTION_NAMES = tuple(field.name for field in fields(CallOptions))


def options_of(run: Run, turn: ClientTurn | None) -> CallOptions:
    """Of a run, and of the turn that it answers, where a chat client asked."""
    asked: Mapping[str, Any] = turn.options if turn else {}
    values = {name: asked[name] for name in OPTION_NAMES if asked.get(name) is not None}
    values["stop"] = tuple(values.get("stop", ()))
    values.setdefault("effort", run.agent.effort or None)
    return CallOptions(**values)

"""What a stored run saw, as a plain answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agents.assembler.viewing import SnapshotView
from agents.models import Run
from agents.tools.viewing import SeenCall
from openvibe.llm.values import ChatMessage


def seen(run: Run, view: SnapshotView, calls: Iterable[SeenCall]) -> dict[str, Any]:
    """What a run saw, as far as the viewer may see it."""
    snapshot = view.snapshot
    items = [asdict(item) for section in view.sections for item in section.items]
    return {
        "run": run.pk,
        "task": snapshot.task,
        "model": snapshot.model,
        "soul": snapshot.soul.number if snapshot.soul else None,
        "kept": view.kept,
        "messages": _messages(view.messages),
        "tokens": snapshot.tokens,
        "budget": snapshot.budget,
        "counter": snapshot.counter,
        "layers": _layers(snapshot.layers, items),
        "dropped": [asdict(dropped) for dropped in view.dropped],
        "hidden_count": view.hidden_count,
        "prefix_shared": snapshot.prefix_shared,
        "tool_calls": [asdict(call) for call in calls],
        "created_at": snapshot.created_at,
    }


def _messages(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    return [asdict(message) for message in messages]


def _layers(tokens: Mapping[str, int], items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"layer": layer, "tokens": used, "items": [item for item in items if item["layer"] == layer]}
        for layer, used in tokens.items()
    ]

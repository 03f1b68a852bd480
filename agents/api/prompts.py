"""Prompts as plain answers: the dry run of an assembly, and what a stored run saw."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agents.assembler.assemble import Prompt
from agents.assembler.snapshot import SnapshotView
from agents.models import Run
from openvibe.llm.values import ChatMessage


def assembled(prompt: Prompt, prefix_shared: int) -> dict[str, Any]:
    """What `context/assemble/` answers, and what `context show --json` prints."""
    items = [asdict(item) for item in prompt.included]
    return {
        "messages": _messages(prompt.messages),
        "tools": [asdict(tool) for tool in prompt.tools],
        "tokens": prompt.tokens,
        "budget": prompt.ceiling,
        "counter": prompt.counter.name,
        "model": prompt.model,
        "layers": _layers(prompt.layers, items),
        "dropped": [asdict(dropped) for dropped in prompt.dropped],
        "prefix_shared": prefix_shared,
    }


def seen(run: Run, view: SnapshotView) -> dict[str, Any]:
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
        "created_at": snapshot.created_at,
    }


def _messages(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    return [asdict(message) for message in messages]


def _layers(tokens: Mapping[str, int], items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"layer": layer, "tokens": used, "items": [item for item in items if item["layer"] == layer]}
        for layer, used in tokens.items()
    ]

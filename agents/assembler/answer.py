"""A prompt for programs: what `POST context/assemble` answers and `context show --json` prints."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from agents.assembler.assemble import Prompt
from agents.assembler.values import Dropped, Item
from agents.assembler.viewing import SeenDrop, view_of_prompt
from openvibe.workspaces.access import Access

ITEM = ("layer", "section", "key", "source", "author", "ref", "trust", "tokens", "text")
DROPPED = ("layer", "section", "source", "author", "tokens", "reason")


def assembled_answer(prompt: Prompt, prefix_shared: int, access: Access | None = None) -> dict[str, Any]:
    """Plain values of a prompt, sizes in tokens; `prefix_shared` as `snapshot.shared_prefix` counts it.

    `layers` are P0 to P6 in order, each with its items, and `frame`: what the messages' own wrapping takes. Of what was
    left out `access` is told only what it may know of; None (the command line) is told everything.
    """
    items = _chosen(prompt.included, ITEM)
    dropped = prompt.dropped if access is None else view_of_prompt(prompt, access).dropped
    return {
        "messages": [asdict(message) for message in prompt.messages],
        "tools": [asdict(tool) for tool in prompt.tools],
        "tokens": prompt.tokens,
        "budget": prompt.ceiling,
        "counter": prompt.counter.name,
        "model": prompt.model,
        "layers": [
            {"layer": layer, "tokens": tokens, "items": [item for item in items if item["layer"] == layer]}
            for layer, tokens in prompt.layers.items()
        ],
        "dropped": _chosen(dropped, DROPPED),
        "prefix_shared": prefix_shared,
    }


def _chosen(entries: Iterable[Item | Dropped | SeenDrop], fields: Iterable[str]) -> list[dict[str, Any]]:
    return [{field: getattr(entry, field) for field in fields} for entry in entries]

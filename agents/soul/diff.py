"""What changed between two Souls: by field for people and pages, by line for the diff view."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, Literal

from agents.soul.rendering import soul_to_dict, soul_to_yaml
from agents.soul.values import Soul


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `before` is empty for something added, `after` for something removed."""

    field: str
    kind: Literal["added", "removed", "changed"]
    before: str
    after: str


def diff_souls(before: Soul, after: Soul) -> list[Change]:
    """Every change from `before` to `after`, in the order of a SOUL's fields; lists entry by entry."""
    old, new = soul_to_dict(before), soul_to_dict(after)
    return [
        change
        for part, values in old.items()
        for key, value in values.items()
        for change in _changes(f"{part}.{key}", value, new[part][key])
    ]


def diff_lines(before: Soul, after: Soul, *, names: tuple[str, str] = ("before", "after")) -> str:
    """A unified diff of the canonical YAML, empty when nothing changed."""
    lines = unified_diff(soul_to_yaml(before).splitlines(), soul_to_yaml(after).splitlines(), *names, lineterm="")
    return "\n".join(lines)


def _changes(field: str, old: Any, new: Any) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, list):
        yield from _entry_changes(field, [_words(entry) for entry in old], [_words(entry) for entry in new])
        return
    before, after = _words(old), _words(new)
    yield Change(field, "added" if not before else "changed" if after else "removed", before, after)


def _entry_changes(field: str, old: list[str], new: list[str]) -> Iterator[Change]:
    removed, added = _without(old, new), _without(new, old)
    for entry in removed:
        yield Change(field, "removed", entry, "")
    for entry in added:
        yield Change(field, "added", "", entry)
    if not removed and not added:
        yield Change(field, "changed", "\n".join(old), "\n".join(new))


def _without(entries: list[str], others: list[str]) -> list[str]:
    left = list(others)
    kept = []
    for entry in entries:
        if entry in left:
            left.remove(entry)
        else:
            kept.append(entry)
    return kept


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['condition']} → {value['action']}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)

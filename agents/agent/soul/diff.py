"""The difference of two SOULs. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from agents.agent.soul.values import Soul, soul_to_dict


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """One difference. `before` is empty for something added, `after` for something removed."""

    field: str
    kind: Literal["added", "removed", "changed"]
    before: str
    after: str


def diff_souls(before: Soul, after: Soul) -> list[FieldDiff]:
    """Every change from `before` to `after`, in the order of a SOUL's fields; lists entry by entry."""
    old, new = soul_to_dict(before), soul_to_dict(after)
    return [
        change
        for part, values in old.items()
        for key, value in values.items()
        for change in _field_changes(f"{part}.{key}", value, new[part][key])
    ]


def _field_changes(path: str, old: Any, new: Any) -> Iterator[FieldDiff]:
    if old == new:
        return
    if isinstance(old, list):
        yield from _entry_changes(path, list(map(_display_text, old)), list(map(_display_text, new)))
        return
    before, after = _display_text(old), _display_text(new)
    yield FieldDiff(path, "added" if not before else "changed" if after else "removed", before, after)


def _entry_changes(path: str, old: list[str], new: list[str]) -> Iterator[FieldDiff]:
    changes = [FieldDiff(path, "removed", entry, "") for entry in _list_difference(old, new)]
    changes += [FieldDiff(path, "added", "", entry) for entry in _list_difference(new, old)]
    yield from changes or [FieldDiff(path, "changed", "\n".join(old), "\n".join(new))]


def _list_difference(entries: list[str], others: list[str]) -> list[str]:
    remaining_entries = list(others)
    only_here = []
    for entry in entries:
        if entry in remaining_entries:
            remaining_entries.remove(entry)
        else:
            only_here.append(entry)
    return only_here


def _display_text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['condition']} → {value['action']}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)

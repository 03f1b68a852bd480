"""The account of an import: every record that was read was taken in or left out, by kind and reason. Pure."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

MAX_NAMED, MAX_REASONS = 3, 200
"""Places named for each reason, the others are counted; reasons told apart."""

OTHER_REASONS = "for other reasons"
NOT_REACHED = "the import ended before it"
NOTHING_TO_SEE = "nothing in it can be seen"
SAID_NOTHING = "nothing of theirs was taken in"

KINDS = {
    "message": "messages",
    "person": "people",
    "channel": "channels",
    "file": "files",
    "reaction": "reactions",
    "pin": "pins",
    "link preview": "link previews",
    "canvas": "canvases",
    "record": "other records",
}
"""What is counted, and what several of it are called, in the order in which it is told."""


@dataclass(frozen=True, slots=True)
class KindTotal:
    """One kind of record: `read` = `imported` + `left_out`; of the imported, `present` were there before."""

    kind: str
    read: int
    imported: int
    present: int
    left_out: int

    @property
    def name(self) -> str:
        return KINDS.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Records of a kind that were left out for a reason, which goes on from "it"; where the first ones stand."""

    kind: str
    reason: str
    count: int
    places: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.kind if self.count == 1 else KINDS.get(self.kind, self.kind)

    @property
    def where(self) -> str:
        more = f", and {self.count - len(self.places):,} more" if self.count > len(self.places) else ""
        return f"{', '.join(self.places)}{more}" if self.places else ""

    @property
    def sentence(self) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"{self.count:,} {self.name} left out: {self.reason}{where}"


class Account:
    """Counts while a file is read and written. Once `close` was called, each kind's sum is equal."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        """`on_change` is called after each record, for who shows how far it is."""
        self._read: Counter[str] = Counter()
        self._imported: Counter[str] = Counter()
        self._present: Counter[str] = Counter()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._places: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._people: dict[str, str] = {}
        self._on_change = on_change

    def read(self, kind: str = "message", count: int = 1) -> None:
        self._read[kind] += count
        self._on_change()

    def leave_out(self, place: str, reason: str, kind: str = "message", count: int = 1) -> None:
        """Says of a record that was read why it is not taken in. `place` says where it stands."""
        key = kind, reason
        if key not in self._counts and len(self._counts) >= MAX_REASONS:
            key = kind, OTHER_REASONS
        self._counts[key] += count
        if place and len(self._places[key]) < MAX_NAMED:
            self._places[key].append(place)

    def refuse(self, place: str, reason: str, kind: str = "message", count: int = 1) -> None:
        """A record that is read and left out."""
        self.read(kind, count)
        self.leave_out(place, reason, kind, count)

    def take_in(self, kind: str = "message", count: int = 1, *, present: bool = False) -> None:
        """Says of a record that was read that it is here now, or (`present`) was before."""
        self._imported[kind] += count
        self._present[kind] += count if present else 0

    def read_person(self, key: str, place: str) -> None:
        """A person of the file: taken in when something of theirs is."""
        self.read("person")
        if key in self._people:
            self.leave_out(place, "they are there already, with the same id", "person")
        else:
            self._people[key] = place

    def meet_person(self, key: str, *, present: bool = False) -> None:
        """Somebody who spoke, was named or reacted."""
        if self._people.pop(key, None) is not None:
            self.take_in("person", present=present)

    def close(self) -> None:
        """Leaves out whatever was read and had no end."""
        for place in self._people.values():
            self.leave_out(place, SAID_NOTHING, "person")
        self._people.clear()
        for kind, count in self._read.items():
            if (rest := count - self._imported[kind] - self._left_out(kind)) > 0:
                self.leave_out("", NOT_REACHED, kind, rest)

    def _left_out(self, kind: str) -> int:
        return sum(count for (each, _), count in self._counts.items() if each == kind)

    def count_read(self, kind: str = "message") -> int:
        return self._read[kind]

    def count_left_out(self) -> int:
        return self._counts.total()

    def totals(self) -> list[KindTotal]:
        """One row for each kind that was read."""
        kinds = [kind for kind in KINDS if self._read[kind]]
        return [
            KindTotal(kind, self._read[kind], self._imported[kind], self._present[kind], self._left_out(kind))
            for kind in kinds
        ]

    def left_out(self) -> list[LeftOut]:
        """One row for each kind and reason, the most frequent of a kind first."""
        order = list(KINDS)
        rows = [LeftOut(*key, count, tuple(self._places[key])) for key, count in self._counts.items()]
        return sorted(rows, key=lambda row: (order.index(row.kind), -row.count, row.reason))

    def sentences(self) -> list[str]:
        """One sentence for each kind and reason: how many, why, and where."""
        return [row.sentence for row in self.left_out()]

    def to_json(self) -> dict[str, Any]:
        """What is kept of it: `kinds` and `left_out`, as the rows above."""
        return {
            "kinds": [
                {
                    "kind": each.kind,
                    "read": each.read,
                    "imported": each.imported,
                    "present": each.present,
                    "left_out": each.left_out,
                }
                for each in self.totals()
            ],
            "left_out": [
                {"kind": each.kind, "reason": each.reason, "count": each.count, "places": list(each.places)}
                for each in self.left_out()
            ],
        }


def load_account(value: Mapping[str, Any]) -> tuple[list[KindTotal], list[LeftOut]]:
    """The rows of an account that was kept."""
    kinds = [KindTotal(**each) for each in value.get("kinds", [])]
    return kinds, [LeftOut(**{**each, "places": tuple(each["places"])}) for each in value.get("left_out", [])]


def account_csv(value: Mapping[str, Any]) -> str:
    """A kept account as a table: a row for each kind, then one for each reason with the first places."""
    kinds, reasons = load_account(value)
    header = ["kind", "read", "imported", "of these there before", "left out", "reason", "first places"]
    rows: Iterator[Iterable[object]] = chain(
        [header],
        ([each.kind, each.read, each.imported, each.present, each.left_out, "", ""] for each in kinds),
        ([each.kind, "", "", "", each.count, each.reason, "; ".join(each.places)] for each in reasons),
    )
    table = io.StringIO()
    csv.writer(table).writerows(rows)
    return table.getvalue()

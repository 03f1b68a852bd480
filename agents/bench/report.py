"""What a bench found, as a table for people and as JSON for programs. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One measure. `value` is in `unit`; `ratio` is to the floor of the same run, None where there is none."""

    what: str
    value: float
    unit: str
    ratio: float | None = None


@dataclass(frozen=True)
class Aim:
    """A promise: `value` should be at most `limit`."""

    aim: str
    value: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.value <= self.limit


@dataclass(frozen=True)
class Report:
    bench: str
    rows: Sequence[Row]
    aims: Sequence[Aim] = ()

    def as_values(self) -> dict[str, Any]:
        """`{"bench", "rows": [...], "aims": [{"aim", "value", "limit", "holds"}]}`."""
        return {
            "bench": self.bench,
            "rows": [asdict(row) for row in self.rows],
            "aims": [{**asdict(aim), "holds": aim.holds} for aim in self.aims],
        }

    def as_table(self) -> str:
        width = max(len(row.what) for row in self.rows)
        lines = [f"bench {self.bench}"]
        for row in self.rows:
            ratio = "" if row.ratio is None else f"{row.ratio:>8.2f} × floor"
            lines.append(f"  {row.what:<{width}}  {row.value:>10,.2f} {row.unit:<5}{ratio}".rstrip())
        for aim in self.aims:
            state = "holds " if aim.holds else "MISSED"
            lines.append(f"  {state} {aim.aim}: {aim.value:.2f}, aim ≤ {aim.limit:g}")
        return "\n".join(lines)

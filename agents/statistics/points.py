"""What is known of a prompt that was sent: where and when, how large, of what, and how well it was cached. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Rate:
    """`part` of `whole` tokens, both None where nobody measured it."""

    part: int | None = None
    whole: int | None = None

    @property
    def percent(self) -> float | None:
        return round(100 * min(self.part / self.whole, 1), 1) if self.part is not None and self.whole else None


@dataclass(frozen=True)
class PromptPoint:
    """The first prompt of a run. `shared`: the prefix in common with the run before, of its tokens; `cached`: of all
    the run sent. `budget`: its ceiling, in tokens; `layers` and `sections`: its tokens by each, as its snapshot has
    them."""

    run_id: int
    agent: str
    thread_id: int
    thread_title: str
    at: datetime
    shared: Rate
    cached: Rate
    tokens: int
    budget: int
    layers: Mapping[str, int]
    sections: Mapping[str, int]


@dataclass(frozen=True)
class RatesAround:
    """Rates of the runs before a compaction (up to RUNS_AROUND), of the first after it, and of those that follow (so
    many again)."""

    before: Rate
    first: Rate
    after: Rate


def total_rate(rates: Iterable[Rate]) -> Rate:
    """All of them together, weighted by their tokens; what was not measured does not count."""
    counts = [(rate.part, rate.whole) for rate in rates if rate.part is not None and rate.whole]
    if not counts:
        return Rate()
    return Rate(sum(part for part, _ in counts), sum(whole for _, whole in counts))

"""How fresh an entry is, said once for the page, the API and the prompt. Pure: no Django."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol

from knowledge.presets import shown

State = Literal["fresh", "expiring", "expired", "proposed", "needs_review", "superseded", "archived"]
STATES: tuple[State, ...] = ("fresh", "expiring", "expired", "proposed", "needs_review", "superseded", "archived")

EXPIRING = timedelta(days=14)
"""Before its time is over an entry counts as expiring for so long."""

WHY = {
    "expired": "it expired",
    "contradiction": "it may contradict another entry",
    "wrong": "somebody said it was wrong",
    "source_gone": "what it was made from was deleted",
    "unused": "nobody used it for 90 days",
    "asked": "somebody asked for it",
}


class HasFreshness(Protocol):
    """What of an entry decides how fresh it is."""

    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def expires_at(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class Freshness:
    """`words` is for people and prompts, `at` the instant at which the entry stops holding, or stopped."""

    state: State
    words: str
    at: datetime | None = None

    @property
    def exactly(self) -> str:
        """The instant to the minute, UTC; empty where there is none."""
        return shown(self.at) if self.at else ""


def freshness(entry: HasFreshness, now: datetime | None = None) -> Freshness:
    """How the entry stands at `now` (aware; the default is this moment).

    An entry whose time is over is `expired` from the very instant, whether or not the job has run.
    """
    at, now = entry.expires_at, now or datetime.now(UTC)
    if entry.status in ("proposed", "superseded"):
        return Freshness("proposed" if entry.status == "proposed" else "superseded", entry.status, at)
    if entry.status == "archived":
        return Freshness("archived", "archived: nobody used it for 90 days" if entry.reason == "unused" else "archived")
    if at is not None and at <= now and entry.reason in ("", "expired"):
        return Freshness("expired", f"expired {_ago(now - at)}", at)
    if entry.status == "needs_review":
        return Freshness("needs_review", f"needs review: {WHY.get(entry.reason, WHY['asked'])}", at)
    if at is None:
        return Freshness("fresh", "does not expire")
    return Freshness("expiring" if at - now <= EXPIRING else "fresh", f"expires in {_span(at - now)}", at)


def _ago(span: timedelta) -> str:
    return "just now" if span < timedelta(minutes=1) else f"{_span(span)} ago"


def _span(span: timedelta) -> str:
    """`40 min`, `5 h`, `6 d`: to the nearest, at least one minute. What holds for 90 days says so from the start."""
    minutes = max(1, round(span.total_seconds() / 60))
    if minutes < 60:
        return f"{minutes} min"
    return f"{round(minutes / 60)} h" if minutes < 48 * 60 else f"{round(minutes / (24 * 60))} d"

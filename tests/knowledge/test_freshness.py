"""How fresh an entry is: the same word in the page, the API, the prompt and the filter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from knowledge.expiry import EXPIRING_WITHIN, FRESHNESS_STATES, compute_freshness
from knowledge.filters import filter_entries
from knowledge.models import Entry
from openvibe.workspaces.models import Member
from tests.factories import make_entry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@dataclass
class Standing:
    status: str = "active"
    expires_at: datetime | None = None
    reason: str = ""


@pytest.mark.parametrize(
    ("entry", "state", "words"),
    [
        (Standing(), "fresh", "does not expire"),
        (Standing(expires_at=NOW + timedelta(days=60, hours=5)), "fresh", "expires in 60 d"),
        (Standing(expires_at=NOW + EXPIRING_WITHIN), "expiring", "expires in 14 d"),
        (Standing(expires_at=NOW + EXPIRING_WITHIN + SECOND), "fresh", "expires in 14 d"),
        (Standing(expires_at=NOW + timedelta(hours=47)), "expiring", "expires in 47 h"),
        (Standing(expires_at=NOW + SECOND), "expiring", "expires in 1 min"),
        (Standing(expires_at=NOW), "expired", "expired just now"),
        (Standing(expires_at=NOW - timedelta(days=3)), "expired", "expired 3 d ago"),
        (Standing("needs_review", NOW - timedelta(days=3), "expired"), "expired", "expired 3 d ago"),
        (
            Standing("needs_review", NOW - timedelta(days=3), "wrong"),
            "needs_review",
            "needs review: somebody said it was wrong",
        ),
        (
            Standing("needs_review", None, "source_gone"),
            "needs_review",
            "needs review: what it was made from was deleted",
        ),
        (Standing("proposed", NOW - SECOND), "proposed", "proposed"),
        (Standing("superseded"), "superseded", "superseded"),
        (Standing("archived", None, "unused"), "archived", "archived: nobody used it for 90 days"),
    ],
)
def test_every_standing_has_its_words(entry: Standing, state: str, words: str) -> None:
    freshness = compute_freshness(entry, NOW)

    assert (freshness.state, freshness.words) == (state, words)


def test_the_exact_instant_is_at_hand() -> None:
    assert compute_freshness(Standing(expires_at=NOW), NOW).formatted_at == "2026-03-01 12:00 UTC"
    assert compute_freshness(Standing(expires_at=datetime(2027, 1, 6, tzinfo=UTC)), NOW).formatted_at == "2027-01-05"
    assert compute_freshness(Standing(), NOW).formatted_at == ""


def test_the_filter_says_the_same(ana: Member) -> None:
    now = datetime.now(UTC)
    rows = [
        (status, reason, at)
        for status in Entry.Status.values
        for reason in ("", "expired", "wrong")
        for at in (None, now - SECOND, now, now + SECOND, now + EXPIRING_WITHIN, now + timedelta(days=60))
        if status == "needs_review" or (not reason and status != "superseded")
    ]
    for status, reason, at in rows:
        entry = make_entry(ana)
        Entry.objects.filter(pk=entry.pk).update(status=status, reason=reason, expires_at=at)

    for state in FRESHNESS_STATES:
        matches = set(filter_entries(Entry.objects.all(), freshness=state, now=now))
        assert matches == {entry for entry in Entry.objects.all() if compute_freshness(entry, now).state == state}

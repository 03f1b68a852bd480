"""Earlier versions of what an agent carries, as the page of versions shows them: blocks and notes alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from memory.models import CarriedVersion

SHOWN = 50
HOW = {
    "page": "",
    "admin": "in the admin",
    "api": "through the API",
    "agent": "in a conversation",
    "review": "from a review",
    "import": "by an import",
    "default": "from the start",
}


@dataclass(frozen=True, slots=True)
class VersionShown:
    """`same`: the text is that of the version before; only its limit, description or flag was changed."""

    number: int
    text: str
    author: str
    how: str
    at: datetime
    is_current: bool
    same: bool


def versions_shown(rows: QuerySet[CarriedVersion]) -> list[VersionShown]:
    """The newest 50 versions, the newest first. One query."""
    found: Sequence[CarriedVersion] = list(rows.select_related("author").order_by("-number")[: SHOWN + 1])
    texts = [row.content for row in found]
    return [
        VersionShown(
            row.number,
            row.content,
            row.author.name if row.author else "Somebody who is gone" if row.how != "default" else "OpenVibe",
            HOW.get(row.how, ""),
            row.created_at,
            is_current=at == 0,
            same=texts[at + 1 : at + 2] == [row.content],
        )
        for at, row in enumerate(found[:SHOWN])
    ]

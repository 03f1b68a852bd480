"""What the cells of an imported row say. Nothing here asks the database.

`words_in` comes first, for a row that is there already is not read any further: an exported entry whose time is over
comes back as the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.utils import timezone

from knowledge.models import Entry
from knowledge.presets import expiry_of
from knowledge.services.worded import (
    known_client_id,
    known_kind,
    known_visibility,
    worded_content,
    worded_tags,
    worded_topic,
)
from knowledge.sheets import Cells
from openvibe.base.problems import Problem

YES = frozenset(("yes", "true", "1", "x", "y"))
NO = frozenset(("", "no", "false", "0", "n", "none"))
_UNKEEPABLE = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Words:
    """What makes two rows the same. `key` is the row's own, or made of its words; `tokens` are those of the content."""

    topic: str
    content: str
    tokens: int
    key: str


@dataclass(frozen=True, slots=True)
class Particulars:
    """The rest of a row. `owner` is a handle, empty for whoever imports."""

    status: str
    kind: str
    visibility: str
    expires_at: datetime | None
    tags: list[str]
    owner: str
    is_pinned: bool


def words_in(cells: Cells) -> Words:
    """Topic, content and key. Raises Problem in words for a report."""
    topic, content = _said(cells, "topic"), _said(cells, "content")
    topic, (content, tokens) = worded_topic(topic), worded_content(content)
    key = _said(cells, "client_id").strip() or f"import:{_fingerprint(topic, content)}"
    return Words(topic, content, tokens, known_client_id(key))


def particulars_in(cells: Cells) -> Particulars:
    """Everything else. Raises Problem in words for a report."""
    status = _word(cells, "status") or Entry.Status.ACTIVE
    found = Particulars(
        status=status,
        owner=_word(cells, "owner").lstrip("@"),
        kind=known_kind(_word(cells, "kind") or Entry.Kind.FACT),
        visibility=known_visibility(_word(cells, "visibility") or Entry.Visibility.SHARED),
        expires_at=expiry_of(_said(cells, "expires_at"), now=timezone.now()),
        tags=worded_tags(_tags(cells.get("tags"))),
        is_pinned=_is_yes(cells.get("pinned")),
    )
    if status not in (Entry.Status.ACTIVE, Entry.Status.PROPOSED):
        raise Problem(f"An entry that is {status[:40]} is not imported; active and proposed ones are.")
    return found


def _said(cells: Cells, name: str) -> str:
    value = cells.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        if _UNKEEPABLE.search(value):
            raise Problem(f"{name} holds a NUL or half of a character, which cannot be kept.")
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise Problem(f"{name} has to be a text.")


def _word(cells: Cells, name: str) -> str:
    return _said(cells, name).strip().lower()


def _tags(value: object) -> list[str]:
    if isinstance(value, list):
        if not all(isinstance(tag, str) for tag in value):
            raise Problem("Tags are texts.")
        return value
    return str(value or "").replace(";", ",").split(",")


def _is_yes(value: object) -> bool:
    said = str(value if value is not None else "").strip().lower()
    if said in YES or said in NO:
        return said in YES
    raise Problem("pinned is yes or no.")


def _fingerprint(topic: str, content: str) -> str:
    return sha256(f"{topic}\n{content}".encode()).hexdigest()[:32]

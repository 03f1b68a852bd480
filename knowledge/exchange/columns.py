"""The columns of an imported row, parsed into an entry's text and fields. Nothing here asks the database.

`parse_text` comes first, for a row that is there already is not read any further: an exported entry whose time is over
comes back as the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.utils import timezone

from knowledge.exchange.tabular import Cells
from knowledge.expiry import parse_expiry
from knowledge.models import Entry
from knowledge.services.validation import (
    clean_client_id,
    clean_content,
    clean_kind,
    clean_tags,
    clean_topic,
    clean_visibility,
)
from openvibe.base.problems import Problem

TRUE_WORDS = frozenset(("yes", "true", "1", "x", "y"))
FALSE_WORDS = frozenset(("", "no", "false", "0", "n", "none"))
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RowText:
    """What makes two rows the same. `key` is the row's own, or made of its words; `tokens` are those of the content."""

    topic: str
    content: str
    tokens: int
    key: str


@dataclass(frozen=True, slots=True)
class RowFields:
    """The rest of a row. `owner` is a handle, empty for whoever imports."""

    status: str
    kind: str
    visibility: str
    expires_at: datetime | None
    tags: list[str]
    owner: str
    is_pinned: bool


def parse_text(cells: Cells) -> RowText:
    """Topic, content and key. Raises Problem in words for a report."""
    topic, content = _text_cell(cells, "topic"), _text_cell(cells, "content")
    topic, (content, tokens) = clean_topic(topic), clean_content(content)
    key = _text_cell(cells, "client_id").strip() or f"import:{_fingerprint(topic, content)}"
    return RowText(topic, content, tokens, clean_client_id(key))


def parse_fields(cells: Cells) -> RowFields:
    """Everything else. Raises Problem in words for a report."""
    status = _keyword_cell(cells, "status") or Entry.Status.ACTIVE
    fields = RowFields(
        status=status,
        owner=_keyword_cell(cells, "owner").lstrip("@"),
        kind=clean_kind(_keyword_cell(cells, "kind") or Entry.Kind.FACT),
        visibility=clean_visibility(_keyword_cell(cells, "visibility") or Entry.Visibility.SHARED),
        expires_at=parse_expiry(_text_cell(cells, "expires_at"), now=timezone.now()),
        tags=clean_tags(_tags_cell(cells.get("tags"))),
        is_pinned=_bool_cell(cells.get("pinned")),
    )
    if status not in (Entry.Status.ACTIVE, Entry.Status.PROPOSED):
        raise Problem(f"An entry that is {status[:40]} is not imported; active and proposed ones are.")
    return fields


def _text_cell(cells: Cells, name: str) -> str:
    value = cells.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            raise Problem(f"{name} holds a NUL or half of a character, which cannot be kept.")
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise Problem(f"{name} has to be a text.")


def _keyword_cell(cells: Cells, name: str) -> str:
    return _text_cell(cells, name).strip().lower()


def _tags_cell(value: object) -> list[str]:
    if isinstance(value, list):
        if not all(isinstance(tag, str) for tag in value):
            raise Problem("Tags are texts.")
        return value
    return str(value or "").replace(";", ",").split(",")


def _bool_cell(value: object) -> bool:
    word = str(value if value is not None else "").strip().lower()
    if word in TRUE_WORDS or word in FALSE_WORDS:
        return word in TRUE_WORDS
    raise Problem("pinned is yes or no.")


def _fingerprint(topic: str, content: str) -> str:
    return sha256(f"{topic}\n{content}".encode()).hexdigest()[:32]

"""What an entry may say, made fit for keeping. Every refusal is a sentence that names the field."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Final

from django.utils import timezone

from knowledge.models import ENTRY_TOKEN_LIMIT, TOPIC, Entry
from knowledge.presets import checked_expiry
from openvibe.base.problems import Problem
from openvibe.chat.text import TextRefused, clean_body, clean_title
from openvibe.llm.tokens import count

CONTENT_CHARACTERS = 1_000_000
"""More than this is refused unread; up to there the refusal says the exact number of tokens."""

NOTE_CHARACTERS = 2_000
TAGS = 10
TAG = 40


class Keep(Enum):
    """Says of a value that may be None: leave it as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP
Expiry = datetime | None | Keep


def worded_topic(text: str) -> str:
    """One line of 1 to 120 characters."""
    try:
        topic = clean_title(text, max_characters=max(TOPIC, len(text)))
    except TextRefused as error:
        message = "An entry needs a topic." if error.code == "empty" else error.message
        raise Problem(message, code=error.code, field="topic") from None
    if len(topic) > TOPIC:
        raise Problem(
            f"This topic has {len(topic):,} characters; at most {TOPIC} fit. Nothing was lost: shorten it.",
            code="too_long",
            field="topic",
        )
    return topic


def worded_content(text: str) -> tuple[str, int]:
    """The content as it is kept, and its tokens (o200k_base), at most 2,000."""
    try:
        content = clean_body(text, max_characters=CONTENT_CHARACTERS, max_bytes=4 * CONTENT_CHARACTERS)
    except TextRefused as error:
        message = "An entry needs some content." if error.code == "empty" else error.message
        raise Problem(message, code=error.code, field="content") from None
    tokens = count(content)
    if tokens > ENTRY_TOKEN_LIMIT:
        raise Problem(
            f"This text has {len(content):,} characters and needs {tokens:,} tokens; an entry holds at most "
            f"{ENTRY_TOKEN_LIMIT:,} tokens. Nothing was lost: shorten it, or make several entries of it.",
            code="too_long",
            field="content",
        )
    return content, tokens


def worded_tags(tags: Iterable[str]) -> list[str]:
    """Lower case, without a leading `#`, each once, in the order given."""
    found: dict[str, None] = {}
    for given in tags:
        if not isinstance(given, str) or "\x00" in given or not given.isprintable():
            raise Problem("A tag is a short text without control characters.", code="bad_tag", field="tags")
        tag = " ".join(given.strip().lstrip("#").lower().split())
        if len(tag) > TAG:
            raise Problem(
                f"The tag “{tag[:TAG]}…” has {len(tag):,} characters; at most {TAG} fit.", code="bad_tag", field="tags"
            )
        if tag:
            found[tag] = None
    if len(found) > TAGS:
        raise Problem(f"{len(found)} tags are too many; an entry has at most {TAGS}.", code="too_many", field="tags")
    return list(found)


def worded_note(text: str) -> str:
    """Why somebody did something; may be empty."""
    if not text.strip():
        return ""
    try:
        return clean_body(text, max_characters=NOTE_CHARACTERS).strip()
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="note") from None


def known_kind(kind: str) -> str:
    if kind not in Entry.Kind.values:
        raise Problem(f"A kind is one of {', '.join(Entry.Kind.values)}.", code="bad_kind", field="kind")
    return str(kind)


def known_visibility(visibility: str) -> str:
    if visibility not in Entry.Visibility.values:
        raise Problem("Visibility is shared or restricted.", code="bad_visibility", field="visibility")
    return str(visibility)


def worded_expiry(at: datetime | None) -> datetime | None:
    """UTC, in the future."""
    return checked_expiry(at, now=timezone.now())


def known_client_id(client_id: str) -> str:
    if len(client_id) > 100 or "\x00" in client_id:
        raise Problem("client_id is at most 100 plain characters.", code="bad_id", field="client_id")
    return client_id

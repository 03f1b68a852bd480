"""Validation of what an entry may say, and of who may change or own it. Every refusal is a sentence that names the
field."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Final

from django.db.models import QuerySet
from django.utils import timezone

from knowledge.expiry import normalize_expiry
from knowledge.models import ENTRY_TOKEN_LIMIT, MAX_TOPIC_CHARACTERS, Entry
from knowledge.tags import fold_tag
from openvibe.base.problems import Problem, Refused
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import TextRefused, clean_body, clean_title, has_visible_character
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Participant

MAX_CONTENT_CHARACTERS = 1_000_000
"""More than this is refused unread; up to there the refusal says the exact number of tokens."""

MAX_NOTE_CHARACTERS = 2_000
MAX_TAGS = 10
MAX_TAG_CHARACTERS = 40


class Keep(Enum):
    """Says of a value that may be None: leave it as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP
ExpiryChange = datetime | None | Keep


def clean_topic(text: str) -> str:
    """One line of 1 to 120 characters."""
    try:
        topic = clean_title(text, max_characters=max(MAX_TOPIC_CHARACTERS, len(text)))
    except TextRefused as error:
        message = "An entry needs a topic." if error.code == "empty" else error.message
        raise Problem(message, code=error.code, field="topic") from None
    if len(topic) > MAX_TOPIC_CHARACTERS:
        raise Problem(
            f"This topic has {len(topic):,} characters; at most {MAX_TOPIC_CHARACTERS} fit. Nothing was lost: "
            f"shorten it.",
            code="too_long",
            field="topic",
        )
    return topic


def clean_content(text: str) -> tuple[str, int]:
    """The content as it is kept, and its tokens (o200k_base), at most 2,000."""
    try:
        content = clean_body(text, max_characters=MAX_CONTENT_CHARACTERS, max_bytes=4 * MAX_CONTENT_CHARACTERS)
    except TextRefused as error:
        message = "An entry needs some content." if error.code == "empty" else error.message
        raise Problem(message, code=error.code, field="content") from None
    tokens = count_tokens(content)
    if tokens > ENTRY_TOKEN_LIMIT:
        raise Problem(
            f"This text has {len(content):,} characters and needs {tokens:,} tokens; an entry holds at most "
            f"{ENTRY_TOKEN_LIMIT:,} tokens. Nothing was lost: shorten it, or make several entries of it.",
            code="too_long",
            field="content",
        )
    return content, tokens


def clean_tags(tags: Iterable[str]) -> list[str]:
    """The tags as `fold_tag` has them, each once, in the order given."""
    cleaned: dict[str, None] = {}
    for raw in tags:
        if not isinstance(raw, str) or "\x00" in raw or not raw.isprintable():
            raise Problem("A tag is a short text without control characters.", code="bad_tag", field="tags")
        tag = fold_tag(raw)
        if len(tag) > MAX_TAG_CHARACTERS:
            raise Problem(
                f"The tag “{tag[:MAX_TAG_CHARACTERS]}…” has {len(tag):,} characters; at most {MAX_TAG_CHARACTERS} fit.",
                code="bad_tag",
                field="tags",
            )
        if tag:
            cleaned[tag] = None
    if len(cleaned) > MAX_TAGS:
        raise Problem(
            f"{len(cleaned)} tags are too many; an entry has at most {MAX_TAGS}.", code="too_many", field="tags"
        )
    return list(cleaned)


def clean_note(text: str) -> str:
    """The reason why somebody did something; may be empty."""
    if not has_visible_character(text):
        return ""
    try:
        return clean_body(text, max_characters=MAX_NOTE_CHARACTERS).strip()
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="note") from None


def clean_kind(kind: str) -> str:
    if kind not in Entry.Kind.values:
        raise Problem(f"A kind is one of {', '.join(Entry.Kind.values)}.", code="bad_kind", field="kind")
    return str(kind)


def clean_visibility(visibility: str) -> str:
    if visibility not in Entry.Visibility.values:
        raise Problem("Visibility is shared or restricted.", code="bad_visibility", field="visibility")
    return str(visibility)


def clean_expiry(at: datetime | None) -> datetime | None:
    """UTC, in the future."""
    return normalize_expiry(at, now=timezone.now())


def clean_client_id(client_id: str) -> str:
    if len(client_id) > 100 or "\x00" in client_id:
        raise Problem("client_id is at most 100 plain characters.", code="bad_id", field="client_id")
    return client_id


def may_manage(by: Access) -> bool:
    """Members, admins and owners; guests and agents read."""
    return not by.is_agent and by.role in ("owner", "admin", "member")


def check_may_manage(by: Access) -> None:
    """Raises Refused for who only reads knowledge."""
    if by.is_agent:
        raise Refused("Only people change knowledge. Suggest an entry instead.", code="people_only")
    if not may_manage(by):
        raise Refused("Guests read knowledge, they do not change it. Ask a member.")


def possible_owners(workspace_id: int) -> QuerySet[Participant]:
    """The people who may own entries: members of the workspace who are there and no guests."""
    members = Member.objects.filter(workspace_id=workspace_id, removed_at=None, user__is_active=True)
    return Participant.objects.filter(pk__in=members.exclude(role=Member.Role.GUEST).values("participant"))


def clean_owner(owner: Participant | None, by: Access) -> Participant:
    """The person who is told when it needs a review: one of `possible_owners`, by default the asker. Raises Problem."""
    if owner is None:
        return Participant.objects.get(pk=by.participant_id)
    if not possible_owners(by.workspace_id).filter(pk=owner.pk).exists():
        raise Problem("An owner is a member of this workspace, and no guest.", code="bad_owner", field="owner")
    return owner

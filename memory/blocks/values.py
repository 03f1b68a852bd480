"""What an agent carries as plain values: context blocks, the limits of blocks and notes, the rules for both. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.engines.llm.tokens import count_tokens

LABEL_PATTERN = r"[a-z][a-z0-9_-]{0,39}"
BLOCK_TOKEN_LIMIT = 2_000
PROFILE_TOKEN_LIMIT = 500

NO_STAMP = "0"
"""The stamp of a block that is not stored yet."""


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """A labelled text an agent carries in every prompt. Sizes in tokens (o200k_base).

    `id` and `version` are the store's: a block that was deleted and made again has another id; every change raises
    the version. Both are 0 for a predefined block that nobody has written yet.
    """

    label: str
    description: str = ""
    content: str = ""
    max_tokens: int = 300
    readonly: bool = False
    version: int = 0
    id: int = 0

    @property
    def tokens(self) -> int:
        return count_tokens(self.content)

    @property
    def stamp(self) -> str:
        """Names this state of this block: what a writer says it has seen."""
        return f"{self.id}.{self.version}" if self.version else NO_STAMP


@dataclass(frozen=True, slots=True)
class BlockAuthor:
    """The author of a version: who writes (a participant's id), through which door, and whether limits and the readonly
    flag are theirs to set.

    `how` is one of page, api, admin, agent, review, import, default.
    """

    participant_id: int | None
    how: str = "agent"
    configures: bool = False


PREDEFINED_BLOCKS: tuple[ContextBlock, ...] = (
    ContextBlock("learned", "What it learned that helps in later conversations: corrections, ways that worked."),
    ContextBlock("team", "How this team works: its words, its habits, who does what."),
)


MAX_BLOCKS = 20
"""The most blocks an agent may have."""

RESERVED_LABELS = ("tools", "text")
"""Labels that are addresses of the API."""

MAX_DESCRIPTION_CHARACTERS = 300
MAX_CONTENT_CHARACTERS = 40_000  # looked at before counting tokens: more than any limit holds
MAX_NOTES_CHARACTERS = 20_000  # the same, for profile notes


def check_label(label: str) -> None:
    if not re.fullmatch(LABEL_PATTERN, label) or label in RESERVED_LABELS:
        raise Problem(
            "A label begins with a small letter and has at most 40 characters: a–z, 0–9, _ and -. "
            "The words tools and text are taken.",
            code="bad_label",
            field="label",
        )


BAD_TEXT_MESSAGE = "This holds a character that cannot be kept. Paste it again as plain text."


def clean_block_text(text: str, *, field: str, message: str = BAD_TEXT_MESSAGE) -> str:
    """The text as it is kept, with newlines as \\n. Raises Problem for characters that cannot be kept."""
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Problem(message, code="bad_text", field=field)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def clean_notes(text: str) -> str:
    """Profile notes as they are kept. Raises Problem: characters that cannot be kept, or too long."""
    message = "These notes hold a character that cannot be kept. Paste them again as plain text."
    content = clean_block_text(text, field="text", message=message).strip()
    tokens = bounded_tokens(content, MAX_NOTES_CHARACTERS)
    if tokens > PROFILE_TOKEN_LIMIT:
        raise Problem(
            f"These notes take {tokens:,} tokens; at most {PROFILE_TOKEN_LIMIT} fit. Shorten them.",
            code="too_long",
            field="text",
        )
    return content


def bounded_tokens(content: str, max_characters: int) -> int:
    """The tokens of the content; of a text that is far too long its characters, which are quicker to count."""
    return count_tokens(content) if len(content) <= max_characters else len(content)


def check_fits(block: ContextBlock) -> None:
    """Equality passes. Raises Problem: content, description or the limit itself is too large."""
    if not 1 <= block.max_tokens <= BLOCK_TOKEN_LIMIT:
        raise Problem(
            f"A block's limit is a number from 1 to {BLOCK_TOKEN_LIMIT} tokens.", code="bad_limit", field="max_tokens"
        )
    if len(block.description) > MAX_DESCRIPTION_CHARACTERS:
        raise Problem(
            f"A description has at most {MAX_DESCRIPTION_CHARACTERS} characters.", code="too_long", field="description"
        )
    tokens = bounded_tokens(block.content, MAX_CONTENT_CHARACTERS)
    if tokens > block.max_tokens:
        raise Problem(
            f'Content exceeds maxTokens for block "{block.label}": {tokens} tokens > {block.max_tokens} max',
            code="too_long",
            field="content",
        )


def check_writable(block: ContextBlock) -> None:
    if block.readonly:
        raise Refused(f'Block "{block.label}" is readonly', code="readonly")


def check_change(before: ContextBlock | None, after: ContextBlock, author: BlockAuthor) -> None:
    """Limit and flag are set by those who configure; while a block is readonly, taking that back is all there is."""
    if before is not None and (not author.configures or replace(after, readonly=True) != before):
        check_writable(before)
    previous = before or ContextBlock(after.label)
    if not author.configures and (after.readonly, after.max_tokens) != (previous.readonly, previous.max_tokens):
        raise Refused("Only owners and admins set a block's limit and whether it is readonly.")
    check_fits(after)


def check_stamp(block: ContextBlock | None, label: str, based_on: str | None) -> None:
    check_version(block.stamp if block else NO_STAMP, based_on, f'Block "{label}" was')


def check_version(current: str | int, based_on: str | int | None, what: str) -> None:
    """`based_on` is the stamp or version the writer began from; None: it does not matter. Raises Conflict when it is
    another now."""
    if based_on is not None and based_on != current:
        raise Conflict(f"{what} changed somewhere else meanwhile. Compare, then save again.", code="stale")


def check_active(handle: str, is_active: bool, what: str) -> None:
    if not is_active:
        raise Refused(f"@{handle} is deactivated. Bring it back before changing {what}.")


def block_missing(label: str) -> Missing:
    return Missing(f'Block "{label}" does not exist')

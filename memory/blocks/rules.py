"""What holds for every block, whoever writes and however: pure, on values."""

from __future__ import annotations

import re

from memory.blocks.values import Author, ContextBlock
from memory.models import BLOCK_TOKEN_LIMIT, LABEL
from openvibe.base.problems import Conflict, Missing, Problem, Refused

BLOCKS = 20
"""The most blocks an agent may have."""

TAKEN = ("tools", "text")
"""Labels that are addresses of the API."""

LONGEST_DESCRIPTION = 300  # characters
LONGEST_CONTENT = 40_000  # characters looked at before counting tokens: more than any limit holds


def check_label(label: str) -> None:
    if not re.fullmatch(LABEL, label) or label in TAKEN:
        raise Problem(
            "A label begins with a small letter and has at most 40 characters: a–z, 0–9, _ and -. "
            "The words tools and text are taken.",
            code="bad_label",
            field="label",
        )


def clean_text(text: str, *, field: str) -> str:
    """The text as it is kept, with newlines as \\n. Raises Problem for characters that cannot be kept."""
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Problem(
            "This holds a character that cannot be kept. Paste it again as plain text.", code="bad_text", field=field
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_fits(block: ContextBlock) -> None:
    """Equality passes. Raises Problem: content, description or the limit itself is too large."""
    if not 1 <= block.max_tokens <= BLOCK_TOKEN_LIMIT:
        raise Problem(
            f"A block's limit is a number from 1 to {BLOCK_TOKEN_LIMIT} tokens.", code="bad_limit", field="max_tokens"
        )
    if len(block.description) > LONGEST_DESCRIPTION:
        raise Problem(
            f"A description has at most {LONGEST_DESCRIPTION} characters.", code="too_long", field="description"
        )
    tokens = block.tokens if len(block.content) <= LONGEST_CONTENT else len(block.content)
    if tokens > block.max_tokens:
        raise Problem(
            f'Content exceeds maxTokens for block "{block.label}": {tokens} tokens > {block.max_tokens} max',
            code="too_long",
            field="content",
        )


def check_writable(block: ContextBlock) -> None:
    if block.readonly:
        raise Refused(f'Block "{block.label}" is readonly', code="readonly")


def check_change(before: ContextBlock | None, after: ContextBlock, author: Author) -> None:
    """Limit and flag are set by those who configure; while a block is readonly, taking that back is all there is."""
    if before is not None and before.readonly:
        lifted = ContextBlock(after.label, after.description, after.content, after.max_tokens, True,
                              after.version, after.id)  # fmt: skip
        if not author.configures or lifted != before:
            check_writable(before)
    is_default = ContextBlock(after.label)
    earlier = before or is_default
    if not author.configures and (after.readonly, after.max_tokens) != (earlier.readonly, earlier.max_tokens):
        raise Refused("Only owners and admins set a block's limit and whether it is readonly.")
    check_fits(after)


def check_seen(block: ContextBlock | None, label: str, seen: str | None, unstored: str) -> None:
    """`seen` is the stamp the writer began from; None: it does not matter. Raises Conflict when it is another now."""
    if seen is not None and seen != (block.stamp if block else unstored):
        raise Conflict(f'Block "{label}" was changed somewhere else meanwhile. Compare, then save again.', code="stale")


def missing(label: str) -> Missing:
    return Missing(f'Block "{label}" does not exist')

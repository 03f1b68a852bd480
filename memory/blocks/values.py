"""Blocks as plain values, and who writes them."""

from __future__ import annotations

from dataclasses import dataclass

from openvibe.llm.tokens import count

UNSTORED = "0"
"""The stamp of a block that is not stored yet."""


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """Labelled text an agent carries in every prompt. Sizes in tokens (o200k_base).

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
        return count(self.content)

    @property
    def stamp(self) -> str:
        """Names this state of this block: what a writer says it has seen."""
        return f"{self.id}.{self.version}" if self.version else UNSTORED


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes (a participant's id), through which door, and whether limits and the readonly flag are theirs to set.

    `how` is one of page, api, admin, agent, review, import, default.
    """

    participant_id: int | None
    how: str = "agent"
    configures: bool = False

"""What a search answers with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """One message found. `tokens`: what "name: body" costs (o200k_base, the name counted by itself)."""

    message_id: int
    seq: int
    thread_id: int
    kind: str
    body: str
    tokens: int
    author_id: int
    author_name: str
    author_kind: str
    at: datetime
    score: float
    is_neighbour: bool
    """It holds none of the words and is no nearer in meaning than most: it stands beside one that does."""


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """`hits`, the best first, cost `tokens` together. Whether words, and whether vectors, had a say in it."""

    hits: Sequence[FoundMessage] = ()
    tokens: int = 0
    by_words: bool = False
    by_vectors: bool = False

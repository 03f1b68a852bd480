"""Which passages answer a question, and which of them fit. Pure, deterministic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openvibe.search.lexical import bm25, question_terms
from openvibe.search.neighbours import smooth


@dataclass(frozen=True, slots=True)
class Passage:
    """One message of a thread: its number, its text, its size in tokens."""

    seq: int
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage's number and score; higher is nearer to the question."""

    seq: int
    score: float


@dataclass(frozen=True, slots=True)
class Scored:
    """What `choose` weighs: a passage's number, score and size in tokens."""

    seq: int
    score: float
    tokens: int


def rank_passages(question: str, passages: Sequence[Passage], *, limit: int) -> list[Ranked]:
    """Return at most `limit` passages of one thread, best first; ties go to the earlier message.

    Words are matched by BM25, then each score spreads to the neighbours. Passages that neither match nor
    stand near a match are left out, so a question about something else answers with an empty list.
    """
    raw = bm25(question_terms(question), [passage.text for passage in passages])
    scores = smooth({passage.seq: score for passage, score in zip(passages, raw, strict=True)})
    ranked = sorted((Ranked(seq, score) for seq, score in scores.items() if score > 0), key=_best_first)
    return ranked[: max(limit, 0)]


def choose(scored: Iterable[Scored], budget_tokens: int) -> list[Scored]:
    """Take passages by score while they fit into `budget_tokens`; return them in order of `seq`.

    One that does not fit is passed over and smaller ones after it still get their chance.
    """
    taken: list[Scored] = []
    left = budget_tokens
    for passage in sorted(scored, key=_best_first):
        if passage.tokens <= left:
            taken.append(passage)
            left -= passage.tokens
    return sorted(taken, key=lambda passage: passage.seq)


def _best_first(item: Ranked | Scored) -> tuple[float, int]:
    return (-item.score, item.seq)

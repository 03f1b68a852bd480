"""Entries of an imaginary company, a question for each, and questions that none of them bears on. Written by hand."""

from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    """An entry and a question that it answers."""

    topic: str
    content: str
    question: str


def _lines(name: str) -> tuple[str, ...]:
    return tuple((Path(__file__).parent / "texts" / name).read_text(encoding="utf-8").splitlines())


CASES = tuple(Case(*line.split("|")) for line in _lines("entries.txt"))
NONSENSE = _lines("nonsense.txt")
"""Queries that say nothing."""

UNRELATED = _lines("unrelated.txt")
"""Sensible questions on which none of the entries bears."""

"""A question as the database is asked it: words as lexemes, or as bits of text where there are none, and a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from openvibe.base.prepared import prepared_rows
from openvibe.search.lexical import question_terms, telling_text
from openvibe.search.spaces import Question, embed_question

LONGEST_QUESTION = 4_000
"""Characters of a question that are read."""

TERMS = 16
"""Telling words of a question that are looked for, the longest first."""

_LEXEMES = """SELECT to_tsquery('english', '''' || word || '''')::text
FROM unnest(%s::text[]) WITH ORDINALITY asked (word, place) ORDER BY place"""


Shape = tuple[bool, ...]
"""For each term, whether it is indexed: questions of one shape are asked with the same statement."""


@dataclass(frozen=True, slots=True)
class Term:
    """`text` is a tsquery of one word, or, where the text index knows no such words (CJK), what the text holds."""

    text: str
    is_indexed: bool


@dataclass(frozen=True)
class Asked:
    terms: tuple[Term, ...]
    question: Question | None

    @cached_property
    def vector(self) -> str:
        """The question's vector as PostgreSQL reads it."""
        assert self.question is not None
        return "[" + ",".join(f"{number:.5g}" for number in self.question.vector.tolist()) + "]"

    @property
    def signs(self) -> str:
        """A bit for each number of the question's vector, 1 above zero, as PostgreSQL reads them."""
        assert self.question is not None
        return "".join("1" if number > 0 else "0" for number in self.question.vector.tolist())

    @property
    def is_empty(self) -> bool:
        return not self.terms and self.question is None

    @property
    def values(self) -> dict[str, str]:
        """The values of the placeholders in `bits_of`."""
        return {f"term{place}": term.text for place, term in enumerate(self.terms)}

    @property
    def vector_values(self) -> dict[str, str | int]:
        """Values for `vector`, `space` and `dimension`; without a question in a space they fit no vector there is."""
        if self.question is None:
            return {"vector": "[0]", "space": 0, "dimension": 0}
        return {"vector": self.vector, "space": self.question.space_id, "dimension": self.question.dimension}

    @property
    def shape(self) -> Shape:
        return tuple(term.is_indexed for term in self.terms)

    def hits(self, bits: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Rows × terms: 1 where a row holds a term."""
        return (bits[:, None] >> np.arange(len(self.terms)) & 1).astype(np.uint8)


def bits_of(shape: Shape) -> sql.Composable:
    """Which terms a row with the columns `search` and `body` holds: an int4 with a bit for each, by place."""
    held = [
        sql.SQL(
            "CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END"
            if is_indexed
            else "CASE WHEN strpos(body, {}) > 0 THEN {} ELSE 0 END"
        ).format(sql.Placeholder(f"term{place}"), 1 << place)
        for place, is_indexed in enumerate(shape)
    ]
    return sql.SQL(" | ").join(held) if held else sql.SQL("0")


def asked(workspace_id: int, question: str) -> Asked:
    """Any text will do as a question: nothing in it is an operator, nothing in it is an error."""
    text = question[:LONGEST_QUESTION].replace("\x00", " ")
    return Asked(_terms(question_terms(text)[:TERMS]), embed_question(workspace_id, telling_text(text)))


@lru_cache(maxsize=2_048)
def _terms(words: tuple[str, ...]) -> tuple[Term, ...]:
    """Each telling word once, as the index stems it. What is a stop word to the index is left out."""
    if not words:
        return ()
    found: dict[Term, None] = {}
    for word, lexeme in zip(words, _lexemes(words), strict=True):
        if is_unbroken(word):
            found[Term(word, is_indexed=False)] = None
        elif lexeme:
            found[Term(lexeme, is_indexed=True)] = None
    return tuple(found)


def _lexemes(words: Sequence[str]) -> list[str]:
    return [row[0] for row in prepared_rows(_LEXEMES, [list(words)])]


def is_unbroken(word: str) -> bool:
    """Whether a word is of a script written without blanks, of which the text index keeps whole runs."""
    return any("\u3040" <= letter <= "\u30ff" or "\u3400" <= letter <= "\u9fff" for letter in word) or any(
        "\uac00" <= letter <= "\ud7af" for letter in word
    )

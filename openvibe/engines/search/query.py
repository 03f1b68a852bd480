"""A search query as PostgreSQL runs it: terms as tsqueries, what stands exactly as it was asked for, a vector."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from openvibe.engines.search.lexemes import EXACT, Term, exact_term, question_terms
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.spaces import QueryVector, embed_query, serving_space
from openvibe.engines.text.words import strip_stop_words

MAX_QUERY_CHARACTERS = 4_000
"""Characters of a question that are read."""

MAX_SEARCHED_TERMS = 16
"""Terms of a question that are looked for, the longest first."""

_EXACT_BIT = MAX_SEARCHED_TERMS


class QueryShape(NamedTuple):
    """How many terms, and whether it is looked for as it stands: queries of one shape are asked with one statement."""

    terms: int
    has_exact: bool


@dataclass(frozen=True)
class Query:
    """`exact`: what was asked for as it stands, where that may be what is looked for."""

    terms: tuple[Term, ...]
    embedding: QueryVector | None
    exact: Term | None = None

    @cached_property
    def vector_literal(self) -> str:
        """The question's vector as PostgreSQL reads it."""
        assert self.embedding is not None
        numbers = self.embedding.vector.tolist()
        return f"[{','.join(['%.5g'] * len(numbers))}]" % tuple(numbers)

    @property
    def sign_bits(self) -> str:
        """A bit for each number of the question's vector, 1 above zero, as PostgreSQL reads them."""
        assert self.embedding is not None
        return "".join("1" if number > 0 else "0" for number in self.embedding.vector.tolist())

    @property
    def dimension(self) -> int:
        """The dimension of the vector; 0 without one."""
        return self.embedding.dimension if self.embedding else 0

    @property
    def is_empty(self) -> bool:
        return not self.terms and self.embedding is None

    @property
    def values(self) -> dict[str, str]:
        """The values of the placeholders in `term_bits_sql`."""
        exact = {"exact": self.exact.tsquery(EXACT)} if self.exact else {}
        return {f"term{position}": term.text for position, term in enumerate(self.terms)} | exact

    @property
    def vector_parameters(self) -> dict[str, str | int]:
        """Values for `vector`, `space` and `dimension`; without a question in a space they fit no vector there is."""
        if self.embedding is None:
            return {"vector": "[0]", "space": 0, "dimension": 0}
        return {"vector": self.vector_literal, "space": self.embedding.space_id, "dimension": self.embedding.dimension}

    @property
    def shape(self) -> QueryShape:
        return QueryShape(len(self.terms), self.exact is not None)

    def is_exact(self, bits: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """A mask of the rows that hold what was asked for as it stands; None where that was not looked for."""
        return None if self.exact is None else (bits >> _EXACT_BIT & 1).astype(np.bool_)

    def hits(self, bits: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Rows × terms: 1 where a row holds a term."""
        return (bits[:, None] >> np.arange(len(self.terms)) & 1).astype(np.uint8)


def term_bits_sql(shape: QueryShape) -> sql.Composable:
    """The terms that a row with the column `search` holds: an int4 with a bit for each, by place, and one for what was
    asked for as it stands."""
    bits = [(f"term{position}", position) for position in range(shape.terms)]
    if shape.has_exact:
        bits.append(("exact", _EXACT_BIT))
    cases = [
        sql.SQL("CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END").format(sql.Placeholder(name), 1 << position)
        for name, position in bits
    ]
    return sql.SQL(" | ").join(cases) if cases else sql.SQL("0")


def parse_query(workspace_id: int, question: str) -> Query:
    """Any text will do as a question: nothing in it is an operator, nothing in it is an error."""
    (terms,) = parse_terms(question)
    return Query(terms, embed_question(workspace_id, question), exact_term(_readable(question)))


def embed_question(workspace_id: int, question: str) -> QueryVector | None:
    """A question in the space that serves, as it was asked. See `embed_query`.

    The built-in embedder averages words, where those that only ask would take weight from those that tell: it gets
    these. All others read sentences, and those without their stop words are none that anybody says.
    """
    space, text = serving_space(workspace_id), _readable(question)
    averages_words = space is not None and space.kind == VectorSpace.Kind.STATIC
    return embed_query(workspace_id, strip_stop_words(text) if averages_words else text)


def parse_terms(*texts: str) -> list[tuple[Term, ...]]:
    """The telling terms of each text, MAX_SEARCHED_TERMS in all, each with the first text that holds it."""
    earlier_terms: set[Term] = set()
    terms_by_text = []
    for text in texts:
        terms = [term for term in question_terms(_readable(text)) if term not in earlier_terms]
        terms = terms[: MAX_SEARCHED_TERMS - len(earlier_terms)]
        terms_by_text.append(tuple(terms))
        earlier_terms.update(terms)
    return terms_by_text


def _readable(text: str) -> str:
    return text[:MAX_QUERY_CHARACTERS].replace("\x00", " ")

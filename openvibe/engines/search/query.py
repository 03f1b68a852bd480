"""A search query as PostgreSQL runs it: terms as lexemes, or as substrings where the index has none (CJK); a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.search.spaces import QueryVector, embed_query
from openvibe.engines.text.words import is_cjk, query_terms, strip_stop_words

MAX_QUERY_CHARACTERS = 4_000
"""Characters of a question that are read."""

MAX_SEARCHED_TERMS = 16
"""Terms of a question that are looked for, the longest first."""

_SELECT_LEXEMES = """SELECT to_tsquery('english', '''' || word || '''')::text
FROM unnest(%s::text[]) WITH ORDINALITY asked (word, place) ORDER BY place"""


QueryShape = tuple[bool, ...]
"""The shape: for each term, whether it is indexed: questions of one shape are asked with the same statement."""


@dataclass(frozen=True, slots=True)
class Term:
    """`text` is a tsquery of one word, or, where the text index knows no such words (CJK), what the text holds."""

    text: str
    is_indexed: bool


@dataclass(frozen=True)
class Query:
    terms: tuple[Term, ...]
    embedding: QueryVector | None

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
        return {f"term{position}": term.text for position, term in enumerate(self.terms)}

    @property
    def vector_parameters(self) -> dict[str, str | int]:
        """Values for `vector`, `space` and `dimension`; without a question in a space they fit no vector there is."""
        if self.embedding is None:
            return {"vector": "[0]", "space": 0, "dimension": 0}
        return {"vector": self.vector_literal, "space": self.embedding.space_id, "dimension": self.embedding.dimension}

    @property
    def shape(self) -> QueryShape:
        return tuple(term.is_indexed for term in self.terms)

    def hits(self, bits: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Rows × terms: 1 where a row holds a term."""
        return (bits[:, None] >> np.arange(len(self.terms)) & 1).astype(np.uint8)


def term_bits_sql(shape: QueryShape) -> sql.Composable:
    """The terms that a row with the columns `search` and `body` holds: an int4 with a bit for each, by place."""
    cases = [
        sql.SQL(
            "CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END"
            if is_indexed
            else "CASE WHEN strpos(body, {}) > 0 THEN {} ELSE 0 END"
        ).format(sql.Placeholder(f"term{position}"), 1 << position)
        for position, is_indexed in enumerate(shape)
    ]
    return sql.SQL(" | ").join(cases) if cases else sql.SQL("0")


def parse_query(workspace_id: int, question: str) -> Query:
    """Any text will do as a question: nothing in it is an operator, nothing in it is an error."""
    (terms,) = parse_terms(question)
    return Query(terms, embed_question(workspace_id, question))


def embed_question(workspace_id: int, question: str) -> QueryVector | None:
    """The words of a question that tell what it is about in the space that serves. See `embed_query`."""
    return embed_query(workspace_id, strip_stop_words(_readable(question)))


def parse_terms(*texts: str) -> list[tuple[Term, ...]]:
    """The telling terms of each text, MAX_SEARCHED_TERMS in all, each with the first text that holds it. One statement
    for all of them, and none for words that were asked for lately."""
    words_by_text = [query_terms(_readable(text))[:MAX_SEARCHED_TERMS] for text in texts]
    words = tuple(dict.fromkeys(chain.from_iterable(words_by_text)))[:MAX_SEARCHED_TERMS]
    term_by_word = _parse_words(words)
    earlier_terms: set[Term] = set()
    terms_by_text = []
    for text_words in words_by_text:
        terms = dict.fromkeys(term for word in text_words if (term := term_by_word.get(word)))
        terms_by_text.append(tuple(term for term in terms if term not in earlier_terms))
        earlier_terms.update(terms)
    return terms_by_text


def _readable(text: str) -> str:
    return text[:MAX_QUERY_CHARACTERS].replace("\x00", " ")


_UNKNOWN = Term("", is_indexed=False)
_terms: dict[str, Term | None] = {}
"""The terms of the latest words, each as the index stems it; None for what is a stop word to the index."""

_MAX_CACHED_TERMS = 20_000


def _parse_words(words: Sequence[str]) -> dict[str, Term | None]:
    """The terms of the words, as `_terms` holds them. One statement for those that are new."""
    term_by_word = {word: term for word in words if (term := _terms.get(word, _UNKNOWN)) is not _UNKNOWN}
    if new_words := [word for word in words if word not in term_by_word]:
        if len(_terms) > _MAX_CACHED_TERMS:
            _terms.clear()
        for word, (lexeme,) in zip(new_words, fetch_prepared(_SELECT_LEXEMES, [new_words]), strict=True):
            term = Term(word, is_indexed=False) if is_cjk(word) else Term(lexeme, is_indexed=True) if lexeme else None
            term_by_word[word] = _terms[word] = term
    return term_by_word

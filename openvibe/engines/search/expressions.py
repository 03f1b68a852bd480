"""Search expressions: what is typed into a search field, with phrases in quotes, `-word`, `word*` and `OR`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from openvibe.engines.search.lexemes import EXACT, HEADING, Term, compound_parts, phrase_term, word_term
from openvibe.engines.text.languages import STOP_WORDS_BY_LANGUAGE
from openvibe.engines.text.tokenizer import Token, tokenize
from openvibe.engines.text.words import is_stop_pair, text_language

_PIECE: Final = re.compile(r'(?P<minus>(?<!\S)-(?=["“„\w]))?(?:["“„](?P<phrase>[^"“”„]*)["“”]|(?P<word>[^\s"“”„]+))')
MAX_PIECES: Final = 32
MAX_NAME_PIECES: Final = 8


@dataclass(frozen=True, slots=True)
class SearchExpression:
    """A typed search, taken apart.

    `question`: what is looked for, without what is excluded. `condition`: a tsquery that texts have to fulfil because
    of its quotes, minuses and stars; empty without any. `all_words`: a tsquery of everything that is asked for; empty
    where nothing is. `prefixes`: beginnings of words that are asked for.
    """

    question: str
    condition: str = ""
    all_words: str = ""
    prefixes: tuple[Term, ...] = ()


@lru_cache(maxsize=512)
def parse_expression(text: str) -> SearchExpression:
    """Nothing is an error: a quote without an end, and a minus with nothing beside it, are what they are."""
    clauses: list[list[str]] = [[]]
    conditions: list[str] = []
    excluded: list[str] = []
    question: list[str] = []
    prefixes: list[Term] = []
    language = text_language(tokenize(text))
    for match in list(_PIECE.finditer(text))[:MAX_PIECES]:
        phrase, word = match["phrase"], match["word"]
        if word == "OR" and clauses[-1]:
            clauses.append([])
            continue
        tokens = list(tokenize(word or phrase or ""))
        if not tokens:
            continue
        is_prefix = word is not None and word.endswith("*")
        term = phrase_term(tokens, is_prefix=is_prefix)
        exact = f"({term.tsquery(EXACT)})"
        if match["minus"]:
            excluded.append(f"!{exact}")
            continue
        if is_prefix:
            prefixes.append(term)
        else:
            question.append(word or phrase)
        if phrase is not None or is_prefix:
            conditions.append(exact)
            clauses[-1].append(exact)
        elif tsquery := _word_tsquery(tokens, language):
            clauses[-1].append(tsquery)
    if excluded and not any(clauses):  # nothing but what is not wanted: it is meant as it stands
        tokens = list(tokenize(text))
        return SearchExpression(text, "", phrase_term(tokens).tsquery(EXACT) if tokens else "")
    if not any(clauses):  # stop words alone
        tokens = list(tokenize(" ".join(question)))
        clauses = [[phrase_term(tokens[:MAX_PIECES]).tsquery(EXACT)]] if tokens else []
    if len(clauses) > 1:
        conditions = []
    every_clause = [" & ".join(clause) for clause in clauses if clause]
    together = " | ".join(f"({clause})" for clause in every_clause)
    all_words = " & ".join((f"({together})", *excluded)) if together else ""
    return SearchExpression(" ".join(question), " & ".join((*conditions, *excluded)), all_words, tuple(prefixes))


def _word_tsquery(tokens: list[Token], language: str) -> str:
    """One word, in any form; what signs join, as it stands; nothing for a stop word."""
    stop_words = STOP_WORDS_BY_LANGUAGE.get(language, STOP_WORDS_BY_LANGUAGE["en"])
    if len(tokens) > 1:
        return f"({phrase_term(tokens).tsquery()})"
    token = tokens[0]
    if token.form in stop_words or (token.is_pair and is_stop_pair(token.form) and len(token.form) == 2):
        return ""
    return word_term(token, language).tsquery()


def name_prefix_tsquery(text: str) -> str:
    """A tsquery for names (headings) in which every word that was typed begins a word, or a part of a compound; empty
    for none."""
    asked = []
    for match in list(_PIECE.finditer(text))[:MAX_NAME_PIECES]:
        if tokens := list(tokenize(match["word"] or match["phrase"] or "")):
            tsquery = _name_tsquery(tokens, is_phrase=match["word"] is None)
            asked.append(f"!{tsquery}" if match["minus"] else tsquery)
    return " & ".join(asked) if any(not each.startswith("!") for each in asked) else ""


def _name_tsquery(tokens: list[Token], *, is_phrase: bool) -> str:
    exact, stemmed = HEADING[0], HEADING[1]
    tsquery = phrase_term(tokens, is_prefix=not is_phrase).tsquery(exact)
    parts = [] if is_phrase or len(tokens) > 1 else [part.tsquery(stemmed) for part in compound_parts(tokens[0])]
    return f"({' | '.join((tsquery, *parts))})"

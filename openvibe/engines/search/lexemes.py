"""The lexemes of a text index, made by our own tokenizer: a tsvector of a text, and tsqueries that meet it. Pure.

A tsvector holds at each place what stands there (weight A in a heading, B in a body) and its stem in the text's own
language (C and D), so that a question asks for stems and an exact string for what stands there, in one index. What is
joined by signs is a phrase of its words. Long words of languages that write compounds as one word are there a second
time by their ends, marked `~`: what begins so is found within them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from openvibe.engines.text.languages import COMPOUNDING, ENGLISH, LANGUAGES, STOP_WORDS_BY_LANGUAGE, stem
from openvibe.engines.text.tokenizer import Token, spellings, strip_accents, tokenize
from openvibe.engines.text.words import is_stop_word, query_tokens, text_language

VERSION: Final = 1
"""The version of these lexemes. Who raises it sets `lexemes_version` of older rows to 0 in a migration: these are made
anew in the background."""

HEADING: Final = "AC"
BODY: Final = "BD"
"""Weights of what stands in a heading, in a body: the exact form's, then the stem's."""

EXACT: Final = "AB"
"""Weights of exact forms."""

_MAX_POSITION: Final = 16_000
"""PostgreSQL counts to 16,383. A longer text begins again at 1: neighbours remain neighbours."""

_MAX_POSITIONS_PER_LEXEME: Final = 200
_MAX_BYTES: Final = 700_000
"""Bytes of all lexemes and places of a text; a tsvector has less than 1 MB. A hundred thousand different characters
come near."""

_MIN_COMPOUND_LETTERS: Final = 8
_MIN_PART_LETTERS: Final = 4
_MAX_END_LETTERS: Final = 24
"""Letters of a word that may be a compound, of the parts it is looked for by, and how many of an end are kept."""


def make_tsvector(*fields: tuple[str, str]) -> str:
    """The tsvector of some fields, each a text and its weights, as PostgreSQL reads it."""
    places: dict[str, list[str]] = {}
    size, position = 0, 0
    for text, weights in fields:
        exact, stemmed = weights[0], weights[1]
        tokens = list(tokenize(text))
        language = _stem_language(text_language(tokens), tokens)
        for token in tokens:
            position += 1
            place = str((position - 1) % _MAX_POSITION + 1)
            for lexeme, is_exact in _lexemes(token.forms, language, token.is_pair):
                known = places.get(lexeme)
                if known is None:
                    size += len(lexeme.encode()) + 6
                    if size > _MAX_BYTES:
                        continue
                    places[lexeme] = [place + (exact if is_exact else stemmed)]
                elif len(known) < _MAX_POSITIONS_PER_LEXEME and size <= _MAX_BYTES:
                    size += 2
                    known.append(place + (exact if is_exact else stemmed))
    return " ".join(f"{_quote(lexeme)}:{','.join(at)}" for lexeme, at in places.items())


def _stem_language(language: str, tokens: Sequence[Token]) -> str:
    """The language that a text is stemmed in: `plain` where it is unknown and no letter has an accent; "" for none."""
    if language or any(token.form.isalpha() and not token.form.isascii() for token in tokens):
        return language
    return _PLAIN_LETTERS


_PLAIN_LETTERS: Final = "plain"
"""Unknown, without accents: stemmed as English, and perhaps with compounds."""


@lru_cache(maxsize=8_192)
def _lexemes(forms: tuple[str, ...], language: str, is_pair: bool) -> tuple[tuple[str, bool], ...]:
    """The lexemes of one token, and whether each is an exact form."""
    if is_pair:
        return tuple((form, True) for form in forms)
    lexemes = dict.fromkeys(forms, True)
    stem_language = ENGLISH if language == _PLAIN_LETTERS else language
    if stem_language:
        for stemmed in _stems(forms, stem_language):
            lexemes.setdefault(stemmed, False)
    if stem_language != language or language in COMPOUNDING:
        for end in _ends(forms[0]):
            lexemes[end] = False
    return tuple(lexemes.items())


def _stems(forms: Iterable[str], language: str) -> dict[str, None]:
    stems = (stem(form, language) for form in forms if form.isalpha())
    return dict.fromkeys(chain.from_iterable((each, strip_accents(each)) for each in stems))


def _ends(form: str) -> Iterable[str]:
    """A long word and its ends that may be a word."""
    word = strip_accents(form)
    if len(word) < _MIN_COMPOUND_LETTERS or not word.isalpha():
        return
    yield f"~{word[:_MAX_END_LETTERS]}"
    for start in range(_MIN_PART_LETTERS - 1, len(word) - _MIN_PART_LETTERS + 1):
        yield f"~{word[start : start + _MAX_END_LETTERS]}"


def _quote(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


class Operand(NamedTuple):
    """A lexeme asked for. `is_prefix`: every lexeme that begins so."""

    lexeme: str
    is_prefix: bool = False

    def tsquery(self, weights: str = "") -> str:
        marks = ("*" if self.is_prefix else "") + weights
        return _quote(self.lexeme) + (f":{marks}" if marks else "")


@dataclass(frozen=True, slots=True)
class Term:
    """A thing asked for: a text holds it that has one of the `alternatives`, each a phrase of places, and at each place
    one of the operands."""

    alternatives: tuple[tuple[tuple[Operand, ...], ...], ...]

    @property
    def text(self) -> str:
        """The tsquery."""
        return self.tsquery()

    def tsquery(self, weights: str = "") -> str:
        """The tsquery, asking for lexemes of these weights only."""
        return _any_of(
            " <-> ".join(_any_of(o.tsquery(weights) for o in place) for place in phrase) for phrase in self.alternatives
        )

    def is_held_by(self, lexemes: frozenset[str]) -> bool:
        """Whether a text of these lexemes holds the words of an alternative, in any order."""
        return any(all(any(o.lexeme in lexemes for o in place) for place in phrase) for phrase in self.alternatives)


def _any_of(operands: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(operands))
    return distinct[0] if len(distinct) == 1 else f"({' | '.join(distinct)})"


def lexeme_set(text: str) -> frozenset[str]:
    """The lexemes of a short text, such as a name."""
    tokens = list(tokenize(text))
    language = _stem_language(text_language(tokens), tokens)
    return frozenset(lexeme for token in tokens for lexeme, _ in _lexemes(token.forms, language, token.is_pair))


MAX_EXACT_TOKENS: Final = 24
"""Tokens of what may be looked for as it stands."""

_MAX_FRAGMENT_LETTERS: Final = 2
"""Letters of a part of a technical token that tells nothing by itself: the 3 of 2.3.1."""

_MAX_JOINED: Final = 10
"""Words that signs join to one technical token."""


@lru_cache(maxsize=2_048)
def question_terms(text: str) -> tuple[Term, ...]:
    """The telling terms of a question: what signs join first, then its words, the longest first; none of a question of
    stop words alone."""
    tokens, language = query_tokens(text)
    groups = list(_joined_groups(text))
    fragments = {token.form for group in groups for token in group if len(token.form) <= _MAX_FRAGMENT_LETTERS}
    telling = [token for token in tokens if token.form not in fragments and not is_stop_word(token, language)]
    joined = (phrase_term(group) for group in groups)
    return tuple(dict.fromkeys((*joined, *(word_term(token, language) for token in telling))))


@lru_cache(maxsize=2_048)
def exact_term(text: str) -> Term | None:
    """The whole of what is asked for, as it stands; None for a sentence that asks, and for what is too long."""
    tokens = list(tokenize(text))
    if not 0 < len(tokens) <= MAX_EXACT_TOKENS or (text.rstrip().endswith(("?", "？")) and len(tokens) > 2):
        return None
    return phrase_term(tokens)


def phrase_term(tokens: Sequence[Token], *, is_prefix: bool = False) -> Term:
    """A term of these tokens one after the other as they stand; `is_prefix`: the last of them begins a word."""
    places = [_exact_operands(token) for token in tokens]
    if is_prefix:
        places[-1] = tuple(Operand(operand.lexeme, True) for operand in places[-1])
    alternatives = [tuple(places)]
    if any(len(token.forms) > 1 and token.form.isdecimal() for token in tokens):  # 1,234.50 as 1234.50
        whole = tuple(_exact_operands(token) for token in _without_thousands(tokens))
        alternatives.append(whole)
    return Term(tuple(alternatives))


def _without_thousands(tokens: Sequence[Token]) -> list[Token]:
    kept: list[Token] = []
    whole = ""
    for token in tokens:
        if token.form.isdecimal() and len(token.forms) > 1 and not whole:
            whole = token.forms[1]
            kept.append(Token(token.start, token.end, (whole,)))
        elif whole and token.form.isdecimal() and (len(token.forms) > 1 and token.forms[1] == whole):
            whole = ""
        elif not (whole and token.form.isdecimal() and whole.find(token.form) > 0):
            kept.append(token)
    return kept


def _exact_operands(token: Token) -> tuple[Operand, ...]:
    if token.is_pair:
        return (Operand(token.form, is_prefix=token.is_single),)
    form = token.form
    version = form[1:] if form[:1] == "v" and form[1:].isdecimal() else ""
    return tuple(Operand(each) for each in (form, *spellings(form), version) if each)


@lru_cache(maxsize=16_384)
def _word_operands(forms: tuple[str, ...], language: str, is_apart: bool) -> tuple[Operand, ...]:
    form = forms[0]
    asked = list(dict.fromkeys((form, *spellings(form))))
    if not form.isalpha():
        return tuple(Operand(each) for each in asked)
    if is_apart and not _is_function_word(part := max(forms[1:], key=len)):  # l'arrosage, Ana's
        asked.append(part)
    languages = (language,) if language else LANGUAGES
    stems = list(chain.from_iterable(_stems(asked, code) for code in languages))
    operands = dict.fromkeys(Operand(each) for each in (*asked, *stems))
    if language in COMPOUNDING:
        for part in _part_spellings((*asked, *_stems(asked, language or "de"))):
            operands[Operand(f"~{part[:_MAX_END_LETTERS]}", is_prefix=True)] = None
    return tuple(operands)


def _is_function_word(word: str) -> bool:
    return len(word) < 3 or any(word in words for words in STOP_WORDS_BY_LANGUAGE.values())


def word_term(token: Token, language: str) -> Term:
    """A word in any of its forms, its stem, and compounds that end in it or in which it stands."""
    if token.is_pair:
        return Term(((_exact_operands(token),),))
    is_apart = token.end - token.start > len(token.form) and len(token.forms) > 2
    return Term(((_word_operands(token.forms, language, is_apart),),))


def compound_parts(token: Token) -> list[Operand]:
    """A word as a part of longer ones; none for one that is too short."""
    if token.is_pair or not token.form.isalpha():
        return []
    return [Operand(f"~{word[:_MAX_END_LETTERS]}", is_prefix=True) for word in _part_spellings((token.form,))]


def _part_spellings(words: Iterable[str]) -> list[str]:
    """Words as ends of compounds have them, without accents; none that another one begins."""
    plain = {strip_accents(word) for word in words}
    plain |= {word.replace("ae", "a").replace("oe", "o").replace("ue", "u") for word in plain}
    parts = sorted(word for word in plain if len(word) >= _MIN_PART_LETTERS)
    return [word for word in parts if not any(word != other and word.startswith(other) for other in parts)]


def _joined_groups(text: str) -> Iterable[list[Token]]:
    """Words that only signs divide, two of them or more."""
    group: list[Token] = []
    for token in tokenize(text):
        is_joined = bool(group) and not any(map(str.isspace, text[group[-1].end : token.start]))
        if not is_joined or token.is_pair or group[-1].is_pair:
            if 1 < len(group) <= _MAX_JOINED:
                yield group
            group = []
        group.append(token)
    if 1 < len(group) <= _MAX_JOINED:
        yield group


_MATCHED_CHARACTERS: Final = 20_000
"""Characters of a text in which matches are looked for, around the first place where a word of the question stands."""


def find_matches(text: str, question: str, *others: Term) -> list[tuple[int, int]]:
    """Places where what a question asks for, or any of the other terms, stands in a text, `(start, end)` in order, none
    overlapping: words in any form, what signs join as a whole."""
    whole = exact_term(question)
    terms = (*question_terms(question), *([whole] if whole else []), *others)
    offset = _first_mention(text, terms) if len(text) > _MATCHED_CHARACTERS else 0
    tokens = list(tokenize(text[offset : offset + _MATCHED_CHARACTERS]))
    language = _stem_language(text_language(tokens), tokens)
    by_lexeme: dict[str, list[int]] = {}
    for place, token in enumerate(tokens):
        for lexeme, _ in _lexemes(token.forms, language, token.is_pair):
            by_lexeme.setdefault(lexeme, []).append(place)
    matched: set[int] = set()
    for phrase in chain.from_iterable(term.alternatives for term in terms):
        starts = _places(phrase[0], by_lexeme)
        for distance, operands in enumerate(phrase[1:], start=1):
            if not starts:
                break
            starts &= {place - distance for place in _places(operands, by_lexeme)}
        matched.update(start + distance for start in starts for distance in range(len(phrase)))
    spans: list[tuple[int, int]] = []
    for place in sorted(matched):
        start, end = tokens[place].start + offset, tokens[place].end + offset
        is_joined = bool(spans) and place - 1 in matched and not any(map(str.isspace, text[spans[-1][1] : start]))
        if spans and (start < spans[-1][1] or is_joined):
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _places(operands: Sequence[Operand], by_lexeme: Mapping[str, Sequence[int]]) -> set[int]:
    places: set[int] = set()
    for operand in operands:
        if operand.is_prefix:
            places.update(*(at for lexeme, at in by_lexeme.items() if lexeme.startswith(operand.lexeme)))
        else:
            places.update(by_lexeme.get(operand.lexeme, ()))
    return places


def _first_mention(text: str, terms: Sequence[Term]) -> int:
    """A place shortly before the first word of these terms, found letter by letter; 0 where none is."""
    lowercase = text.lower()
    words = {term.alternatives[0][0][0].lexeme for term in terms if term.alternatives[0][0]}
    mentions = [at for word in words if (at := lowercase.find(word)) >= 0]
    return max(min(mentions, default=0) - _MATCHED_CHARACTERS // 4, 0)

"""Words of a question: those that tell what it is about, without stop words and stop phrases of its language. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from openvibe.engines.text.languages import QUERY_STOP_WORDS, STOP_WORDS, STOP_WORDS_BY_LANGUAGE, detect_language
from openvibe.engines.text.stop_phrases import strip_stop_phrases
from openvibe.engines.text.tokenizer import Token, tokenize

__all__ = (
    "STOP_WORDS",
    "cjk_bigrams",
    "is_stop_pair",
    "query_terms",
    "query_tokens",
    "strip_stop_words",
    "text_language",
)

MAX_QUERY_TERMS = 24

_QUESTION_WORDS = frozenset(("how", "when", "where", "who", "whom", "whose", "why"))

_HIRAGANA = frozenset(map(chr, range(0x3041, 0x3097)))
_STOP_CHARACTERS = _HIRAGANA | frozenset(
    "的了是在有和就不都也很吗嗎呢吧啊么麼这這那哪什怎谁誰几幾何我你他她们們个個要会會说說"
)
"""Characters of Chinese and Japanese that say how words belong together: a pair of two of them tells nothing."""


def text_language(tokens: Iterable[Token]) -> str:
    """The language of a text by its tokens; "" where they do not tell."""
    return detect_language(_detecting_words(tokens))


def _detecting_words(tokens: Iterable[Token]) -> Iterable[str]:
    for token in tokens:
        if not token.is_pair:
            yield token.form


def is_stop_word(token: Token, language: str) -> bool:
    """Whether it is a stop word of this language, or of English where that is not known."""
    return token.form in STOP_WORDS_BY_LANGUAGE.get(language, STOP_WORDS)


def is_stop_pair(pair: str) -> bool:
    return all(character in _STOP_CHARACTERS for character in pair)


@lru_cache(maxsize=2_048)
def query_tokens(text: str) -> tuple[tuple[Token, ...], str]:
    """The distinct tokens, at most 24, of a question that tell what it is about, the longest first, and its language.

    A longer word is the rarer one as a rule. Stop words, stop phrases and words of asking are out, unless nothing else
    was said.
    """
    tokens = _distinct(tokenize(text))
    language = text_language(tokens)
    framed = _without_stop_words(_distinct(tokenize(strip_stop_phrases(text))), language)
    content = _without_stop_words(tokens, language)
    chosen = _without_asking(framed) or _without_asking(content) or content or tokens
    if len(pairs := [token for token in chosen if token.is_pair]) > MAX_QUERY_TERMS // 2:
        step = len(pairs) / (MAX_QUERY_TERMS // 2)
        kept = {pairs[int(place * step)] for place in range(MAX_QUERY_TERMS // 2)}
        chosen = [token for token in chosen if not token.is_pair or token in kept]
    return tuple(sorted(chosen, key=lambda token: -len(token.form))[:MAX_QUERY_TERMS]), language


def query_terms(text: str) -> tuple[str, ...]:
    """The forms of `query_tokens`."""
    return tuple(token.form for token in query_tokens(text)[0])


def _distinct(tokens: Iterable[Token]) -> list[Token]:
    by_form: dict[str, Token] = {}
    for token in tokens:
        by_form.setdefault(token.form, token)
    return list(by_form.values())


def _without_stop_words(tokens: Sequence[Token], language: str) -> list[Token]:
    stop_words = STOP_WORDS_BY_LANGUAGE.get(language, STOP_WORDS)
    return [token for token in tokens if not _is_stop(token, stop_words)]


def _is_stop(token: Token, stop_words: frozenset[str]) -> bool:
    if token.is_pair:
        return is_stop_pair(token.form)
    form = token.form
    if len(form) == 1 and form.isascii() and not form.isdigit():
        return True
    if form in stop_words:
        return True
    return len(token.forms) > 1 and _is_contraction(token, stop_words)


def _is_contraction(token: Token, stop_words: frozenset[str]) -> bool:
    """Whether all that an apostrophe divides are stop words: `don't`, `qu'est`."""
    parts = token.forms[1:]
    has_apostrophe = token.end - token.start > len(token.form)
    return has_apostrophe and all(part in stop_words or len(part) == 1 for part in parts)


def _without_asking(tokens: Sequence[Token]) -> list[Token]:
    return [token for token in tokens if token.form not in QUERY_STOP_WORDS]


@lru_cache(maxsize=512)
def strip_stop_words(text: str) -> str:
    """The words of a question that say what it is about, and of what kind, in their order; all of it when none do.

    For an embedder that averages words, where each word that only asks takes weight from those that tell.
    """
    for question in (strip_stop_phrases(text), text):
        words = _blank_divided_words(question)
        language = text_language(tokenize(question))
        stop_words = STOP_WORDS_BY_LANGUAGE.get(language, STOP_WORDS) | QUERY_STOP_WORDS
        telling = [word for word, tokens in words if not all(_is_stop(token, stop_words) for token in tokens)]
        if telling:
            return " ".join(
                word
                for word, tokens in words
                if word.lower() in _QUESTION_WORDS or not all(_is_stop(token, stop_words) for token in tokens)
            )
    return text


def _blank_divided_words(text: str) -> list[tuple[str, list[Token]]]:
    """The words as they are written: pairs that overlap are one run."""
    words: list[tuple[int, int, list[Token]]] = []
    for token in tokenize(text):
        if token.is_pair and words and words[-1][2][-1].is_pair and token.start < words[-1][1]:
            start, _, tokens = words.pop()
            words.append((start, token.end, [*tokens, token]))
        else:
            words.append((token.start, token.end, [token]))
    return [(text[start:end], tokens) for start, end, tokens in words]


def cjk_bigrams(text: str) -> str:
    """The text with every run of a script without blanks as pairs of characters, divided by blanks."""
    if text.isascii():
        return text
    pieces: list[str] = []
    last = 0
    for token in tokenize(text):
        if token.is_pair:
            pieces += (text[last : max(token.start, last)], f" {token.form} ")
            last = token.end
    return "".join((*pieces, text[last:]))

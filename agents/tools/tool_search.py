"""Search among definitions of tools, by name and description: BM25 over word stems. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from openvibe.engines.llm.values import ToolSpec
from openvibe.engines.search.ranking import bm25
from openvibe.engines.search.values import Candidates
from openvibe.engines.text.languages import LANGUAGES, stem
from openvibe.engines.text.tokenizer import tokenize
from openvibe.engines.text.words import query_tokens, text_language

_NAME_WEIGHT = 3
"""How often a word of a name counts: names are chosen to say what a tool does."""


def rank_tools(query: str, tools: Iterable[ToolSpec]) -> list[str]:
    """Names of the tools that have a word of the query, the best first, those of equal score in their order; first of
    all one that is called so."""
    specs = list(tools)
    tokens, _ = query_tokens(query)
    terms = [_variants(token.forms, *LANGUAGES) for token in tokens]  # so few words hardly tell their language
    if not specs or not terms:
        return []
    counts = [_word_counts(spec.name, spec.description) for spec in specs]
    rows = [[min(max(words[variant] for variant in term), 255) for term in terms] for words in counts]
    hits = np.array(rows, np.uint8)
    lengths = np.array([max(words.total(), 1) for words in counts], np.int64)
    places = np.arange(len(specs), dtype=np.int64)
    scores = bm25(Candidates([spec.name for spec in specs], places, lengths, lengths, hits), None, None)
    named = [is_named(spec.name, query) for spec in specs]
    found = [place for place in places.tolist() if hits[place].any() or named[place]]
    return [specs[place].name for place in sorted(found, key=lambda place: (not named[place], -float(scores[place])))]


def is_named(name: str, text: str) -> bool:
    """Whether a text names the tool: `server__tool`, or `tool` alone where that can be no word of a sentence."""
    own_name = name.rpartition("__")[2]
    lowered = text.lower()
    names = [name, *([own_name] if not own_name.isalpha() or own_name[1:].lower() != own_name[1:] else [])]
    return any(_stands_in(each.lower(), lowered) for each in names)


def _stands_in(name: str, text: str) -> bool:
    start = text.find(name)
    while start >= 0:
        before, after = text[start - 1 : start] if start else "", text[start + len(name) : start + len(name) + 1]
        if not any(character.isalnum() or character == "_" for character in before + after):
            return True
        start = text.find(name, start + 1)
    return False


@lru_cache(maxsize=4_096)
def _word_counts(name: str, description: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text, weight in ((name.replace("_", " "), _NAME_WEIGHT), (description, 1)):
        tokens = list(tokenize(text))
        language = text_language(tokens)
        for token in tokens:
            counts.update(dict.fromkeys(_variants(token.forms, language, "en"), weight))
    return counts


def _variants(forms: Sequence[str], *languages: str) -> set[str]:
    """The word, the parts of `oneLikeThis`, and their stems in these languages."""
    return {*forms, *(stem(form, language) for form in forms for language in languages)}

"""Words, stems and BM25. Pure: no Django, no database."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

MAX_QUESTION_TERMS = 24
_LONGEST_TERM = 64

# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009): usual values.
_K1 = 1.2
_B = 0.75

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['’][^\W_{_CJK}]+)*")
_IS_CJK = re.compile(rf"[{_CJK}]")

_STOP_TEXT = """
a about above after again all also am an and any are as at be because been before being below between
both but by can could did didn do does doesn doing don down during each else ever few for from further
get got had hadn has hasn have haven having he her here hers him his how i if in into is isn it its just
let like ll may me might more most much must my no nor not now of off ok okay on once one only or other
our ours out over own per please quite rather re really said same say says shall she should so some such
than that the their theirs them then there these they thing this those though through to too uh um under
until up upon us ve very was wasn we well were weren what when where whether which while who whom whose
why will with won would yeah yes yet you your yours
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())


def question_terms(text: str) -> tuple[str, ...]:
    """Return at most 24 distinct lower-case words of a question, the longest first.

    A longer word is the rarer one as a rule. Stop words are out, unless nothing else was said. Every term
    is made of letters and digits only (CJK runs: pairs of characters), so terms may be joined into a
    tsquery without quoting.
    """
    words = list(dict.fromkeys(_words(text)))
    telling = [word for word in words if word not in STOP_WORDS and (len(word) > 1 or word.isdigit())]
    ranked = sorted(telling or words, key=lambda word: -len(word))
    return tuple(ranked[:MAX_QUESTION_TERMS])


def tokenize(text: str) -> list[str]:
    """Return the stems of a text's words in order, stop words out; CJK runs as overlapping pairs."""
    return [stem(word) for word in _words(text) if word not in STOP_WORDS]


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Fold the commonest English endings (plural, -ing, -ed, -ly) of a lower-case word; others stay.

    Only has to agree with itself: "studies", "studied", "studying" and "study" meet at one stem.
    """
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    word = _without_plural(word)
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and _has_vowel(base):
            word = base
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2]:  # "stopped" is near "stop", "controlled" near "control"
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 2 and word.endswith("y") else word


def bm25(query_terms: Sequence[str], documents: Sequence[str | Sequence[str]]) -> list[float]:
    """Score each document against the terms (same order and length as `documents`; 0.0: no term in it).

    A document is a text, or its stems from `tokenize`. Terms are stemmed here; a term given twice counts
    twice. Document frequencies come from these documents alone.
    """
    wanted = Counter(stem(term) for term in query_terms)
    counted: list[Counter[str]] = []
    lengths: list[int] = []
    for document in documents:
        stems = tokenize(document) if isinstance(document, str) else document
        lengths.append(len(stems))
        counted.append(Counter(each for each in stems if each in wanted))
    mean_length = sum(lengths) / len(lengths) if any(lengths) else 1.0
    weights = {term: times * _rarity(term, counted) for term, times in wanted.items()}
    return [
        sum(
            weights[term] * found * (_K1 + 1) / (found + _K1 * (1 - _B + _B * length / mean_length))
            for term, found in counts.items()
        )
        for counts, length in zip(counted, lengths, strict=True)
    ]


def _rarity(term: str, counted: Sequence[Counter[str]]) -> float:
    holding = sum(1 for counts in counted if term in counts)
    return math.log(1 + (len(counted) - holding + 0.5) / (holding + 0.5))


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text.lower()):
        run = match[0]
        if _IS_CJK.match(run):
            yield from (run[i : i + 2] for i in range(max(1, len(run) - 1)))
            continue
        for part in re.split(r"['’]", run):
            if len(part) > 1 or part == run:
                yield part[:_LONGEST_TERM]


def _without_plural(word: str) -> str:
    if word.endswith("ies") or word.endswith("ied"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _has_vowel(base: str) -> bool:
    return any(letter in "aeiouy" for letter in base)

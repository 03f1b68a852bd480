"""Query terms: tokens of a question without stop words, CJK runs as bigrams. Pure: no Django, no database."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from openvibe.engines.text.stop_phrases import strip_stop_phrases

MAX_QUERY_TERMS = 24
_MAX_TERM_CHARACTERS = 64

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['’][^\W_{_CJK}]+)*")
_CJK_RUN = re.compile(rf"[{_CJK}]+")

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

_QUERY_STOP_TEXT = """
conclude concluded describe described discuss discussed discussing discussion explain explained mention mentioned
opinion opinions regarding summarise summarised summarize summarized summary talk talked talking tell telling think
thinking thought thoughts told
"""
QUERY_STOP_WORDS = frozenset(_QUERY_STOP_TEXT.split())
"""Words that say how something is asked for, not what."""

_QUESTION_WORDS = frozenset(("how", "when", "where", "who", "whom", "whose", "why"))


@lru_cache(maxsize=2_048)
def query_terms(text: str) -> tuple[str, ...]:
    """Returns at most 24 distinct lower-case words of a question, the longest first.

    A longer word is the rarer one as a rule. Stop words, stop phrases and words of asking are out, unless nothing else
    was said. Every term is made of letters and digits only (CJK runs: pairs of characters), so terms may be joined
    into a tsquery without quoting.
    """
    words = list(dict.fromkeys(_tokenize(text)))
    words_without_stops = _without_stop_words(words)
    content_words = [word for word in words_without_stops if word not in QUERY_STOP_WORDS]
    words_without_frame = [
        word for word in _without_stop_words(_tokenize(strip_stop_phrases(text))) if word not in QUERY_STOP_WORDS
    ]
    ranked_words = sorted(
        dict.fromkeys(words_without_frame) or content_words or words_without_stops or words, key=lambda word: -len(word)
    )
    return tuple(ranked_words[:MAX_QUERY_TERMS])


def _without_stop_words(words: Iterable[str]) -> list[str]:
    return [word for word in words if word not in STOP_WORDS and (len(word) > 1 or word.isdigit())]


@lru_cache(maxsize=512)
def strip_stop_words(text: str) -> str:
    """The words of a question that say what it is about, and of what kind, in their order; all of it when none do.

    For an embedder that averages words, where each word that only asks takes weight from those that tell.
    """
    for question in (strip_stop_phrases(text), text):
        words = [match[0] for match in _WORD.finditer(question)]
        if not all(_is_stop_word(word) for word in words):
            return " ".join(word for word in words if word.lower() in _QUESTION_WORDS or not _is_stop_word(word))
    return text


def cjk_bigrams(text: str) -> str:
    """The text with every run of a script without blanks (CJK) as pairs of characters, divided by blanks."""
    return _CJK_RUN.sub(lambda run: f" {' '.join(_bigrams(run[0]))} ", text)


def is_cjk(word: str) -> bool:
    """Whether a word is of a script written without blanks, of which the text index keeps whole runs."""
    return _CJK_RUN.match(word) is not None


def _is_stop_word(word: str) -> bool:
    return all(part in STOP_WORDS or part in QUERY_STOP_WORDS for part in _tokenize(word))


def _tokenize(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text.lower()):
        run = match[0]
        if run.isalnum() and run.isascii():  # nearly all words
            yield run[:_MAX_TERM_CHARACTERS]
            continue
        if is_cjk(run):
            yield from _bigrams(run)
            continue
        for part in re.split(r"['’]", run):
            if len(part) > 1 or part == run:
                yield part[:_MAX_TERM_CHARACTERS]


def _bigrams(run: str) -> Iterator[str]:
    return (run[i : i + 2] for i in range(max(1, len(run) - 1)))

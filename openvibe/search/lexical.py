"""The telling words of a question. Pure: no Django, no database."""

import re
from collections.abc import Iterator

MAX_QUESTION_TERMS = 24
_LONGEST_TERM = 64

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['’][^\W_{_CJK}]+)*")
_IS_CJK = re.compile(rf"[{_CJK}]")
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

_ASKING_TEXT = """
conclude concluded describe described discuss discussed discussing discussion explain explained mention mentioned
opinion opinions regarding summarise summarised summarize summarized summary talk talked talking tell telling think
thinking thought thoughts told
"""
ASKING_WORDS = frozenset(_ASKING_TEXT.split())
"""Words that say how something is asked for, not what."""

_KIND_WORDS = frozenset(("how", "when", "where", "who", "whom", "whose", "why"))


def question_terms(text: str) -> tuple[str, ...]:
    """Return at most 24 distinct lower-case words of a question, the longest first.

    A longer word is the rarer one as a rule. Stop words and words of asking are out, unless nothing else was
    said. Every term is made of letters and digits only (CJK runs: pairs of characters), so terms may be joined into a
    tsquery without quoting.
    """
    words = list(dict.fromkeys(_words(text)))
    saying = [word for word in words if word not in STOP_WORDS and (len(word) > 1 or word.isdigit())]
    telling = [word for word in saying if word not in ASKING_WORDS]
    ranked = sorted(telling or saying or words, key=lambda word: -len(word))
    return tuple(ranked[:MAX_QUESTION_TERMS])


def telling_text(text: str) -> str:
    """The words of a question that say what it is about, and of what kind, in their order; all of it when none do.

    For an embedder that averages words, where each word that only asks takes weight from those that tell.
    """
    words = [match[0] for match in _WORD.finditer(text)]
    if all(_only_asks(word) for word in words):
        return text
    return " ".join(word for word in words if word.lower() in _KIND_WORDS or not _only_asks(word))


def in_pairs(text: str) -> str:
    """The text with every run of a script without blanks (CJK) as pairs of characters, divided by blanks."""
    return _CJK_RUN.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", text)


def _only_asks(word: str) -> bool:
    return all(part in STOP_WORDS or part in ASKING_WORDS for part in _words(word))


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text.lower()):
        run = match[0]
        if _IS_CJK.match(run):
            yield from _pairs(run)
            continue
        for part in re.split(r"['’]", run):
            if len(part) > 1 or part == run:
                yield part[:_LONGEST_TERM]


def _pairs(run: str) -> Iterator[str]:
    return (run[i : i + 2] for i in range(max(1, len(run) - 1)))

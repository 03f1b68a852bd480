"""The telling words of a question. Pure: no Django, no database."""

import re
from collections.abc import Iterator

MAX_QUESTION_TERMS = 24
_LONGEST_TERM = 64

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


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text.lower()):
        run = match[0]
        if _IS_CJK.match(run):
            yield from (run[i : i + 2] for i in range(max(1, len(run) - 1)))
            continue
        for part in re.split(r"['’]", run):
            if len(part) > 1 or part == run:
                yield part[:_LONGEST_TERM]

"""The gist of a text without a model: the sentences that say most of what it is about. Pure and deterministic."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from openvibe.llm import tokens
from openvibe.llm.passages import sentences, words

_LINE = re.compile(r"^\[(?P<when>[^\]|\n]*) \| (?P<role>[^\]|\n]*) \| (?P<who>[^\]\n]*)\] (?P<text>.*)$")
_WEIGHTY = re.compile(
    r"(?i)\b(?:decid|agree|must|never|always|only|because|deadline|constraint|require|instead|not\b|error|fail|fix"
    r"|open question|next step|todo|approv|reject|promis|will|done|change|remember)\w*"
)
_VALUE = re.compile(r"\d|https?://|[\w./-]+\.\w{1,5}\b|`")
_WEIGHTY_BONUS, _VALUE_BONUS = 0.35, 0.25
_LONGEST = 420  # characters of one sentence
_FEWEST_WORDS = 3


class _Sentence(NamedTuple):
    place: int
    who: str
    text: str
    score: float


def gist(text: str, limit: int) -> str:
    """Whole sentences of the text, each once and in their order, of at most `limit` tokens; who said them in front.

    Lines may begin with `[time | role | speaker] `. Where not even one sentence fits, the beginning of the best.
    """
    ranked = sorted(_scored(text), key=lambda found: (-found.score, found.place))
    chosen: list[_Sentence] = []
    spent = 0
    for found in ranked:
        size = tokens.count(_told(found)) + 1
        if spent + size <= limit:
            chosen.append(found)
            spent += size
    while chosen and tokens.count(_joined(chosen)) > limit:
        chosen.pop()
    if chosen or not ranked:
        return _joined(chosen)
    return tokens.cut_to_tokens(_told(ranked[0]), limit, tokens.counter_for("offline")).strip()


def telling(text: str, most: int) -> list[str]:
    """At most `most` sentences of the text, each once, the one that says most of what it is about first."""
    ranked = sorted(_scored(text), key=lambda found: (-found.score, found.place))
    return [found.text for found in ranked[:most]]


def _scored(text: str) -> list[_Sentence]:
    said: dict[str, tuple[str, list[str]]] = {}
    who = ""
    for line in text.split("\n"):
        found = _LINE.match(line)
        if found:
            who = "" if found["role"] == "summary" else found["who"]
        for sentence in sentences(found["text"] if found else line, _LONGEST):
            said.setdefault(" ".join(sentence.split()), (who, words(sentence)))
    everywhere = Counter(word for _, own in said.values() for word in set(own))
    most = max(everywhere.values(), default=1)
    return [
        _Sentence(place, who, sentence, _score(sentence, own, everywhere, most))
        for place, (sentence, (who, own)) in enumerate(said.items())
    ]


def _score(sentence: str, own: Sequence[str], everywhere: Counter[str], most: int) -> float:
    """How much of what the whole is about the sentence is about, and whether it decides or states something."""
    if not own:
        return 0.0
    score: float = sum(everywhere[word] / most for word in set(own)) / math.sqrt(len(own))
    score += _WEIGHTY_BONUS * bool(_WEIGHTY.search(sentence)) + _VALUE_BONUS * bool(_VALUE.search(sentence))
    return score if len(own) >= _FEWEST_WORDS else score / 4


def _told(found: _Sentence) -> str:
    return f"{found.who}: {found.text}" if found.who else found.text


def _joined(chosen: Sequence[_Sentence]) -> str:
    return "\n".join(_told(found) for found in sorted(chosen, key=lambda found: found.place))

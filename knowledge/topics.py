"""The topic that a text goes under: one in use whose words its first line holds, else how that line begins. Pure."""

import re
from collections.abc import Iterable

from openvibe.engines.text.markdown import plain_text

MAX_GUESSED_TOPIC = 60
"""Characters of a topic that is made from a line."""

_CLAUSE_END = re.compile(r"[.:;,?!–—(]\s")
_WORD = re.compile(r"\w+")


def guess_topic(text: str, topics: Iterable[str]) -> str:
    """A known topic whose every word is in the first line, the longest first; else how that line begins."""
    headline = plain_text(text.strip().split("\n", 1)[0])
    headline_words = _word_set(headline)
    matching = [topic for topic in topics if (words := _word_set(topic)) and words <= headline_words]
    if matching:
        return max(matching, key=len)
    first = _CLAUSE_END.split(headline, maxsplit=1)[0].rstrip(".:;,?! ")
    return first if len(first) <= MAX_GUESSED_TOPIC else first[:MAX_GUESSED_TOPIC].rsplit(" ", 1)[0]


def _word_set(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}

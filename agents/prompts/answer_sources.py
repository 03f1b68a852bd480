"""Sources of an answer: passages of what a run read that stand in its answer. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from openvibe.engines.llm.fences import parse_fences
from openvibe.engines.llm.transcripts import message_text

MIN_SHARED_WORDS = 4
MIN_SHARED_CHARACTERS = 18
"""Less than this of a run of words is shared by any two texts of one subject."""
MIN_COMMON_WORDS = 3
MIN_LETTERS = 5
"""Shorter words say little about a subject."""
MAX_SOURCES = 5
EXCERPT_CHARACTERS = 90
_WORD = re.compile(r"\w+(?:['’]\w+)?")
_FENCE_LINE = re.compile(r"^</?[a-z_]+(?: [^\n]*)?>$", re.MULTILINE)


@dataclass(frozen=True)
class SharedPassage:
    """A passage that one text (its place in the sequence) shares: `match` in its own words, with what stands around it.

    `words` is how many words in a row; `is_exact` is False where only single words are shared.
    """

    place: int
    before: str
    match: str
    after: str
    words: int
    is_exact: bool = True


def find_sources(answer: str, texts: Sequence[str], own: Collection[int] = ()) -> list[SharedPassage]:
    """The texts that share the longest runs of words with the answer, at most MAX_SOURCES; where none does, those that
    share the most words which few of the texts hold. Of equal texts the first.

    `own`: places of what the agent said itself. That comes last: it repeats an answer more often than it explains it.
    """
    words = [match[0].casefold() for match in _WORD.finditer(answer)]
    starts: dict[tuple[str, ...], list[int]] = {}
    for at in range(len(words) - MIN_SHARED_WORDS + 1):
        starts.setdefault(tuple(words[at : at + MIN_SHARED_WORDS]), []).append(at)
    passages = [_longest(place, text, words, starts) for place, text in enumerate(texts)]
    exact = sorted(
        (one for one in passages if one is not None), key=lambda one: (one.place in own, -one.words, one.place)
    )
    unique = {" ".join(one.match.casefold().split()): one for one in reversed(exact)}
    distinct = [one for one in exact if unique[" ".join(one.match.casefold().split())] is one]
    read_sources = [one for one in distinct if one.place not in own] or _similar(words, texts, own)
    repeated_sources = [one for one in distinct if one.place in own]
    return [*read_sources, *repeated_sources][:MAX_SOURCES] or _similar(words, texts)


def _longest(place: int, text: str, words: list[str], starts: dict[tuple[str, ...], list[int]]) -> SharedPassage | None:
    own = list(_WORD.finditer(text))
    folded_words = [match[0].casefold() for match in own]
    best, at = (0, 0), 0
    while at + MIN_SHARED_WORDS <= len(own):
        length = 0
        for start in starts.get(tuple(folded_words[at : at + MIN_SHARED_WORDS]), ())[:20]:
            same = MIN_SHARED_WORDS
            while at + same < len(own) and start + same < len(words) and folded_words[at + same] == words[start + same]:
                same += 1
            length = max(length, same)
        best = max(best, (length, -at))
        at += max(length, 1)
    length, first = best[0], -best[1]
    if not length:
        return None
    begin, end = own[first].start(), own[first + length - 1].end()
    if end - begin < MIN_SHARED_CHARACTERS:
        return None
    return SharedPassage(place, _tail(text[:begin]), text[begin:end], _head(text[end:]), length)


def _similar(words: list[str], texts: Sequence[str], left_out: Collection[int] = ()) -> list[SharedPassage]:
    long_words = {word for word in words if len(word) >= MIN_LETTERS}
    shared = [long_words & {match[0].casefold() for match in _WORD.finditer(text)} for text in texts]
    holders = Counter(word for common in shared for word in common)
    scores = [(sum(1 / holders[word] for word in common), place) for place, common in enumerate(shared)]
    best = sorted(scores, key=lambda pair: (-pair[0], pair[1]))
    places = [place for _, place in best if place not in left_out and len(shared[place]) >= MIN_COMMON_WORDS]
    return [
        SharedPassage(place, "", _head(texts[place], 2 * EXCERPT_CHARACTERS), "", len(shared[place]), is_exact=False)
        for place in places[:3]
    ]


def _tail(text: str) -> str:
    text = " ".join(text.split()) + (" " if text[-1:].isspace() else "")
    return text if len(text) <= EXCERPT_CHARACTERS else f"…{text[-EXCERPT_CHARACTERS:].split(' ', 1)[-1]}"


def _head(text: str, characters: int = EXCERPT_CHARACTERS) -> str:
    text = (" " if text[:1].isspace() else "") + " ".join(text.split())
    return text if len(text) <= characters else f"{text[:characters].rsplit(' ', 1)[0]}…"


def unescaped_text(text: str, *, is_message: bool) -> str:
    """What an item of a prompt says, as it was written: without its fences, what is escaped inside them, and who said
    it when."""
    if text.startswith("<") and (fences := parse_fences(text)):
        return "\n".join(fence.text for fence in fences)
    text = _FENCE_LINE.sub("", text)
    return message_text(text) if is_message else text

"""Sources of an answer: passages of what a run read that stand in its answer. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from openvibe.engines.llm.fences import unescape_text
from openvibe.engines.llm.transcripts import message_text, parse_blocks

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

    `words` is how many words in a row; `is_exact` is False where only single words are shared. `spans`: the places in
    the answer, in characters, that rest on this text; each character rests on one text at most.
    """

    place: int
    before: str
    match: str
    after: str
    words: int
    is_exact: bool = True
    spans: tuple[tuple[int, int], ...] = ()


class _Run(NamedTuple):
    """Words in a row that a text and the answer share: how many, and at which word of each they begin."""

    length: int
    text_start: int
    answer_start: int


def find_sources(answer: str, texts: Sequence[str], own: Collection[int] = ()) -> list[SharedPassage]:
    """The texts that share the longest runs of words with the answer, at most MAX_SOURCES; where none does, those that
    share the most words which few of the texts hold. Of equal texts the first.

    `own`: places of what the agent said itself. That comes last: it repeats an answer more often than it explains it.
    """
    answer_words = list(_WORD.finditer(answer))
    words = [match[0].casefold() for match in answer_words]
    starts: dict[tuple[str, ...], list[int]] = {}
    for at in range(len(words) - MIN_SHARED_WORDS + 1):
        starts.setdefault(tuple(words[at : at + MIN_SHARED_WORDS]), []).append(at)
    runs = [list(_shared_runs(text, words, starts)) for text in texts]
    passages = [_longest(place, texts[place], shared) for place, shared in enumerate(runs) if shared]
    exact = sorted(passages, key=lambda one: (one.place in own, -one.words, one.place))
    unique = {" ".join(one.match.casefold().split()): one for one in reversed(exact)}
    distinct = [one for one in exact if unique[" ".join(one.match.casefold().split())] is one]
    read_sources = [one for one in distinct if one.place not in own] or _similar(words, texts, own)
    repeated_sources = [one for one in distinct if one.place in own]
    sources = [*read_sources, *repeated_sources][:MAX_SOURCES] or _similar(words, texts)
    exact_places = [one.place for one in sources if one.is_exact]
    spans = _divide([(place, run) for place in exact_places for run in runs[place]], own, answer_words)
    return [replace(one, spans=spans.get(one.place, ())) for one in sources]


def _divide(
    runs: Sequence[tuple[int, _Run]], own: Collection[int], answer_words: Sequence[re.Match[str]]
) -> dict[int, tuple[tuple[int, int], ...]]:
    """The answer's words divided among the texts, as spans of characters by the place of each text: the longest run
    takes its words first, what the agent said itself comes last."""
    holders: list[int | None] = [None] * len(answer_words)
    for place, run in sorted(runs, key=lambda pair: (pair[0] in own, -pair[1].length)):
        for at in range(run.answer_start, run.answer_start + run.length):
            if holders[at] is None:
                holders[at] = place
    spans: dict[int, list[tuple[int, int]]] = {}
    for holder, group in groupby(enumerate(holders), key=lambda pair: pair[1]):
        own_words = [answer_words[at] for at, _ in group]
        if holder is not None and len(own_words) >= MIN_SHARED_WORDS:
            spans.setdefault(holder, []).append((own_words[0].start(), own_words[-1].end()))
    return {place: tuple(own_spans) for place, own_spans in spans.items()}


def _shared_runs(text: str, words: list[str], starts: dict[tuple[str, ...], list[int]]) -> Iterator[_Run]:
    """The runs of words that are long enough to say something, in the order of the text."""
    own = list(_WORD.finditer(text))
    folded_words = [match[0].casefold() for match in own]
    at = 0
    while at + MIN_SHARED_WORDS <= len(own):
        length, answer_start = 0, 0
        for start in starts.get(tuple(folded_words[at : at + MIN_SHARED_WORDS]), ())[:20]:
            same = MIN_SHARED_WORDS
            while at + same < len(own) and start + same < len(words) and folded_words[at + same] == words[start + same]:
                same += 1
            if same > length:
                length, answer_start = same, start
        if length and own[at + length - 1].end() - own[at].start() >= MIN_SHARED_CHARACTERS:
            yield _Run(length, at, answer_start)
        at += max(length, 1)


def _longest(place: int, text: str, runs: Sequence[_Run]) -> SharedPassage:
    own = list(_WORD.finditer(text))
    run = max(runs, key=lambda one: (one.length, -one.text_start))
    begin, end = own[run.text_start].start(), own[run.text_start + run.length - 1].end()
    return SharedPassage(place, shorten_start(text[:begin]), text[begin:end], shorten_end(text[end:]), run.length)


def _similar(words: list[str], texts: Sequence[str], left_out: Collection[int] = ()) -> list[SharedPassage]:
    long_words = {word for word in words if len(word) >= MIN_LETTERS}
    shared = [long_words & {match[0].casefold() for match in _WORD.finditer(text)} for text in texts]
    holders = Counter(word for common in shared for word in common)
    scores = [(sum(1 / holders[word] for word in common), place) for place, common in enumerate(shared)]
    best = sorted(scores, key=lambda pair: (-pair[0], pair[1]))
    places = [place for _, place in best if place not in left_out and len(shared[place]) >= MIN_COMMON_WORDS]
    return [
        SharedPassage(
            place, "", shorten_end(texts[place], 2 * EXCERPT_CHARACTERS), "", len(shared[place]), is_exact=False
        )
        for place in places[:3]
    ]


def shorten_start(text: str) -> str:
    """The end of a text, on one line: at most EXCERPT_CHARACTERS."""
    text = " ".join(text.split()) + (" " if text[-1:].isspace() else "")
    return text if len(text) <= EXCERPT_CHARACTERS else f"…{text[-EXCERPT_CHARACTERS:].split(' ', 1)[-1]}"


def shorten_end(text: str, characters: int = EXCERPT_CHARACTERS) -> str:
    """The beginning of a text, on one line."""
    text = (" " if text[:1].isspace() else "") + " ".join(text.split())
    return text if len(text) <= characters else f"{text[:characters].rsplit(' ', 1)[0]}…"


def unescaped_text(text: str, *, section: str, role: str, opening: str) -> str:
    """What an item of a prompt says, as it was written: without its fences, what is escaped inside them, and who said
    it when."""
    if text.startswith("<") and (blocks := parse_blocks(text)):
        return "\n".join(block.text for block in blocks)
    if role == "assistant":
        return text
    text = _FENCE_LINE.sub("", text).strip("\n")
    if opening:
        return message_text(text)
    return unescape_text(text) if section == "request" else text

"""The built-in rule: may two entries both be true? Pure, symmetric, and careful rather than clever.

It flags differing numbers, dates and times, a denial beside what it denies, and what one entry says was replaced and
the other still states: on the same subject only. It never flags an equal text, and nothing without a shared word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from knowledge.claims.quantities import Quantity, differ
from knowledge.claims.statements import CONTRAST_STEMS, GENERIC_STEMS, Statement, statements, stems

WHY = 300
"""Characters of an explanation."""


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """What an entry says: its topic, and its content as Markdown."""

    topic: str
    content: str


@dataclass(frozen=True, slots=True)
class _Pair:
    first: Statement
    second: Statement
    first_topic: frozenset[str]
    second_topic: frozenset[str]

    @property
    def shared(self) -> frozenset[str]:
        return self.first.words & self.second.words

    @property
    def closeness(self) -> float:
        """Jaccard of all words but the values, 0 to 1."""
        together = self.first.words | self.second.words
        return len(self.shared) / len(together) if together else 0.0


def contradicts(one: Claim, other: Claim) -> str | None:
    """Why the two may contradict each other, in at most 300 characters for people; None when they do not seem to.

    The same answer whichever comes first, but for the order in which the explanation names them.
    """
    if _plain(one.content) == _plain(other.content):
        return None
    swapped = other < one
    first, second = (other, one) if swapped else (one, other)
    topics = stems(first.topic), stems(second.topic)
    pairs = _pairs(statements(first.topic, first.content), statements(second.topic, second.content), topics)
    found = _differing(pairs) or _denied(pairs) or _outdated(pairs)
    if found is None:
        return None
    how, left, right = found
    if swapped:
        left, right = right, left
    return f"{how}: “{_cut(left)}” and “{_cut(right)}”."


# --- the same subject? --------------------------------------------------------------------------------------
def _pairs(
    first: list[Statement], second: list[Statement], topics: tuple[frozenset[str], frozenset[str]]
) -> list[_Pair]:
    """Statements that are about the same thing. Those that stand in both texts say nothing against each other."""
    ours, theirs = {_plain(one.said) for one in first}, {_plain(one.said) for one in second}
    return [
        pair
        for left in first
        if _plain(left.said) not in theirs
        for right in second
        if _plain(right.said) not in ours
        for pair in [_Pair(left, right, *topics)]
        if _same_subject(pair)
    ]


def _same_subject(pair: _Pair) -> bool:
    left, right = pair.first, pair.second
    if left.fixed != right.fixed and left.fixed and right.fixed:
        return False  # another year, another room: part of what it is about
    one_topic = bool(pair.first_topic & pair.second_topic) or not pair.first_topic or not pair.second_topic
    if _exclusive(left.names, right.names, left.words, right.words) or _contrast(left.words, right.words):
        return False
    if _contrast(pair.first_topic | left.about, pair.second_topic | right.about):
        return False
    if left.about and right.about and not left.about & right.about:
        return False
    only_left, only_right = left.subject - right.words, right.subject - left.words
    if only_left and only_right and (only_left | only_right) - GENERIC_STEMS:
        return False
    specific = pair.shared - GENERIC_STEMS
    if not one_topic:
        return _nearly_the_same(pair)
    if pair.first_topic != pair.second_topic and _exclusive(
        pair.first_topic - GENERIC_STEMS, pair.second_topic - GENERIC_STEMS, left.words, right.words
    ):
        return _nearly_the_same(pair)
    return (bool(pair.shared) and (bool(specific) or pair.closeness >= 0.3)) or _bare(pair)


def _nearly_the_same(pair: _Pair) -> bool:
    """Enough is said alike to be about one thing, whatever the topics are called."""
    return (len(pair.shared - GENERIC_STEMS) >= 2 and pair.closeness >= 0.5) or (
        len(pair.shared) >= 2 and pair.closeness > 0.99
    )


def _bare(pair: _Pair) -> bool:
    """Both say little but a value, under one topic: `$29 a month`."""
    return (
        pair.first_topic == pair.second_topic
        and len(pair.first.words) <= 1
        and len(pair.second.words) <= 1
        and (not pair.first.words or not pair.second.words)
    )


def _exclusive(
    left: frozenset[str], right: frozenset[str], left_words: frozenset[str], right_words: frozenset[str]
) -> bool:
    """Each side names something that the other one does not mention."""
    return bool(left - right_words - right) and bool(right - left_words - left)


def _contrast(left: frozenset[str], right: frozenset[str]) -> bool:
    """One is about one member of a group, the other about another: staging and production."""
    return any((left - right) & group and (right - left) & group for group in CONTRAST_STEMS)


# --- what is said of it -------------------------------------------------------------------------------------
def _differing(pairs: list[_Pair]) -> tuple[str, str, str] | None:
    """Two quantities of the same kind that differ, unless either agrees with something else the other text says."""
    settled: set[tuple[int, int]] = set()
    open_pairs: list[tuple[float, str, _Pair]] = []
    for pair in pairs:
        verdicts = list(_verdicts(pair))
        if any(verdict is False for verdict, _kind in verdicts):
            settled.add((0, id(pair.first)))
            settled.add((1, id(pair.second)))
        kinds = [kind for verdict, kind in verdicts if verdict]
        if kinds:
            open_pairs.append((pair.closeness, kinds[0], pair))
    standing = [
        found for found in open_pairs
        if (0, id(found[2].first)) not in settled and (1, id(found[2].second)) not in settled
    ]  # fmt: skip
    if not standing:
        return None
    _closeness, kind, pair = max(standing, key=lambda found: found[0])
    return f"Different {_KINDS[kind]}", pair.first.said, pair.second.said


_KINDS = {"money": "amounts", "percent": "shares", "span": "lengths of time", "clock": "times of day", "date": "dates",
          "period": "dates", "weekday": "days", "size": "sizes", "version": "versions", "count": "numbers"}  # fmt: skip


def _verdicts(pair: _Pair) -> Iterable[tuple[bool, str]]:
    """For each kind of quantity both state: True when all differ, False when some agree."""
    left, right = _measures(pair.first), _measures(pair.second)
    if _dated_apart(pair):
        return
    for kind in _KINDS:
        ours = [one for one in left if one[0].kind == kind]
        theirs = [one for one in right if one[0].kind == kind]
        compared = [
            verdict for mine, my_label in ours for yours, your_label in theirs
            if not (my_label and your_label and my_label != your_label and not {my_label, your_label} & GENERIC_STEMS)
            if mine.unit or mine.kind != "count" or not _elsewhere(pair)
            for verdict in [differ(mine, yours)] if verdict is not None
        ]  # fmt: skip
        if compared:
            yield all(compared), kind


def _elsewhere(pair: _Pair) -> bool:
    """Each says something of its own beside the number."""
    return bool(pair.first.words - pair.second.words) and bool(pair.second.words - pair.first.words)


def _measures(one: Statement) -> list[tuple[Quantity, str]]:
    """The values that can differ: dates count only where nothing else is stated."""
    both = list(zip(one.values, one.labels, strict=True))
    others = [pair for pair in both if pair[0].kind not in ("date", "period", "weekday")]
    return others or both


def _dated_apart(pair: _Pair) -> bool:
    """Measured at different times: 40 users in March, 55 in April."""
    when = [
        [value for value in one.values if value.kind in ("date", "period", "weekday")]
        for one in (pair.first, pair.second)
        if any(value.kind not in ("date", "period", "weekday") for value in one.values)
    ]
    as_of = any("as of" in one.said.lower() for one in (pair.first, pair.second))
    return len(when) == 2 and not as_of and any(differ(a, b) for a in when[0] for b in when[1])


def _denied(pairs: list[_Pair]) -> tuple[str, str, str] | None:
    """One says what the other denies, in nearly the same words."""
    close = [
        pair for pair in pairs
        if pair.first.denied != pair.second.denied and len(pair.shared) >= 2 and _mostly(pair)
        and not _dated_apart(pair)
    ]  # fmt: skip
    if not close:
        return None
    best = max(close, key=lambda pair: pair.closeness)
    return "One denies what the other says", best.first.said, best.second.said


def _mostly(pair: _Pair) -> bool:
    """Nearly all words of the shorter one stand in the other, and not much else does."""
    fewest = min(len(pair.first.words), len(pair.second.words))
    return len(pair.shared) >= 0.75 * fewest and pair.closeness >= 0.4


def _outdated(pairs: list[_Pair]) -> tuple[str, str, str] | None:
    """One says that something was replaced, the other still states it."""
    for pair in pairs:
        for one, other in ((pair.first, pair.second), (pair.second, pair.first)):
            gone = one.replaced - GENERIC_STEMS
            still = gone and gone <= other.words and not other.replaced and not other.denied
            if still and len((one.words - gone) & (other.words - gone)) >= 1:
                return "One says it was replaced", pair.first.said, pair.second.said
    return None


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line.rstrip(" .") if len(line) <= 110 else line[:109].rstrip() + "…"

"""The built-in rule: may two entries both be true? Pure, symmetric, and careful rather than clever.

It flags differing numbers, dates and times, a denial beside what it denies, and what one entry says was replaced and
the other still states: on the same subject only. It never flags an equal text, and nothing without a shared word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from knowledge.contradictions.claims import CONTRAST_STEMS, Statement, extract_statements, stems
from knowledge.contradictions.quantities import Quantity, quantities_differ

MAX_EXPLANATION = 300
"""Characters of an explanation."""


@dataclass(frozen=True, slots=True, order=True)
class ComparedText:
    """What an entry says: its topic, and its content as Markdown."""

    topic: str
    content: str


@dataclass(frozen=True, slots=True)
class _StatementPair:
    first: Statement
    second: Statement
    first_topic: frozenset[str]
    second_topic: frozenset[str]

    @property
    def shared_words(self) -> frozenset[str]:
        return self.first.words & self.second.words

    @property
    def jaccard(self) -> float:
        """Jaccard of all words but the values, 0 to 1."""
        together = self.first.words | self.second.words
        return len(self.shared_words) / len(together) if together else 0.0


def explain_contradiction(one: ComparedText, other: ComparedText) -> str | None:
    """The reason why the two may contradict each other, in at most 300 characters for people; None when they do not
    seem to.

    The same answer whichever comes first, but for the order in which the explanation names them.
    """
    if _normalize(one.content) == _normalize(other.content):
        return None
    is_swapped = other < one
    first, second = (other, one) if is_swapped else (one, other)
    topics = stems(first.topic), stems(second.topic)
    pairs = _comparable_pairs(extract_statements(first.content), extract_statements(second.content), topics)
    explanation = _find_differing_quantities(pairs) or _find_denial(pairs) or _find_replacement(pairs)
    if explanation is None:
        return None
    how, left, right = explanation
    if is_swapped:
        left, right = right, left
    return f"{how}: “{_shorten(left)}” and “{_shorten(right)}”."


def _comparable_pairs(
    first: list[Statement], second: list[Statement], topics: tuple[frozenset[str], frozenset[str]]
) -> list[_StatementPair]:
    """Statements that are about the same thing. Those that stand in both texts say nothing against each other."""
    first_texts, second_texts = {_normalize(one.text) for one in first}, {_normalize(one.text) for one in second}
    return [
        pair
        for left in first
        if _normalize(left.text) not in second_texts
        for right in second
        if _normalize(right.text) not in first_texts
        for pair in [_StatementPair(left, right, *topics)]
        if _same_subject(pair)
    ]


def _same_subject(pair: _StatementPair) -> bool:
    """Whether both are about one thing: not each of them names something that the other one leaves out.

    The two shares of common words were chosen on the pairs in `tests/knowledge/contradictions`.
    """
    left, right, left_topic, right_topic = pair.first, pair.second, pair.first_topic, pair.second_topic
    if left.subject_values != right.subject_values and left.subject_values and right.subject_values:
        return False  # another year, another room: part of what it is about
    if left.about and right.about and not left.about & right.about:
        return False
    if _is_contrast(left.words, right.words) or _is_contrast(left_topic | left.about, right_topic | right.about):
        return False
    left_subject, right_subject = left.subject or left_topic, right.subject or right_topic
    if left_subject - right.words - right_topic and right_subject - left.words - left_topic:
        return False
    left_words, right_words = left.words | left_topic, right.words | right_topic
    if left_topic - right_words and right_topic - left_words:  # topics apart: only the words themselves can tell
        return len(pair.shared_words) >= 2 and pair.jaccard >= 0.4
    return len(left_words & right_words) >= 0.25 * max(1, len(left_words | right_words))


def _is_contrast(left: frozenset[str], right: frozenset[str]) -> bool:
    """One is about one member of a group, the other about another: staging and production."""
    return any((left - right) & group and (right - left) & group for group in CONTRAST_STEMS)


def _find_differing_quantities(pairs: list[_StatementPair]) -> tuple[str, str, str] | None:
    """Two quantities of the same kind that differ, unless either agrees with something else the other text says."""
    agreeing: set[tuple[int, int]] = set()
    differing: list[tuple[str, _StatementPair]] = []
    for pair in pairs:
        verdicts = list(_quantity_verdicts(pair))
        if not all(verdict for verdict, _kind in verdicts):
            agreeing |= {(0, id(pair.first)), (1, id(pair.second))}
        differing += [(kind, pair) for verdict, kind in verdicts if verdict][:1]
    open_pairs = [
        (kind, pair) for kind, pair in differing if not agreeing & {(0, id(pair.first)), (1, id(pair.second))}
    ]
    if not open_pairs:
        return None
    kind, pair = max(open_pairs, key=lambda one: one[1].jaccard)
    return f"Different {_KIND_LABELS[kind]}", pair.first.text, pair.second.text


_KIND_LABELS = {
    "money": "amounts",
    "percent": "shares",
    "span": "lengths of time",
    "clock": "times of day",
    "date": "dates",
    "period": "dates",
    "weekday": "days",
    "size": "sizes",
    "version": "versions",
    "count": "numbers",
}
_DATE_KINDS = ("date", "period", "weekday")


def _quantity_verdicts(pair: _StatementPair) -> Iterable[tuple[bool, str]]:
    """A verdict for each kind of quantity both state: True when all differ, False when some agree."""
    left, right = _comparable_values(pair.first), _comparable_values(pair.second)
    if _have_different_dates(pair):
        return
    for kind in _KIND_LABELS:
        first_values = [one for one in left if one.kind == kind]
        second_values = [one for one in right if one.kind == kind]
        verdicts = [
            verdict
            for first_value in first_values
            for second_value in second_values
            if first_value.unit or kind != "count" or not _both_say_more(pair)
            for verdict in [quantities_differ(first_value, second_value)]
            if verdict is not None
        ]
        if verdicts:
            yield all(verdicts), kind


def _both_say_more(pair: _StatementPair) -> bool:
    """Each says something of its own beside the number."""
    return bool(pair.first.words - pair.second.words) and bool(pair.second.words - pair.first.words)


def _comparable_values(one: Statement) -> Sequence[Quantity]:
    """The values that can differ: dates count only where nothing else is stated."""
    return [value for value in one.values if value.kind not in _DATE_KINDS] or one.values


def _have_different_dates(pair: _StatementPair) -> bool:
    """Whether they were measured at different times: 40 users in March, 55 in April."""
    when = [
        [value for value in one.values if value.kind in _DATE_KINDS]
        for one in (pair.first, pair.second)
        if any(value.kind not in _DATE_KINDS for value in one.values)
    ]
    as_of = any("as of" in one.text.lower() for one in (pair.first, pair.second))
    return len(when) == 2 and not as_of and any(quantities_differ(a, b) for a in when[0] for b in when[1])


def _find_denial(pairs: list[_StatementPair]) -> tuple[str, str, str] | None:
    """One says what the other denies, in nearly the same words."""
    close = [
        pair
        for pair in pairs
        if pair.first.is_negated != pair.second.is_negated
        and len(pair.shared_words) >= 2
        and bool(pair.first.values) == bool(pair.second.values)
        and _overlap_mostly(pair)
        and not _have_different_dates(pair)
    ]
    if not close:
        return None
    best = max(close, key=lambda pair: pair.jaccard)
    return "One denies what the other says", best.first.text, best.second.text


def _overlap_mostly(pair: _StatementPair) -> bool:
    """Whether nearly all words of the shorter one stand in the other, and not much else does."""
    fewest = min(len(pair.first.words), len(pair.second.words))
    return len(pair.shared_words) >= 0.75 * fewest and pair.jaccard >= 0.4


def _find_replacement(pairs: list[_StatementPair]) -> tuple[str, str, str] | None:
    """One says that something was replaced, the other still states it."""
    for pair in pairs:
        for one, other in ((pair.first, pair.second), (pair.second, pair.first)):
            is_still_stated = one.replaced and one.replaced <= other.words
            if is_still_stated and not other.replaced and not other.is_negated and pair.shared_words - one.replaced:
                return "One says it was replaced", pair.first.text, pair.second.text
    return None


def _normalize(text: str) -> str:
    return " ".join(text.split()).casefold()


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line.rstrip(" .") if len(line) <= 110 else line[:109].rstrip() + "…"

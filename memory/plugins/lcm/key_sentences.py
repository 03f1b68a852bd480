"""The deterministic summary: the sentences of a conversation that carry weight, word for word, without a model. Pure.

A sentence weighs what its words do (how often the conversation has them, against how many of its sentences do), more
where it holds names and values, decides something, or answers a question. What was chosen makes its words lighter, so
that the next one tells something else. Sounds and fillers (`{vocalsound}`, *Hmm.*) weigh nothing."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory.plugins.lcm.facts import QUESTION_MARKS, decides, is_open_question, mentions
from memory.plugins.lcm.grounding import content_words, split_sentences
from memory.plugins.lcm.source_lines import FILLERS, parse_lines
from openvibe.engines.llm.tokens import count_tokens

MAX_SENTENCE_CHARACTERS = 420
MIN_WORDS = 2
"""Content words of the shortest sentence that is chosen."""

DECISION_BONUS, ANSWER_BONUS, QUESTION_BONUS, OPEN_BONUS = 0.5, 0.25, 0.1, 0.35
VALUE_BONUS, MAX_VALUES = 0.12, 4
TOOL_FACTOR, REPEATED_FACTOR = 0.5, 0.35
"""What the words of a tool's answer count, and words that a chosen sentence has."""


class _Sentence(NamedTuple):
    position: int
    message: int
    speaker: str
    text: str
    words: frozenset[str]
    bonus: float
    factor: float


def pick_key_sentences(source: str, max_tokens: int, focus: str = "") -> str:
    """A line for each message of which something was chosen, in order, the speaker in front, of at most `max_tokens`
    tokens; "" where no sentence fits. What shares words with the `focus` takes up to half of them before the rest."""
    sentences = list(_read_sentences(source))
    weights = _word_weights(sentences)
    chosen: list[_Sentence] = []
    tokens = 0
    focus_words = frozenset(word[:6] for word in content_words(focus))
    focused = [one for one in sentences if focus_words & {word[:6] for word in one.words}]
    for candidates, limit in ((focused, max_tokens // 2), (sentences, max_tokens)):
        for sentence in _by_weight(candidates, weights, chosen):
            cost = count_tokens(f"{sentence.speaker}: {sentence.text}\n")
            if tokens + cost <= limit and sentence not in chosen:
                chosen.append(sentence)
                tokens += cost
            if tokens >= limit - MIN_WORDS * 4:
                break
    text = _join(chosen)
    while chosen and count_tokens(text) > max_tokens:
        chosen.pop()
        text = _join(chosen)
    return text


def _read_sentences(source: str) -> Iterator[_Sentence]:
    """The sentences of a source, each once, those of sounds alone left out."""
    seen: set[str] = set()
    position, asked_by = 0, ""
    for message, line in enumerate(parse_lines(source)):
        sentences = [part for one in split_sentences(line.text) for part in _cut_long(" ".join(one.split()))]
        was_asked = bool(asked_by) and asked_by != line.speaker
        for at, sentence in enumerate(sentences):
            words = frozenset(word for word in content_words(sentence) if word not in FILLERS)
            if len(words) < MIN_WORDS or sentence in seen:
                continue
            seen.add(sentence)
            position += 1
            bonus = _bonus(sentence, is_answer=was_asked and at == 0)
            yield _Sentence(
                position, message, line.speaker, sentence, words, bonus, TOOL_FACTOR if line.is_tool else 1.0
            )
        if sentences:
            asked_by = line.speaker if sentences[-1].endswith(QUESTION_MARKS) else ""


def _cut_long(sentence: str) -> Iterator[str]:
    while len(sentence) > MAX_SENTENCE_CHARACTERS:
        space = sentence.rfind(" ", MAX_SENTENCE_CHARACTERS // 2, MAX_SENTENCE_CHARACTERS)
        end = space if space > 0 else MAX_SENTENCE_CHARACTERS
        yield sentence[:end].strip()
        sentence = sentence[end:].strip()
    if sentence:
        yield sentence


def _bonus(sentence: str, *, is_answer: bool) -> float:
    bonus = VALUE_BONUS * min(len(set(mentions(sentence))), MAX_VALUES) + ANSWER_BONUS * is_answer
    if is_open_question(sentence):
        return bonus + OPEN_BONUS
    return bonus + (QUESTION_BONUS if sentence.endswith(QUESTION_MARKS) else DECISION_BONUS * decides(sentence))


def _word_weights(sentences: Sequence[_Sentence]) -> dict[str, float]:
    """How much each word says, from 0 to 1: its count, damped, times its idf in this conversation."""
    counts = Counter(word for sentence in sentences for word in sentence.words)
    weights = {word: math.log1p(count) * math.log1p(len(sentences) / count) for word, count in counts.items()}
    heaviest = max(weights.values(), default=1.0)
    return {word: weight / heaviest for word, weight in weights.items()}


def _by_weight(
    sentences: Sequence[_Sentence], weights: dict[str, float], chosen: Sequence[_Sentence]
) -> Iterator[_Sentence]:
    """Every sentence, the heaviest first; words of those before it count less."""
    rest, told = list(sentences), {word for one in chosen for word in one.words}

    def weight(one: _Sentence) -> float:
        total = sum(weights[word] * (REPEATED_FACTOR if word in told else 1.0) for word in one.words)
        return round(
            one.factor * (total / math.sqrt(len(one.words)) + one.bonus), 9
        )  # sums over sets differ at the end

    order = sorted(rest, key=lambda one: (-weight(one), one.position))
    while order:
        best = max(order[:LOOK_AHEAD], key=lambda one: (weight(one), -one.position))
        order.remove(best)
        told |= best.words
        yield best


LOOK_AHEAD = 40
"""The number of sentences, of those that weighed most at first, that are weighed anew for each that is chosen."""


def _join(sentences: Sequence[_Sentence]) -> str:
    """Joins them in the order in which they were said; what one message said stands on one line."""
    lines: list[str] = []
    message = -1
    for one in sorted(sentences):
        if one.message == message:
            lines[-1] += f" {one.text}"
        else:
            lines.append(f"{one.speaker}: {one.text}" if one.speaker else one.text)
        message = one.message
    return "\n".join(lines)

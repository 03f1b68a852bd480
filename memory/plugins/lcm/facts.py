"""Facts of a conversation: the names, values, decisions and open questions that a summary has to keep. Pure.

No language is asked for: names are recognised by capitals inside a sentence and by who spoke, values by their digits
and signs, decisions and open questions by the words that mark them in a dozen languages. What stands in a script
without capitals is known by speakers and values alone."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory.plugins.lcm.grounding import content_words
from memory.plugins.lcm.source_lines import FILLERS, SourceLine, parse_lines
from openvibe.engines.llm.offline.extractive_summary import split_sentences
from openvibe.engines.text.words import STOP_WORDS, cjk_bigrams

MAX_NAME_CHARACTERS, MAX_SENTENCE_CHARACTERS = 80, 160
MAX_DECISIONS, MAX_QUESTIONS = 6, 3
DECISION_WEIGHT = 3
"""A name or value in a decision counts like one that is mentioned so many times more."""

_VALUE = re.compile(
    r"https?://[^\s<>\"'`]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w/])[~.]{0,2}/[\w.-]+(?:/[\w.-]+)+|`[^`\n]{2,60}`"
    r"|[#$€£¥]?(?:[^\W\d]+-)?\w*\d[\w.,:/%€$£°-]*"
)
_VALUE_SIGN = re.compile(r"[\d@/]")
"""What every value has that is not quoted code."""

_NAME = re.compile(r"@[\w-]{2,32}|[^\W\d_][\w’'-]*(?: [^\W\d_][\w’'-]*)*")
_WORD = re.compile(r"[^\W_]+(?:[’'-][^\W_]+)*")
_DECISION = re.compile(
    r"\b(?:decid|agreed|approved|rejected|we will use|we'll use|settled on|deadline|must not|never again"
    r"|beschlossen|entschieden|vereinbart|geeinigt|genehmigt|abgelehnt|décid|convenu|approuvé|rejeté"
    r"|decidi|acord[aóe]|aprobad|rechazad|deciso|concordat|combinad|besloten|afgesproken|zdecydowa|ustalono|beslutad"
    r"|решил|решен|договорил|утвержд|karar|uzgodnion)"
    r"|决定|決定|同意|决议|決まり|決めた|결정|합의|قرر|اتفق|החלט|तय (?:किया|हुआ)"
)
"""Patterns in small letters, as `_OPEN`: where case is to be ignored, every alternative is tried at every word."""

_OPEN = re.compile(
    r"\b(?:open question|still open|unresolved|undecided|to be (?:decided|clarified|confirmed)|tbd"
    r"|noch offen|offene frage"
    r"|ungeklärt|question ouverte|reste à|pregunta abierta|por decidir|pendiente|da decidere|em aberto"
    r"|открыт\w+ вопрос)"
    r"|待定|未决|未定|미정"
)
QUESTION_MARKS = ("?", "？", "؟")
_COUNT = re.compile(r"\d{1,4}\Z")
"""A plain number, which says little unless it is said again or decided."""

_NUMBER = re.compile(r"[#$€£¥]?[\d.,:/%€$£°-]+\Z")
_SENTENCE_STARTS = (".", "!", "?", "…", "。", "！", "？", "\n", "-", "–", "•", ">")
_STEM_CHARACTERS = 6


class Facts(NamedTuple):
    """What a source is full of, the most telling first: names and values in one order, sentences as they stand; and the
    lines they were found in."""

    keys: tuple[str, ...]
    decisions: tuple[str, ...]
    questions: tuple[str, ...]
    lines: tuple[SourceLine, ...] = ()

    @property
    def speakers(self) -> frozenset[str]:
        return frozenset(line.speaker for line in self.lines)

    def telling_sentences(self, keys: Sequence[str], *, most: int) -> list[str]:
        """Returns at most so many sentences that name these between them, each with its speaker, those that name most
        first."""
        rest = set(keys)
        sentences = [
            (f"{line.speaker}: {one}" if line.speaker else one)
            for line in self.lines
            for one in split_sentences(line.text, 2 * MAX_SENTENCE_CHARACTERS)
            if says_something(one)
        ]
        named = [set(keys).difference(missing_keys(sentence, keys)) for sentence in sentences]
        found: list[str] = []
        while rest and sentences and len(found) < most:
            best = max(range(len(sentences)), key=lambda at: (len(named[at] & rest), -len(sentences[at])))
            if not named[best] & rest:
                break
            found.append(sentences[best])
            rest -= named[best]
        return found

    def refs_of(self, key: str, *, most: int) -> list[str]:
        """The numbers of the messages, or the spans of the summaries, that say most clearly of this: the first ones."""
        return [line.ref for line in self.lines if line.ref and not missing_keys(line.text, [key])][:most]


def find_facts(source: str) -> Facts:
    """The facts of a source, whose lines may begin with a number and who speaks (`source_lines`)."""
    lines = list(parse_lines(source))
    sentences = [one for line in lines for one in split_sentences(line.text, 4 * MAX_SENTENCE_CHARACTERS)]
    decisions = [one for one in sentences if decides(one) and says_something(one)]
    questions = list(filter(is_open_question, sentences))
    if lines and lines[-1].text.rstrip().endswith(QUESTION_MARKS):
        questions.append(split_sentences(lines[-1].text, 4 * MAX_SENTENCE_CHARACTERS)[-1])
    weights: Counter[str] = Counter()
    for line in lines:
        weights.update(set(mentions(line.text)) | ({line.speaker} if line.speaker else set()))
    for sentence in decisions:
        weights.update({key: DECISION_WEIGHT for key in set(mentions(sentence)) if key in weights})
    weights_by_spelling = _merge_spellings(weights)
    keys = (key for key, weight in weights_by_spelling.items() if weight > 1 or not _COUNT.match(key))
    return Facts(
        tuple(sorted(keys, key=lambda key: (-weights_by_spelling[key], source.find(key)))),
        tuple(dict.fromkeys(map(_cut_sentence, decisions)))[-MAX_DECISIONS:],
        tuple(dict.fromkeys(map(_cut_sentence, questions)))[-MAX_QUESTIONS:],
        tuple(lines),
    )


def says_something(sentence: str) -> bool:
    """Whether a sentence has two words at least that are no grammar and no filler."""
    words = (word for word in content_words(sentence) if word not in FILLERS)
    return next(words, None) is not None and next(words, None) is not None


def is_bare_number(key: str) -> bool:
    """Whether it is digits and signs alone, which say nothing without their sentence."""
    return _NUMBER.match(key) is not None


def decides(sentence: str) -> bool:
    """Whether a sentence says that something was decided."""
    return not sentence.endswith(QUESTION_MARKS) and _DECISION.search(sentence.lower()) is not None


def is_open_question(sentence: str) -> bool:
    """Whether a sentence says that something is still open."""
    return _OPEN.search(sentence.lower()) is not None


def missing_keys(text: str, keys: Sequence[str]) -> list[str]:
    """Those of the names and values that the text does not name, in their order."""
    text_keys = _TextKeys(text)
    return [key for key in keys if not text_keys.has(key)]


def missing_sentences(text: str, sentences: Sequence[str]) -> list[str]:
    """Those that the text does not repeat in other words: not half of their telling words and no value stands there."""
    terms, text_keys = set(telling_terms(text)), _TextKeys(text)
    sentences_to_add = []
    for sentence in sentences:
        sentence_terms = set(telling_terms(sentence))
        values = list(find_values(sentence))
        is_there = 2 * len(sentence_terms & terms) >= len(sentence_terms) or (
            bool(values) and all(map(text_keys.has, values))
        )
        if not is_there:
            sentences_to_add.append(sentence)
    return sentences_to_add


def telling_terms(text: str) -> Iterator[str]:
    """Words that say what a text is about, cut short so that `decided` and `decision` are one. CJK as pairs."""
    for word in _WORD.findall(cjk_bigrams(_fold(text))):
        if word not in STOP_WORDS and (len(word) > 2 or not word.isascii()):
            yield word[:_STEM_CHARACTERS]


class _TextKeys:
    """A text as facts are looked for in it."""

    def __init__(self, text: str) -> None:
        self._text = _fold(text)
        self._numbers = set(map(_digits, find_values(text)))

    def has(self, key: str) -> bool:
        if _NUMBER.match(key):
            return _digits(key) in self._numbers
        folded_key = _fold(key).strip("`")
        start = self._text.find(folded_key)
        if not folded_key.isascii():
            return start >= 0
        while start > 0 and _is_word_character(self._text[start - 1]):
            start = self._text.find(folded_key, start + 1)
        return start >= 0


def mentions(text: str) -> Iterator[str]:
    """Names and values of a text, as they stand there."""
    for value in (one.rstrip(".,:/-").lstrip(".") for one in find_values(text)):
        if len(_digits(value)) >= 2 or not value.isdigit():
            yield value[:MAX_NAME_CHARACTERS]
    yield from (name for name, _ in find_names(text))


def find_names(text: str) -> Iterator[tuple[str, int]]:
    """Runs of capitalised words, without the word that a sentence begins with, each with where the words around it
    begin."""
    for match in _NAME.finditer(text):
        before = text[max(0, match.start() - 8) : match.start()].rstrip(" \t\"'“„«([*_")
        for name in _names_in(match[0], is_first=not before or before.endswith(_SENTENCE_STARTS)):
            yield name, text.find(name, match.start())


def find_values(text: str) -> Iterator[str]:
    """Values as they stand there. Only quoted code has blanks in it, so other words without a sign are passed over."""
    for word in (text,) if "`" in text else text.split():
        if word is text or _VALUE_SIGN.search(word):
            yield from (match[0] for match in _VALUE.finditer(word))


def _names_in(words: str, *, is_first: bool) -> Iterator[str]:
    """Runs of capitalised words, without the word that a sentence begins with."""
    run: list[str] = []
    parts = words.split(" ")
    if is_first and not (len(parts) > 1 and parts[1][:1].isupper()):  # any word has a capital there
        parts = parts[1:]
    for word in (*parts, ""):
        is_name = word[:1].isupper() and len(word) > 1 and not _is_plain(word)
        if (is_name or word.startswith("@")) and len(run) < 3:
            run.append(word.removesuffix("'s").removesuffix("’s"))
        elif run:
            yield " ".join(run)[:MAX_NAME_CHARACTERS]
            run = [word] if is_name else []


def _is_plain(word: str) -> bool:
    """A word of grammar or a shouted one is nobody's name."""
    return (
        re.split("['’]", word.lower())[0] in STOP_WORDS or word.lower() in FILLERS or (word.isupper() and len(word) > 6)
    )


def _merge_spellings(weights: Counter[str]) -> dict[str, int]:
    """One entry for each name and value, by the spelling that is met most."""
    by_fold: dict[str, str] = {}
    merged_weights: dict[str, int] = {}
    for key, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        spelling = by_fold.setdefault(_fold(key), key)
        merged_weights[spelling] = merged_weights.get(spelling, 0) + weight
    return merged_weights


def _cut_sentence(sentence: str) -> str:
    line = " ".join(sentence.split())
    return line if len(line) <= MAX_SENTENCE_CHARACTERS else f"{line[:MAX_SENTENCE_CHARACTERS].rpartition(' ')[0]}…"


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def _digits(value: str) -> str:
    return "".join(character for character in value if character.isdigit())


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()

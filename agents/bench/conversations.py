"""Conversations with questions whose evidence is known: read from a QMSum file, or made up."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.bench.content import SEED, Language
from openvibe.chat.importing.base import ImportedLine, ImportedThread, fingerprint
from openvibe.chat.importing.qmsum import read_qmsum
from openvibe.llm.tokens import count

SPEAKERS = ("Ana", "Dora", "Ben", "Vibe")
SUBJECT = 10  # words that one stretch of a made-up meeting keeps coming back to
FIRST_RARE = 800  # frequent words of the made-up language stand before this place
LONG = 460  # tokens of a long message


@dataclass(frozen=True)
class Asked:
    """A question, and the places (seqs, from 1) of the messages that hold what it asks for."""

    question: str
    evidence: frozenset[int]


@dataclass(frozen=True)
class Talk:
    imported: ImportedThread
    asked: Sequence[Asked]


def meetings_in(path: Path) -> Iterator[Talk]:
    """The meetings of a QMSum file with their specific questions. Raises what the importer raises.

    The file counts every utterance from 0; those without text are not imported, so the places are counted anew.
    """
    raw = (line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    for thread, line in zip(read_qmsum(path), raw, strict=True):
        meeting: dict[str, Any] = json.loads(line)
        places: dict[int, int] = {}
        for place, said in enumerate(meeting["meeting_transcripts"]):
            if said["content"].strip():
                places[place] = len(places) + 1
        yield Talk(thread, tuple(_asked(meeting, places)))


def _asked(meeting: dict[str, Any], places: dict[int, int]) -> Iterator[Asked]:
    for query in meeting.get("specific_query_list", ()):
        spans = [range(int(first), int(last) + 1) for first, last in query["relevant_text_span"]]
        evidence = frozenset(places[place] for span in spans for place in span if place in places)
        if evidence:
            yield Asked(query["query"], evidence)


class MadeUp:
    """Conversations in the made-up language, the same for the same seed."""

    def __init__(self, seed: int = SEED) -> None:
        self._language = Language(seed)
        self._random = random.Random(seed)
        self._rare = self._language.words[FIRST_RARE:]

    def meetings(self, many: int, *, stretches: int = 20) -> Iterator[Talk]:
        """Each stays with a subject for 15 to 40 messages; two of three name it. Asked: three of its words."""
        for number in range(many):
            lines: list[ImportedLine] = []
            asked: list[Asked] = []
            for _ in range(stretches):
                subject, began = self._random.sample(self._rare, SUBJECT), len(lines) + 1
                lines += [
                    self._line(self._random.choice((subject, subject, []))) for _ in range(self._random.randint(15, 40))
                ]
                evidence = frozenset(range(began, len(lines) + 1))
                asked.append(Asked(self._question(self._random.sample(subject, 3)), evidence))
            yield _talk(f"meeting {number}", lines, asked)

    def facts(self, many: int) -> Talk:
        """Short messages, one in 25 of which tells a fact that is never mentioned again."""
        return self._with_facts("facts", many, 25 * many, lambda: self._line([]).text)

    def long_messages(self, many: int) -> Talk:
        """Messages of 460 tokens and more, one in three of which holds a fact somewhere inside."""
        return self._with_facts("long messages", many, 3 * many, self._long)

    def _with_facts(self, name: str, many: int, messages: int, text: Callable[[], str]) -> Talk:
        lines = [ImportedLine(self._random.choice(SPEAKERS), text()) for _ in range(messages)]
        asked: list[Asked] = []
        for place in self._random.sample(range(messages), many):
            told = self._random.sample(self._rare, 4)
            words = lines[place].text.split()
            at = self._random.randint(0, len(words))
            body = " ".join((*words[:at], *told, *words[at:]))
            lines[place] = ImportedLine(lines[place].author, body)
            asked.append(Asked(self._question(told[1:3]), frozenset((place + 1,))))
        return _talk(name, lines, asked)

    def _line(self, subject: Sequence[str]) -> ImportedLine:
        words = self._language.message().split()[: self._random.choice((3, 6, 10, 14, 40))]
        named = self._random.sample(subject, self._random.randint(1, 3)) if subject else []
        return ImportedLine(self._random.choice(SPEAKERS), " ".join((*words, *named)))

    def _long(self) -> str:
        body = ""
        while count(body) < LONG:
            body = f"{body} {self._language.message()}".strip()
        return body

    def _question(self, telling: Sequence[str]) -> str:
        common = self._random.choices(self._language.words[:200], k=4)
        return f"What was said about {' '.join((*telling, *common))}?"


def _talk(name: str, lines: Sequence[ImportedLine], asked: Sequence[Asked]) -> Talk:
    said = (part for line in lines for part in (line.author, line.text))
    return Talk(ImportedThread(f"bench:{fingerprint(name, *said)}", name, tuple(lines)), tuple(asked))

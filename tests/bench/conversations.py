"""Conversations with questions whose evidence is known: read from a QMSum file, or made up."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from openvibe.chat.importing.readers import read_qmsum
from openvibe.chat.importing.values import ImportedLine, ImportedThread, fingerprint
from tests.bench.corpus import SEED, SyntheticLanguage

SPEAKERS = ("Ana", "Dora", "Ben", "Vibe")
SUBJECT_WORDS = 10  # words that one stretch of a made-up meeting keeps coming back to
FIRST_RARE_RANK = 800  # frequent words of the made-up language stand before this place


@dataclass(frozen=True)
class Question:
    """A question, and the places (seqs, from 1) of the messages that hold what it asks for.

    `sentence`: what in such a long message answers it; empty where the whole message does. `asked_at`: when it is
    asked (UTC), where that matters.
    """

    text: str
    evidence: frozenset[int]
    sentence: str = ""
    asked_at: datetime | None = None


@dataclass(frozen=True)
class SampleConversation:
    imported: ImportedThread
    asked: Sequence[Question]

    def evidence_texts(self, question: Question) -> list[str]:
        """What has to stand in a prompt that can answer the question."""
        if question.sentence:
            return [question.sentence]
        lines = tuple(self.imported.lines)
        return [lines[seq - 1].text for seq in sorted(question.evidence)]


def read_meetings(path: Path) -> Iterator[SampleConversation]:
    """The meetings of a QMSum file with their specific questions. Raises what the importer raises.

    The file counts every utterance from 0; those without text are not imported, so the places are counted anew.
    """
    raw = (line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    for thread, line in zip(read_qmsum(path), raw, strict=True):
        meeting: dict[str, Any] = json.loads(line)
        seqs: dict[int, int] = {}
        for position, utterance in enumerate(meeting["meeting_transcripts"]):
            if utterance["content"].strip():
                seqs[position] = len(seqs) + 1
        yield SampleConversation(thread, tuple(_meeting_questions(meeting, seqs)))


def _meeting_questions(meeting: dict[str, Any], seqs: dict[int, int]) -> Iterator[Question]:
    for query in meeting.get("specific_query_list", ()):
        spans = [range(int(first), int(last) + 1) for first, last in query["relevant_text_span"]]
        evidence = frozenset(seqs[position] for span in spans for position in span if position in seqs)
        if evidence:
            yield Question(query["query"], evidence)


class SyntheticConversations:
    """Conversations in the made-up language, the same for the same seed."""

    def __init__(self, seed: int = SEED) -> None:
        self._language = SyntheticLanguage(seed)
        self._random = random.Random(seed)
        self._rare = self._language.words[FIRST_RARE_RANK:]

    def meetings(self, count: int, *, stretches: int = 20) -> Iterator[SampleConversation]:
        """Each stays with a subject for 15 to 40 messages; two of three name it. Asked: three of its words."""
        for number in range(count):
            lines: list[ImportedLine] = []
            questions: list[Question] = []
            for _ in range(stretches):
                subject, first_seq = self._random.sample(self._rare, SUBJECT_WORDS), len(lines) + 1
                lines += [
                    self._line(self._random.choice((subject, subject, []))) for _ in range(self._random.randint(15, 40))
                ]
                evidence = frozenset(range(first_seq, len(lines) + 1))
                questions.append(Question(self._question(self._random.sample(subject, 3)), evidence))
            yield make_sample(f"meeting {number}", lines, questions)

    def _line(self, subject: Sequence[str]) -> ImportedLine:
        words = self._language.message().split()[: self._random.choice((3, 6, 10, 14, 40))]
        subject_words = self._random.sample(subject, self._random.randint(1, 3)) if subject else []
        return ImportedLine(self._random.choice(SPEAKERS), " ".join((*words, *subject_words)))

    def _question(self, telling: Sequence[str]) -> str:
        common = self._random.choices(self._language.words[:200], k=4)
        return f"What was said about {' '.join((*telling, *common))}?"


def make_sample(name: str, lines: Sequence[ImportedLine], questions: Sequence[Question]) -> SampleConversation:
    """A conversation that is known by what is said in it."""
    parts = (part for line in lines for part in (line.author, line.text))
    return SampleConversation(
        ImportedThread(f"bench:{fingerprint(name, *parts)}", name, tuple(lines)), tuple(questions)
    )

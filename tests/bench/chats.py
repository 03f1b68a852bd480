"""Made-up chats of months and threads with an assistant, with questions about facts told long ago.

The same for the same number: a writer draws from its own seeded random source. What a fact is asked by, other
messages share words with: the same matter told of somebody else, and mentions that do not tell it."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from openvibe.chat.importing.values import ImportedLine
from openvibe.engines.llm.tokens import count_tokens
from tests.bench.advice_texts import (
    ADVICE_FACTS,
    ADVICE_SLOTS,
    ENDINGS,
    FRAMES,
    ITEMS,
    LEADS,
    LIST_LEADS,
    QUESTION_FRAMES,
    REQUESTS,
    SUBJECTS,
    Subject,
)
from tests.bench.chat_texts import CLOSERS, FACTS, OPENERS, REACTIONS, SLOTS, SMALL_TALK, Fact
from tests.bench.conversations import Question, SampleConversation, make_sample
from tests.bench.corpus import FIRST_MESSAGE_AT, SEED

SPEAKERS = ("Mara", "Jonas", "Priya", "Emil", "Noor", "Sven", "Chiara", "Tom", "Yusuf", "Greta")
ASSISTANT = "Assistant"
LONG_MESSAGE_TOKENS = 460  # tokens of an assistant's message
MESSAGES_PER_FACT = 15  # of a short chat; the rest is talk, rivals and mentions
RIVALS = 3  # of each fact that an assistant tells
MAX_TRIES = 20


@dataclass(frozen=True)
class ToldFact:
    """A fact with its blanks filled: who tells it, in which sentence, and how it is asked for."""

    speaker: str
    statement: str
    question: str
    fact: Fact


class ChatWriter:
    """Writes one conversation. `number` tells conversations of the same shape apart."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(SEED + number)
        self._number = number
        self._at = FIRST_MESSAGE_AT + timedelta(days=number)
        self._left_in_session = 0

    def short_chat(self, messages: int) -> SampleConversation:
        """Several people over months, in a few words each; one message in fifteen tells what nobody tells again."""
        speakers = self._random.sample(SPEAKERS, self._random.randint(3, 5))
        facts = self._random.sample(FACTS, min(messages // MESSAGES_PER_FACT, 60))
        told_facts = [
            self._tell(fact, self._random.choice(speakers), SLOTS, n % 2 == 1) for n, fact in enumerate(facts)
        ]
        noise = [line for each in told_facts for line in self._noise(each, speakers)]
        positions = self._random.sample(range(messages), len(told_facts) + len(noise))
        by_position: dict[int, ToldFact | tuple[str, str]] = dict(zip(positions, [*told_facts, *noise], strict=True))
        lines: list[ImportedLine] = []
        questions: list[Question] = []
        for position in range(messages):
            entry, at = by_position.get(position), self._next_time(talk=True)
            if isinstance(entry, ToldFact):
                lines.append(ImportedLine(entry.speaker, self._chatty(entry.statement), at))
                questions.append(Question(entry.question, frozenset((position + 1,))))
            else:
                speaker, text = entry or (self._random.choice(speakers), self._small_talk())
                lines.append(ImportedLine(speaker, text, at))
        return make_sample(f"chat {self._number}", lines, questions)

    def assistant_thread(self, messages: int) -> SampleConversation:
        """People who ask and an assistant who answers in prose and lists; three of four facts are in its answers."""
        speakers = self._random.sample(SPEAKERS, self._random.randint(1, 3))
        answers = messages // 2
        subjects = self._subject_sequence(answers)
        own = self._facts_told_by_assistant(subjects)
        theirs = self._facts_told_by_people(speakers, answers)
        lines: list[ImportedLine] = []
        questions: list[Question] = []
        for turn, subject in enumerate(subjects):
            told_fact = theirs.get(turn)
            speaker = told_fact.speaker if told_fact else self._random.choice(speakers)
            lines.append(ImportedLine(speaker, self._request(subject, told_fact), self._next_time()))
            sentences = [each.statement for each in own.get(turn, ())]
            lines.append(ImportedLine(ASSISTANT, self._long_answer(subject, sentences), self._next_time(), True))
            facts = ((len(lines) - 1, told_fact), *((len(lines), each) for each in own.get(turn, ())))
            questions += [
                Question(each.question, frozenset((seq,)), each.statement)
                for seq, each in facts
                if each and each.question
            ]
        return make_sample(f"assistant {self._number}", lines, questions)

    def _facts_told_by_assistant(self, subjects: Sequence[Subject]) -> dict[int, list[ToldFact]]:
        """Facts by turn: each fact on a subject in one answer on it, and the same of other things in others."""
        turns: dict[str, list[int]] = {}
        for turn, subject in enumerate(subjects):
            turns.setdefault(subject.name, []).append(turn)
        by_turn: dict[int, list[ToldFact]] = {}
        for name, subject_turns in turns.items():
            for number, fact in enumerate(ADVICE_FACTS.get(name, ())):
                told_fact = self._tell(fact, ASSISTANT, ADVICE_SLOTS, number % 3 > 0)
                framed = self._random.choice(QUESTION_FRAMES).format(subject=name, question=told_fact.question)
                told_fact = replace(told_fact, question=framed)
                by_turn.setdefault(self._random.choice(subject_turns), []).append(told_fact)
                rivals = [self._rival(told_fact, (ASSISTANT,), ADVICE_SLOTS) for _ in range(RIVALS)]
                for silent in (ToldFact(ASSISTANT, rival[1], "", fact) for rival in rivals if rival):
                    by_turn.setdefault(self._random.choice(subject_turns), []).append(silent)
        return by_turn

    def _facts_told_by_people(self, speakers: Sequence[str], turns: int) -> dict[int, ToldFact]:
        """Facts by turn: one in six of what people ask tells something of themselves."""
        chosen = self._random.sample(range(turns), max(turns // 6, 1))
        facts = self._random.sample(FACTS, len(FACTS))
        told_facts = [
            self._tell(fact, self._random.choice(speakers), SLOTS, number % 2 == 1) for number, fact in enumerate(facts)
        ]
        return {
            turn: replace(each, statement=f"{each.statement}.") for turn, each in zip(chosen, told_facts, strict=False)
        }

    def _tell(self, fact: Fact, speaker: str, slots: Mapping[str, Sequence[str]], paraphrased: bool) -> ToldFact:
        values = self._draw(slots) | {"me": speaker}
        question = fact.paraphrase if paraphrased else fact.question
        return ToldFact(speaker, fact.statement.format_map(values), question.format_map(values), fact)

    def _noise(self, told_fact: ToldFact, speakers: Sequence[str]) -> list[tuple[str, str]]:
        """One or two rivals of a fact and as many mentions, each with who says it."""
        noise: list[tuple[str, str]] = []
        for _ in range(self._random.randint(1, 2)):
            if rival := self._rival(told_fact, speakers, SLOTS):
                noise.append((rival[0], self._chatty(rival[1])))
            noise.append((self._random.choice(speakers), self._fill(told_fact.fact.mention)))
        return noise

    def _rival(
        self, told_fact: ToldFact, speakers: Sequence[str], slots: Mapping[str, Sequence[str]]
    ) -> tuple[str, str] | None:
        """The same matter told of another person or thing: an answer to another question than this."""
        for _ in range(MAX_TRIES):
            speaker = self._random.choice(speakers)
            values = self._draw(slots) | {"me": speaker}
            questions = (told_fact.fact.question.format_map(values), told_fact.fact.paraphrase.format_map(values))
            statement = told_fact.fact.statement.format_map(values)
            if not told_fact.question.endswith(questions) and statement != told_fact.statement:
                return speaker, statement
        return None

    def _draw(self, slots: Mapping[str, Sequence[str]]) -> dict[str, str]:
        return {name: self._random.choice(values) for name, values in slots.items()}

    def _fill(self, text: str) -> str:
        return text.format_map(self._draw(SLOTS))

    def _chatty(self, statement: str) -> str:
        return self._random.choice(OPENERS) + statement + self._random.choice(CLOSERS)

    def _small_talk(self) -> str:
        if self._random.random() < 0.25:
            return self._random.choice(REACTIONS)
        return self._fill(self._random.choice(SMALL_TALK))

    def _request(self, subject: Subject, told_fact: ToldFact | None) -> str:
        """A few sentences, what is told among them."""
        sentences = [self._on(subject, self._random.choice(REQUESTS))]
        sentences += [f"{self._fill(self._random.choice(SMALL_TALK))}." for _ in range(self._random.randint(0, 3))]
        if told_fact:
            sentences.insert(self._random.randint(0, len(sentences)), told_fact.statement)
        return " ".join(sentences)

    def _long_answer(self, subject: Subject, sentences: Sequence[str]) -> str:
        """An answer of about 460 tokens: a lead, paragraphs and lists in turn, an ending, with these sentences among
        them."""
        parts = [self._on(subject, self._random.choice(LEADS))]
        while count_tokens("\n\n".join(parts)) < LONG_MESSAGE_TOKENS - 60:
            parts.append(self._list(subject) if len(parts) % 3 == 2 else self._paragraph(subject))
        for sentence in sentences:
            place = self._random.randrange(1, len(parts))
            is_list = "\n" in parts[place]
            parts[place] += f"\n- {sentence}" if is_list else f" {sentence} {self._on(subject, self._frame())}"
        return "\n\n".join((*parts, self._random.choice(ENDINGS)))

    def _paragraph(self, subject: Subject) -> str:
        return " ".join(self._on(subject, self._frame()) for _ in range(self._random.randint(2, 4)))

    def _list(self, subject: Subject) -> str:
        items = [f"- {self._on(subject, self._random.choice(ITEMS))}" for _ in range(self._random.randint(3, 5))]
        return "\n".join((self._random.choice(LIST_LEADS), *items))

    def _frame(self) -> str:
        return self._random.choice(FRAMES)

    def _on(self, subject: Subject, text: str) -> str:
        thing, action = self._random.choice(subject.things), self._random.choice(subject.actions)
        filled = text.format(
            subject=subject.name,
            thing=thing,
            Thing=thing.capitalize(),
            action=action,
            Action=action.capitalize(),
            reason=self._random.choice(subject.reasons),
        )
        return filled[0].upper() + filled[1:]

    def _subject_sequence(self, turns: int) -> list[Subject]:
        """The subjects of turns: people stay with a subject for two to six turns, and come back to it later."""
        sequence: list[Subject] = []
        while len(sequence) < turns:
            sequence += [self._random.choice(SUBJECTS)] * self._random.randint(2, 6)
        return sequence[:turns]

    def _next_time(self, *, talk: bool = False) -> datetime:
        """Some seconds to minutes later; when the session ends, hours to days."""
        if not self._left_in_session:
            self._left_in_session = self._random.randint(5, 40) if talk else 2 * self._random.randint(1, 6)
            self._at += timedelta(hours=self._random.choice((3, 8, 14, 22, 30, 52, 90)), minutes=self._at.minute % 37)
        self._left_in_session -= 1
        self._at += timedelta(seconds=self._random.randint(10, 400))
        return self._at

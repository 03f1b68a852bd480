"""Made-up conversations whose questions need more than words: when something was said, all of what was said, what else
was said of somebody, who said it, and what a person asked for once and for all.

Each kind has two halves of texts, "tune" and "held out": what a weight is chosen on says nothing about what it is
worth elsewhere. Conversations of even numbers are of the first half, those of odd numbers of the second."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from openvibe.chat.importing.values import ImportedLine
from tests.bench.chat_texts import FACTS, SLOTS, SMALL_TALK, read_facts, read_texts
from tests.bench.chats import ASSISTANT, SPEAKERS, ChatWriter
from tests.bench.conversations import Question, SampleConversation, make_sample

HALVES: Final = ("tune", "held out")
TOLD_AFTER_DAYS: Final = (0, 0, 0, 0, 1, 2, 5, 9)
"""Days between an event and the message that tells of it."""

MIN_APART_DAYS: Final = 35
"""Days between two events of one kind of one person: "in March" means one of them."""

VAGUE_QUESTION: Final = "What news did {me} have {when}?"
"""Says nothing but who and when."""

_NAMES = """Aldous Berit Caspian Delphine Edvard Fenna Gideon Hedda Ilario Jorun Katinka Leopold Marit Nestor Odile
Pascoe Quirin Ragna Severin Thekla"""
NAMES: Final = tuple(_NAMES.split())
DATED, SERIES, LINKS = (read_facts(f"{name}.txt") for name in ("dated_facts", "series", "links"))
STANDING, NOT_STANDING = read_texts("standing.txt"), read_texts("not_standing.txt")[""]

Message = tuple[datetime, str, str, int]
"""Time, author and text of a message, and the number of what it tells; 0 for talk."""


class SignalWriter(ChatWriter):
    """Writes one conversation of a kind. The same number, the same conversation."""

    @property
    def half(self) -> str:
        return HALVES[self._number % 2]

    def dated_chat(self, messages: int) -> SampleConversation:
        """A chat in which the same kinds of things happen to the same people again and again; a date tells them
        apart. Dates are said in full, by month, by weekday, and from the day on which it is asked."""
        talk, speakers = self._talk(messages, spread=6), self._random.sample(SPEAKERS, 5)
        days = (talk[-1][0] - talk[0][0]).days
        told: list[Message] = []
        asked: list[tuple[str, int, datetime]] = []
        for fact in DATED[self.half]:
            for speaker in speakers:
                day = self._random.randint(1, MIN_APART_DAYS)
                while day < days - 12:
                    event = talk[0][0] + timedelta(days=day)
                    delay = self._random.choice(TOLD_AFTER_DAYS)
                    said = event + timedelta(days=delay, minutes=len(told))
                    text = self._chatty(self._fill(fact.statement))
                    told.append((said, speaker, text, len(told) + 1))
                    when, asked_at = self._date_phrase(event, talk[-1][0], delay)
                    question = self._random.choice((fact.question, fact.question, VAGUE_QUESTION))
                    asked.append((question.format(me=speaker, when=when), len(told), asked_at))
                    day += MIN_APART_DAYS + self._random.randint(0, 40)
        lines, seqs = self._merge(talk, told)
        chosen = self._random.sample(asked, min(len(asked), 40))
        questions = [Question(text, frozenset((seqs[number],)), asked_at=at) for text, number, at in chosen]
        return make_sample(f"dated {self._number}", lines, questions)

    def _date_phrase(self, event: datetime, end: datetime, delay: int) -> tuple[str, datetime]:
        """A turn of phrase for the day of an event, and when it is asked: at the end, or soon after it was told for
        what counts from then."""
        part = "early" if event.day < 11 else "late" if event.day > 20 else "mid"
        absolute = [f"on {event.day} {event:%B %Y}", f"on {event:%Y-%m-%d}", f"in {event:%B %Y}"]
        if (end - event).days < 300:
            absolute += [
                f"on {event:%B} {event.day}",
                f"in {event:%B}",
                f"around {event:%b} {event.day}",
                f"in {part} {event:%B}",
            ]
        relative = (
            (1, "yesterday"),
            (3, "three days ago"),
            (self._random.randint(2, 6), f"last {event:%A}"),
            (7, "a week ago"),
            (14, "two weeks ago"),
            (30, "a month ago"),
        )
        if self._random.random() < 0.6:
            return self._random.choice(absolute), end + timedelta(days=1)
        back, phrase = self._random.choice([each for each in relative if each[0] > delay])
        return phrase, event + timedelta(days=back)

    def series_chat(self, messages: int) -> SampleConversation:
        """A chat in which people do one kind of thing several times over months: a question asks for all of them."""
        talk, speakers = self._talk(messages), self._random.sample(SPEAKERS, 4)
        span = talk[-1][0] - talk[0][0]
        told: list[Message] = []
        asked: list[tuple[str, set[int]]] = []
        for fact in SERIES[self.half]:
            for speaker in speakers:
                numbers: set[int] = set()
                for _ in range(self._random.randint(4, 8)):
                    at = talk[0][0] + span * self._random.random()
                    statement = self._fill(self._random.choice(fact.statement.split("; ")))
                    told.append((at, speaker, self._chatty(statement), len(told) + 1))
                    numbers.add(len(told))
                text = self._random.choice((fact.question, fact.paraphrase)).format(me=speaker)
                asked.append((text, numbers))
        lines, seqs = self._merge(talk, told)
        questions = [Question(text, frozenset(seqs[number] for number in numbers)) for text, numbers in asked]
        return make_sample(f"series {self._number}", lines, questions)

    def linked_chat(self, messages: int) -> SampleConversation:
        """A chat in which what is asked for is told of a name, and who that is in another message long before."""
        talk, speakers = self._talk(messages), self._random.sample(SPEAKERS, 5)
        span = talk[-1][0] - talk[0][0]
        names = self._random.sample(NAMES, len(NAMES))
        told: list[Message] = []
        asked: list[tuple[str, tuple[int, int]]] = []
        for fact in LINKS[self.half]:
            for speaker in speakers:
                values = self._draw(SLOTS) | {"me": speaker, "name": names[len(asked) % len(names)]}
                first = talk[0][0] + span * self._random.uniform(0.0, 0.4)
                second = talk[0][0] + span * self._random.uniform(0.5, 1.0)
                told.append((first, speaker, self._chatty(fact.statement.format_map(values)), len(told) + 1))
                other = self._random.choice(speakers)
                told.append((second, other, self._chatty(fact.question.format_map(values)), len(told) + 1))
                asked.append((fact.paraphrase.format_map(values), (len(told) - 1, len(told))))
        lines, seqs = self._merge(talk, told)
        questions = [Question(text, frozenset(seqs[number] for number in pair)) for text, pair in asked]
        return make_sample(f"links {self._number}", lines, questions)

    def standing_thread(self, messages: int) -> SampleConversation:
        """A person and an assistant. In the first third the person asks a few things once and for all, among
        sentences that look like it; each of the questions afterwards is a request to which they apply."""
        speaker = self._random.choice(SPEAKERS)
        answers = messages // 2
        early = self._random.sample(range(answers // 3), len(STANDING[self.half]))
        standing = {
            turn: text.format_map(self._draw(SLOTS) | {"name": self._random.choice(NAMES)})
            for turn, text in zip(early, STANDING[self.half], strict=True)
        }
        lines: list[ImportedLine] = []
        questions: list[Question] = []
        for turn, subject in enumerate(self._subject_sequence(answers)):
            request = [self._request(subject, None)]
            if turn in standing:
                request.append(standing[turn])
            elif self._random.random() < 0.3:
                request.append(self._fill(self._random.choice(NOT_STANDING)))
            self._random.shuffle(request)
            lines.append(ImportedLine(speaker, " ".join(request), self._next_time()))
            lines.append(ImportedLine(ASSISTANT, self._long_answer(subject, ()), self._next_time(), True))
            if turn in standing:
                asked = self._request(self._subject_sequence(1)[0], None)
                questions.append(Question(asked, frozenset((len(lines) - 1,)), standing[turn]))
        return make_sample(f"standing {self._number}", lines, questions)

    def echoing_thread(self, messages: int) -> SampleConversation:
        """People and an assistant, who comes back to what people told without saying it again; half of the questions
        are about what people said, half about what the assistant did."""
        plain = ChatWriter(self._number + 50).assistant_thread(messages)
        lines = list(plain.imported.lines)
        asked_of_people = [
            each for each in plain.asked if all(not lines[seq - 1].is_assistant for seq in each.evidence)
        ]
        asked_of_assistant = [each for each in plain.asked if each not in asked_of_people][: len(asked_of_people)]
        answer_places = [at for at, line in enumerate(lines) if line.is_assistant]
        for question in asked_of_people:
            for place in self._random.sample(answer_places, 3):
                echo = self._random.choice(ECHOES).format(matter=question.text.rstrip("?."))
                lines[place] = replace(lines[place], text=f"{echo}\n\n{lines[place].text}")
        return make_sample(f"echoes {self._number}", lines, (*asked_of_people, *asked_of_assistant))

    def _talk(self, messages: int, *, spread: int = 1) -> list[Message]:
        """Talk of a few people over months, with facts that are not asked for; between sessions it rests `spread`
        times as long as usual."""
        speakers = self._random.sample(SPEAKERS, 4)
        talk: list[Message] = []
        for _ in range(messages):
            text = self._fill(self._random.choice((self._random.choice(FACTS).mention, *SMALL_TALK)))
            before = self._at
            at = self._next_time(talk=True)
            if at - before > timedelta(hours=2):
                self._at = at = before + spread * (at - before)
            talk.append((at, self._random.choice(speakers), text, 0))
        return talk

    def _merge(self, talk: list[Message], told: list[Message]) -> tuple[list[ImportedLine], dict[int, int]]:
        """The lines in the order of time, and the place (seq) of each that tells something by its number."""
        merged = sorted((*talk, *told), key=lambda each: each[0])
        seqs = {number: seq for seq, (*_, number) in enumerate(merged, 1) if number}
        return [ImportedLine(speaker, text, at) for at, speaker, text, _ in merged], seqs


ECHOES: Final = (
    "As for your question from before ({matter}), I keep it in mind.",
    "You told me about it earlier: {matter}. That fits here.",
    "Before I answer: {matter} is something that we had already.",
    "I noted what you said on this: {matter}.",
)

SIGNAL_WRITERS: dict[str, Callable[[SignalWriter, int], SampleConversation]] = {
    "dated questions": SignalWriter.dated_chat,
    "lists": SignalWriter.series_chat,
    "links": SignalWriter.linked_chat,
    "standing instructions": SignalWriter.standing_thread,
    "echoes": SignalWriter.echoing_thread,
}
SIZES: Final = {"dated questions": 1_500, "lists": 900, "links": 900, "standing instructions": 240, "echoes": 400}
CONVERSATIONS: Final = 4


def signal_conversations(kind: str, *, quick: bool) -> Iterator[SampleConversation]:
    """Conversations of one of SIGNAL_WRITERS, as many of each half."""
    for number in range(2 if quick else CONVERSATIONS):
        yield SIGNAL_WRITERS[kind](SignalWriter(number), SIZES[kind])

"""`bench languages`: questions in German, French and Spanish whose answers stand in English knowledge entries; and
questions in eight languages whose answers are a message and an entry of the same language, each with texts about as
much in all of the others beside it. With each embedder that needs no network."""

import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from knowledge.models import Entry
from knowledge.search import find_entries
from openvibe.chat.models import Thread
from openvibe.chat.search.thread import find_messages
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.search.embedder_choice import use_embedder
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import advance_spaces
from openvibe.engines.search.spaces import LOCAL_EMBEDDERS, embed_texts, serving_space
from tests.bench.advice_texts import ADVICE_FACTS, ADVICE_SLOTS
from tests.bench.chat_texts import FACTS, SLOTS
from tests.bench.corpus import BenchWorkspace, embed_all, make_bench_workspace
from tests.bench.measurement import Aim, Measurement, Report
from tests.factories import make_entry, make_thread, say

LANGUAGES = {"en": "English, in other words", "de": "German", "fr": "French", "es": "Spanish"}
MAX_MISSED = 25.0
"""Percent of the questions in another language whose entry may be missing among the first three."""


MAX_OWN_MISSED = 10.0
"""Percent of the questions in a text's own language whose message may be missing among the first five, or whose entry
among the first three."""


class OwnText(NamedTuple):
    """A text in a language (its code) that is a message and an entry of this topic, and a question about it."""

    language: str
    topic: str
    content: str
    question: str


class Subject(NamedTuple):
    """An English entry, and a question about it in each language, by its code."""

    topic: str
    content: str
    questions: dict[str, str]


class Place(NamedTuple):
    """The place a question's entry stands among those found: 0 is first, None is nowhere."""

    language: str
    place: int | None


def read_subjects() -> list[Subject]:
    """Those of `texts/entries.txt`: `# topic`, its content, then a question in each language on a line of its own."""
    text = (Path(__file__).parent / "texts" / "entries.txt").read_text(encoding="utf-8")
    blocks = [block.strip().splitlines() for block in text.removeprefix("# ").split("\n# ")]
    return [
        Subject(topic, content, {line[:2]: line[4:] for line in questions}) for topic, content, *questions in blocks
    ]


def read_own_texts() -> tuple[Mapping[str, str], list[OwnText]]:
    """The names of the languages of `texts/own_languages.txt` by their codes, and the texts."""
    names: dict[str, str] = {}
    texts: list[OwnText] = []
    path = Path(__file__).parent / "texts" / "own_languages.txt"
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            code, name = line[2:].split()
            names[code] = name
        else:
            texts.append(OwnText(code, *line.split(" | ")))
    return names, texts


def measure_languages(
    *, kinds: Sequence[str] = tuple(LOCAL_EMBEDDERS), subjects: int | None = None, distractors: int | None = None
) -> Report:
    """How many questions find their entry, by embedder and language, and processor time to embed an entry.

    `subjects` of the entries are asked for; beside them all stand `distractors` others (None: as many as there are).
    """
    rows: list[Measurement] = []
    aims: list[Aim] = []
    for kind in kinds:
        world = make_bench_workspace()
        entries = write_entries(world, distractors)
        serve_with(world, kind)
        places = find_places(world, entries[:subjects])
        for language, name in LANGUAGES.items():
            asked = [place for code, place in places if code == language]
            rows.append(Measurement(f"{kind}: {name}, entry found first", _percent(asked, 1), "%"))
            rows.append(Measurement(f"{kind}: {name}, among the first three", _percent(asked, 3), "%"))
        rows.append(Measurement(f"{kind}: an entry's vector", _milliseconds_per_text(world, entries), "ms"))
        if kind == VectorSpace.Kind.MULTILINGUAL:
            foreign = [place for code, place in places if code != "en"]
            aims.append(Aim(f"{kind}: % of foreign questions missed", 100 - _percent(foreign, 3), MAX_MISSED))
        own_rows, own_aims = _measure_own_languages(world, kind)
        rows += own_rows
        aims += own_aims
    return Report("languages", rows, tuple(aims))


def _measure_own_languages(world: BenchWorkspace, kind: str) -> tuple[list[Measurement], list[Aim]]:
    """How many questions find the message and the entry of their own language."""
    names, texts = read_own_texts()
    thread = _write_own_texts(world, texts)
    embed_all()
    messages: list[Place] = []
    entries: list[Place] = []
    for text in texts:
        bodies = [hit.body for hit in find_messages(world.by, text.question, thread_id=thread.pk, budget=2_000).hits]
        messages.append(Place(text.language, bodies.index(text.content) if text.content in bodies else None))
        contents = [hit.entry.content for hit in find_entries(world.by, text.question).hits]
        entries.append(Place(text.language, contents.index(text.content) if text.content in contents else None))
    rows: list[Measurement] = []
    aims: list[Aim] = []
    for places, what, first in ((messages, "message", 5), (entries, "entry", 3)):
        for code, name in names.items():
            in_language = [place.place for place in places if place.language == code]
            rows.append(
                Measurement(f"{kind}: own {name}, {what} among the first {first}", _percent(in_language, first), "%")
            )
        missed = 100 - _percent([place.place for place in places], first)
        aims.append(Aim(f"{kind}: % of questions in a {what}'s own language missed", missed, MAX_OWN_MISSED))
    return rows, aims


def _write_own_texts(world: BenchWorkspace, texts: Sequence[OwnText]) -> Thread:
    """A thread of them, their languages taking turns as subjects do, and an entry of each."""
    thread = make_thread(world.channel, world.ana, title="Own languages")
    for _, text in sorted(enumerate(texts), key=lambda numbered: numbered[0] % 12):
        say(thread, world.ana, text.content)
        make_entry(world.ana, text.topic, text.content)
    return Thread.objects.get(pk=thread.pk)


def write_entries(world: BenchWorkspace, distractors: int | None = None) -> list[Subject]:
    """The entries that are asked for, and others in plain English beside them."""
    words = {"me": "Ana", **{blank: values[0] for blank, values in (SLOTS | ADVICE_SLOTS).items()}}
    facts = [*FACTS, *chain.from_iterable(ADVICE_FACTS.values())][:distractors]
    others = [fact.statement.format_map(words) for fact in facts]
    subjects = read_subjects()
    texts = [*((subject.topic, subject.content) for subject in subjects), *((other[:60], other) for other in others)]
    me = world.ana.participant
    Entry.objects.bulk_create(
        Entry(
            workspace=world.ana.workspace,
            topic=topic,
            content=content,
            tokens=count_tokens(content),
            author=me,
            owner=me,
        )
        for topic, content in texts
    )
    return subjects


def serve_with(world: BenchWorkspace, kind: str) -> None:
    """Chooses this embedder, and makes all vectors, as the jobs do."""
    use_embedder(workspace=world.ana.workspace, kind=kind, by=None)
    embed_all()
    advance_spaces()


def find_places(world: BenchWorkspace, subjects: Sequence[Subject]) -> list[Place]:
    """The place of each question's entry, in the order of subjects and languages."""
    places = []
    for subject in subjects:
        for language, question in subject.questions.items():
            topics = [hit.entry.topic for hit in find_entries(world.by, question).hits]
            places.append(Place(language, topics.index(subject.topic) if subject.topic in topics else None))
    return places


def _percent(places: Sequence[int | None], first: int) -> float:
    return 100 * sum(place is not None and place < first for place in places) / len(places)


def _milliseconds_per_text(world: BenchWorkspace, subjects: Sequence[Subject]) -> float:
    space = serving_space(world.ana.workspace_id)
    assert space is not None
    texts = [f"{subject.topic}: {subject.content}" for subject in subjects]
    start_time = time.process_time()
    embed_texts(space, texts)
    return 1000 * (time.process_time() - start_time) / len(texts)

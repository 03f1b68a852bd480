"""Questions find what answers them, and nothing where nothing does, however much else is known."""

import random
import re
from collections.abc import Iterator

import numpy as np
import pytest

from knowledge.models import Entry
from knowledge.relevance import bears_on, coverage, touches
from knowledge.search import Subject, embed_pending_entries, find_entries
from knowledge.similarity import find_similar_entries
from openvibe.engines.search.embedder_choice import use_embedder
from openvibe.engines.search.significance import ChanceLevel
from openvibe.workspaces.models import Member
from tests.bench.chat_texts import SLOTS, read_facts
from tests.factories import access, make_entry
from tests.knowledge.search_cases import CASES, NONSENSE, UNRELATED


def remember(by: Member, texts: list[tuple[str, str]]) -> None:
    """Entries with their vectors, past the services."""
    person = by.participant_id
    Entry.objects.bulk_create(
        Entry(workspace=by.workspace, topic=topic, content=content, tokens=20, author_id=person, owner_id=person)
        for topic, content in texts
    )
    embed_pending_entries()


def other_entries(count: int) -> Iterator[tuple[str, str]]:
    """Household matters, in which nothing of the company's is said."""
    chance = random.Random(7)
    facts = [fact for subject in read_facts("facts.txt").values() for fact in subject]
    for _ in range(count):
        fact = chance.choice(facts)
        text = re.sub(r"\{(\w+)\}", lambda blank: chance.choice(SLOTS.get(blank[1], ("Ida", "Olof"))), fact.statement)
        yield " ".join(text.split()[:4]), text


def hit_rates(by: Member) -> tuple[float, float]:
    """The shares of questions whose entry comes first, and among the first ten."""
    ranks = []
    for case in CASES:
        hits = [(hit.entry.topic, hit.entry.content) for hit in find_entries(access(by), case.question, most=10).hits]
        ranks.append(hits.index((case.topic, case.content)) if (case.topic, case.content) in hits else None)
    return ranks.count(0) / len(ranks), 1 - ranks.count(None) / len(ranks)


def silence(by: Member, questions: tuple[str, ...]) -> float:
    """The share of questions that find nothing."""
    return sum(not find_entries(access(by), question).hits for question in questions) / len(questions)


@pytest.mark.django_db
@pytest.mark.parametrize("others", [0, 400])
def test_a_question_finds_its_entry_and_nonsense_finds_nothing_however_much_is_known(ana: Member, others: int) -> None:
    remember(ana, [(case.topic, case.content) for case in CASES] + list(other_entries(others)))
    first, among_ten = hit_rates(ana)
    assert (first >= 0.85, among_ten >= 0.95) == (True, True), (first, among_ten)
    assert silence(ana, NONSENSE) == 1
    assert silence(ana, UNRELATED) >= (0.8 if others else 0.9)
    assert find_similar_entries(access(ana), "Saturn\nIts rings are made of ice and dust, ninety metres thick.") == []


@pytest.mark.django_db
def test_words_alone_find_and_keep_silent_too(ana: Member) -> None:
    use_embedder(workspace=ana.workspace, kind="none", by=access(ana))
    remember(ana, [(case.topic, case.content) for case in CASES])
    assert hit_rates(ana)[1] >= 0.85
    assert silence(ana, NONSENSE) == 1
    assert silence(ana, UNRELATED) >= 0.8


@pytest.mark.django_db
def test_a_short_request_is_read_in_the_light_of_its_thread(ana: Member) -> None:
    remember(ana, [(case.topic, case.content) for case in CASES])
    for name in ("Maple", "Cedar", "Aspen", "Rowan", "Willow", "Hazel"):
        make_entry(
            ana, f"{name} contract: deadline", f"The {name} contract has to be countersigned in week {len(name)}."
        )
    embed_pending_entries()

    def first(question: str, subject: Subject | None) -> str | None:
        hits = find_entries(access(ana), question, subject=subject).hits
        return hits[0].entry.topic if hits else None

    willow = Subject("Contract with Willow", "Willow sent their draft.\nLegal has read it.")
    assert first("and what about the deadline?", willow) == "Willow contract: deadline"
    assert first("and what about the deadline?", Subject("Draft", "Legal likes what Willow sent")) == (
        "Willow contract: deadline"
    )
    assert first("How much is the Starter plan?", willow) == "Starter plan"
    for nothing in NONSENSE:
        assert first(nothing, willow) is None, nothing


def test_coverage_weighs_words_by_how_much_they_tell() -> None:
    hits = np.array([[1, 0, 0], [0, 1, 1], [3, 1, 1], [0, 0, 0]], np.uint8)
    assert coverage(hits, np.array([2, 1, 1], np.float32)).tolist() == [0.5, 0.5, 1, 0]
    assert coverage(np.zeros((2, 0), np.uint8), np.zeros(0, np.float32)).tolist() == [0, 0]
    of_many = coverage(np.eye(9, dtype=np.uint8), np.ones(9, np.float32))
    assert set(of_many.tolist()) == {0.25}


def test_evidence_of_both_kinds_adds_up_and_more_texts_need_more_of_it() -> None:
    chance = ChanceLevel(0.1, 0.1)
    share = np.array([0, 0.25, 0.9, 0.9, 0.2], np.float32)
    similarity = np.array([0.45, 0.38, 0.1, np.nan, np.nan], np.float32)
    assert bears_on(share, similarity, chance, 10).tolist() == [True, True, True, True, False]
    assert bears_on(share, similarity, chance, 100_000).tolist() == [False, False, True, True, False]
    assert bears_on(share, None, None, 10).tolist() == [False, False, True, True, False]
    assert touches(share, similarity, chance).tolist() == [True, True, True, True, True]
    assert touches(np.zeros(2, np.float32), np.array([0.2, 0.4], np.float32), chance).tolist() == [False, True]

"""The built-in rule: pairs written by hand, and what must hold for any text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.contradictions.rules import MAX_EXPLANATION, ComparedText, explain_contradiction
from tests.examples import examples
from tests.knowledge.contradictions import team_pairs
from tests.knowledge.contradictions.sample_pairs import AGREE, CONTRADICT, Text

SUBJECTS = st.sampled_from(["Starter", "the kiosk", "a session", "the Berlin office", "backups", "Option B"])
VERBS = st.sampled_from(["costs", "lasts", "has", "takes", "includes", "is kept for"])
VALUES = st.sampled_from(["$29 a month", "30 days", "5 seats", "20 %", "2026-03-01", "9:30", "on Monday", "v2.1"])
SENTENCES = st.builds(lambda *words: " ".join(words) + ".", SUBJECTS, VERBS, VALUES)
TEXTS = st.one_of(st.text(max_size=200), st.lists(SENTENCES, min_size=1, max_size=4).map("\n".join))
TOPICS = st.sampled_from(["Pricing", "Limits", "Pricing of plans", "价格", ""])
CLAIMS = st.builds(ComparedText, TOPICS, TEXTS)


@pytest.mark.parametrize(("one", "other"), CONTRADICT)
def test_these_contradict_each_other(one: Text, other: Text) -> None:
    assert explain_contradiction(ComparedText(*one), ComparedText(*other))


@pytest.mark.parametrize(("one", "other"), AGREE)
def test_these_only_look_like_it(one: Text, other: Text) -> None:
    assert explain_contradiction(ComparedText(*one), ComparedText(*other)) is None


@pytest.mark.parametrize(("one", "other"), [*CONTRADICT, *AGREE])
def test_the_order_does_not_matter(one: Text, other: Text) -> None:
    forth, back = (
        explain_contradiction(ComparedText(*one), ComparedText(*other)),
        explain_contradiction(ComparedText(*other), ComparedText(*one)),
    )

    assert (forth is None) == (back is None)


def test_of_a_hundred_pairs_of_a_team_it_finds_what_needs_no_model() -> None:
    """Kinds of which it finds all; in all four of five, with a false alarm in fourteen."""

    def flagged(pairs: list[tuple[Text, Text]]) -> list[tuple[Text, Text]]:
        return [pair for pair in pairs if explain_contradiction(*(ComparedText(*text) for text in pair))]

    found = {kind: flagged(pairs) for kind, pairs in team_pairs.CONTRADICT.items()}
    false_alarms = [pair for pairs in team_pairs.ONLY_LOOK_SO.values() for pair in flagged(pairs)]

    for kind in ("shares", "lengths of time", "times of day", "numbers", "negation"):
        assert found[kind] == team_pairs.CONTRADICT[kind]
    assert sum(map(len, found.values())) >= 41
    assert len(false_alarms) <= 3


def test_the_explanation_names_both_in_their_order() -> None:
    why = explain_contradiction(
        ComparedText("Pricing", "Starter costs $29."), ComparedText("Pricing", "Starter costs $19.")
    )

    assert why == "Different amounts: “Starter costs $29” and “Starter costs $19”."


@settings(deadline=None, max_examples=examples(150))
@given(CLAIMS, CLAIMS)
def test_it_is_symmetric_and_its_words_are_bounded(one: ComparedText, other: ComparedText) -> None:
    forth, back = explain_contradiction(one, other), explain_contradiction(other, one)

    assert (forth is None) == (back is None)
    assert forth is None or 0 < len(forth) <= MAX_EXPLANATION


@settings(deadline=None, max_examples=examples(100))
@given(CLAIMS, TOPICS)
def test_equal_texts_never_contradict(one: ComparedText, topic: str) -> None:
    assert explain_contradiction(one, ComparedText(topic, one.content)) is None
    assert explain_contradiction(one, ComparedText(topic, f"  {one.content}\n")) is None


@settings(deadline=None, max_examples=examples(100))
@given(VALUES, VALUES)
def test_what_shares_no_subject_never_contradicts(left: str, right: str) -> None:
    one = ComparedText("Roses", f"Climbing roses are watered {left}.")
    other = ComparedText("Deploys", f"Production freezes happen {right}.")

    assert explain_contradiction(one, other) is None


@pytest.mark.parametrize(
    "text", ["1" * 20_000, "a_" * 10_000, "$1,1" * 5_000, "5 to " * 4_000, ", " * 9_000, "v1." * 6_000, "| 1 " * 5_000]
)
def test_hostile_texts_take_no_time(text: str) -> None:
    began = time.process_time()

    explain_contradiction(ComparedText("Pricing", text), ComparedText("Pricing", text[:-7] + "8 days"))

    assert time.process_time() - began < 1

"""The parts of what a run read that its answer's words come from."""

import time

from agents.prompts.answer_sources import find_sources

READ = [
    "We water the beds every morning.",
    "Notes of March: we prune the apple trees in **late February**, before the buds open, Dora said.",
    "Prices rose in May and the invoices follow in June.",
]


def test_the_longest_shared_words_come_first_in_their_own_writing() -> None:
    [source] = find_sources("In short: We prune the apple trees in late february.", [*READ, READ[1]])
    assert (source.place, source.is_exact, source.words) == (1, True, 8)
    assert source.match == "we prune the apple trees in **late February"
    assert source.before.endswith("Notes of March: ")
    assert find_sources("we water the", READ) == []


def test_an_answer_in_its_own_words_leads_to_what_it_has_most_in_common_with() -> None:
    sources = find_sources("Invoices will follow, since prices rose.", READ)
    assert [(source.place, source.is_exact) for source in sources] == [(2, False)]
    assert find_sources("", READ) == []
    assert find_sources("Yes.", READ) == []


def test_what_the_agent_said_itself_comes_last() -> None:
    answer = "We prune the apple trees in late February, before the buds open, as Dora said."
    said = "As I said: we prune the apple trees in late February, before the buds open, as Dora said."
    sources = find_sources(answer, [said, *READ], own={0})
    assert [(source.place, source.is_exact) for source in sources] == [(2, True), (0, True)]
    reworded = find_sources("Invoices will follow in June, since prices rose.", [said, *READ], own={0})
    assert [source.place for source in reworded] == [3]
    repeated = find_sources(answer, ["The apple trees: we prune when February ends.", said], own={1})
    assert [(source.place, source.is_exact) for source in repeated] == [(0, False), (1, True)]
    assert [source.place for source in find_sources(answer, [said, "Bees."], own={0})] == [0]


def test_long_and_repetitive_texts_take_no_time_to_speak_of() -> None:
    began = time.process_time()
    find_sources("the same words again " * 2_000, ["the same words again " * 5_000] * 3)
    assert time.process_time() - began < 2

"""Names, values, decisions and open questions of a source stand in its summary, or in a line below it. No database."""

from __future__ import annotations

import pytest

from memory.plugins.lcm.facts import find_facts, missing_keys, missing_sentences
from memory.plugins.lcm.source_lines import SummarySource, strip_details
from memory.plugins.lcm.summarizer import complete_summary, summarize
from openvibe.engines.llm.tokens import count_tokens
from tests.engines.llm.scripted_client import ScriptedModel
from tests.memory.plugins.lcm.test_summary_validation import GOOD, SOURCE

FACTS = find_facts(SOURCE.text)


def test_names_and_values_of_a_source_the_most_telling_first() -> None:
    assert FACTS.keys[:3] == ("Okafor", "Lisbon", "4,200")
    assert {"Ana", "Ben", "Vibe", "Carla Meier", "PUMP-381", "14:05", "/var/log/pump.log", "89.50"} <= set(FACTS.keys)
    assert not {"We", "The", "Then", "I"} & set(FACTS.keys)


def test_decisions_and_open_questions_are_sentences() -> None:
    facts = find_facts(
        "1 Ana: We agreed on red tiles. Still open: who lays them.\n"
        "2 Ben: Did they decide? No idea. When does Okafor come?"
    )
    assert facts.decisions == ("We agreed on red tiles.",)
    assert facts.questions == ("Still open: who lays them.", "When does Okafor come?")


@pytest.mark.parametrize(
    ("decision", "language"),
    [
        ("Wir haben beschlossen, dass Okafor kommt.", "German"),
        ("Nous avons décidé de changer la pompe.", "French"),
        ("Se acordó cambiar la bomba.", "Spanish"),
        ("我们决定更换水泵。", "Chinese"),
        ("Мы решили заменить насос.", "Russian"),
    ],
)
def test_decisions_are_found_in_several_languages(decision: str, language: str) -> None:
    assert find_facts(f"1 Ana: {decision}").decisions == (decision,), language


def test_values_are_the_same_however_they_are_grouped_and_names_however_they_are_written() -> None:
    text = "OKAFOR and carla meier: 4.200 €, PostgreSQL 16.3."
    assert missing_keys(text, ["Okafor", "Carla Meier", "4,200", "16.3", "4,201", "Ana", "Oka"]) == ["4,201", "Ana"]
    assert missing_keys("Banana", ["Ana"]) == ["Ana"]
    assert missing_keys("王伟说", ["王伟"]) == []


def test_a_decision_in_other_words_is_there() -> None:
    sentence = "We decided that the pump is changed on Friday because of the leak."
    assert missing_sentences("Decision: change the pump Friday, for the leak.", [sentence]) == []
    assert missing_sentences("They spoke of tiles.", [sentence]) == [sentence]


def test_what_is_missing_is_added_without_asking_again() -> None:
    model = ScriptedModel(["Okafor gets 4,200 € for Lisbon, said Ana to Carla Meier; bed 17 stood still from 14:05."])
    summary = summarize(SOURCE, share=3, limit=500, client=model)
    assert summary is not None
    assert (summary.level, len(model.calls)) == ("normal", 1)
    head, added = summary.content.split("\n", 1)
    assert head.startswith("Okafor gets")
    assert added.startswith("Also said: ")
    assert "Vibe: I checked PostgreSQL 16.3 and the ticket PUMP-381." in added, "a sentence, not a row of names"
    assert "Carla Meier orders the valve from Okafor for 89.50 €." in added
    assert missing_keys(summary.content, FACTS.keys) == []


def test_a_summary_that_misses_nothing_is_kept_as_it_is() -> None:
    text = f"{GOOD} Vibe changed PUMP-381 on PostgreSQL 16.3, see /var/log/pump.log, on Friday."
    summary = summarize(SOURCE, share=3, limit=500, client=ScriptedModel([text]))
    assert summary is not None
    assert strip_details(summary.content) == text


def test_decisions_and_questions_that_are_missing_are_added() -> None:
    facts = find_facts("1 Ana: We agreed on red tiles for the hall. Still open: who lays the ceiling.")
    summary_text = complete_summary("Ana talked about a house.", facts, target=300, max_tokens=450)
    assert summary_text.splitlines()[:3] == [
        "Ana talked about a house.",
        "Also decided: We agreed on red tiles for the hall.",
        "Open questions: Still open: who lays the ceiling.",
    ]


def test_the_added_line_stays_within_the_limit_and_what_cannot_be_added_escalates() -> None:
    names = [f"Mr {first}{second}" for first in ("Kim", "Lee") for second in ("son", "berg", "dal")]
    source = "\n".join(f"1 Ana: Then {name} came with {name}." for name in names)
    facts = find_facts(source)
    text = "Then many came, with Mr Kimson, as Ana told. " * 3
    assert complete_summary(text, facts, target=256, max_tokens=count_tokens(text) + 4) == ""
    summary_text = strip_details(complete_summary(text, facts, target=256, max_tokens=400))
    assert count_tokens(summary_text) <= count_tokens(text) + 64
    assert "Also said: Ana: Then Mr" in summary_text


def test_what_is_cut_from_the_source_names_what_the_rest_was_about() -> None:
    idle = "\n".join(["7 Dora: The weather was fair and the coffee was good."] * 30)
    source = SummarySource(f"{idle}\n{SOURCE.text}", 1_200, 70)
    summary = summarize(source, share=3, limit=200, client=ScriptedModel(["I'm sorry, I can't."]))
    assert summary is not None
    assert summary.level == "fallback"
    assert summary.tokens <= 200
    assert summary.content.count("The weather was fair") <= 1
    assert all(name in summary.content for name in ("Okafor", "Lisbon", "4,200"))

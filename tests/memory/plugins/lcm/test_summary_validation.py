"""Refusals, errors in words, thoughts, nothing visible and too little are no summaries. No database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.plugins.lcm.source_lines import SourceMessage, SourceSummary, message_source, summary_source
from memory.plugins.lcm.summarizer import summarize
from memory.plugins.lcm.summary_validation import SourceCheck, clean_answer, find_problem, word_floor
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import has_visible_character
from tests.engines.llm.scripted_client import ScriptedModel
from tests.examples import examples

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORK = (
    ("Ana", "We decided that the budget for the Lisbon greenhouse is 4,200 €, because Okafor asked for it."),
    ("Ben", "The pump of bed 17 was down from 14:05 on, see /var/log/pump.log. I told Carla Meier."),
    ("Vibe", "I checked PostgreSQL 16.3 and the ticket PUMP-381. The valve has to be changed before Friday."),
    ("Ana", "Then Carla Meier orders the valve from Okafor for 89.50 €."),
)
GOOD = "Ana set 4,200 € for Lisbon with Okafor; Ben saw bed 17 down at 14:05, Carla Meier orders a valve for 89.50 €."

REFUSALS = (
    "I'm sorry, I can't help with that.",
    "I’m sorry, but I can’t summarise the talk of Ana, Ben and Okafor about 4,200 €.",
    "Unfortunately, I am unable to process this request about the Lisbon greenhouse.",
    "I cannot assist with this conversation.",
    "As an AI language model, I don't have opinions about Okafor.",
    "Thank you for sharing. However, I won't be able to write this, since I do not have the messages.",
    "It looks like there is no conversation here. Please paste it.",
    "Es tut mir leid, aber dabei kann ich nicht helfen.",
    "Leider kann ich dieses Gespräch nicht zusammenfassen.",
    "Je suis désolé, mais je ne peux pas résumer cette conversation.",
    "Lo siento, pero no puedo ayudar con eso.",
    "Mi dispiace, ma non posso aiutarti.",
    "Desculpe, mas não posso ajudar com isso.",
    "Het spijt me, maar daar kan ik niet bij helpen.",
    "Tyvärr kan jag inte hjälpa till med det.",
    "Przykro mi, ale nie mogę w tym pomóc.",
    "К сожалению, я не могу помочь с этим.",
    "Üzgünüm, bu konuda yardımcı olamam.",
    "抱歉，我无法提供帮助。",
    "申し訳ありませんが、そのご依頼にはお応えできません。",
    "죄송하지만 도와드릴 수 없습니다.",
    "عذرًا، لا أستطيع المساعدة في ذلك.",
    "क्षमा करें, मैं इसमें मदद नहीं कर सकता।",
    "Xin lỗi, tôi không thể giúp việc này.",
)
ERRORS = (
    "Error: 500 Internal Server Error",
    "error: the request could not be completed",
    "HTTP 502 Bad Gateway",
    "503 Service Unavailable",
    "Internal server error",
    "Rate limit exceeded, try again in 20 s.",
    '{"error": {"message": "overloaded", "type": "server_error"}}',
    "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>",
    "Fehler: Die Anfrage ist fehlgeschlagen.",
    "null",
)
INVISIBLE = (
    "\u200b\u200c",
    "\u200e\u200f\u202a\u202c",
    " \u00a0\u3000\n\t",
    "\ufeff",
    "\u2060\u00ad\u180e",
    "\u3164\u2800",
)
THOUGHTS = (
    "<think>The user wants a summary of Ana and Okafor.</think>",
    "<think>Ana, Ben, 4,200 €, Lisbon, Okafor, bed 17, 14:05, Carla Meier",
    "<THINKING>Hm.</THINKING>\u200b",
    "Ana said something. <think>Or did Okafor",
)
TOO_LITTLE = ("They spoke.", "All is well.", "The talk was long and friendly, and everybody was content.", "好的。")
NO_SUMMARIES = (*REFUSALS, *ERRORS, *INVISIBLE, *THOUGHTS, *TOO_LITTLE)


def talk(rounds: int = 10) -> list[SourceMessage]:
    return [
        SourceMessage(
            NOON + timedelta(minutes=at), "user", WORK[at % 4][0], WORK[at % 4][1], count_tokens(WORK[at % 4][1])
        )
        for at in range(4 * rounds)
    ]


SOURCE = message_source(talk(), chunk_tokens=20_000)


@pytest.mark.parametrize("answer", NO_SUMMARIES)
def test_what_is_no_summary_escalates_from_normal_to_durable_facts_to_the_cut(answer: str) -> None:
    model = ScriptedModel([answer])
    summary = summarize(SOURCE, share=3, limit=500, client=model)
    levels = [call.messages[-1].content.partition('level="')[2].partition('"')[0] for call in model.calls]
    assert levels == ["normal", "aggressive"]
    assert summary is not None
    assert (summary.level, summary.model) == ("fallback", "none")
    assert "We decided that the budget" in summary.content


@pytest.mark.parametrize("answer", [REFUSALS[0], ERRORS[0], INVISIBLE[0], THOUGHTS[1], TOO_LITTLE[0]])
def test_the_second_answer_may_still_be_one(answer: str) -> None:
    summary = summarize(SOURCE, share=3, limit=500, client=ScriptedModel([answer, GOOD]))
    assert summary is not None
    assert summary.level == "aggressive"
    assert summary.content.startswith(GOOD)


@pytest.mark.parametrize(
    "answer",
    [
        f"<think>Let me see.\nAna…</think>\n\n{GOOD}",
        f"Some servers leave out where thoughts begin.</think>{GOOD}",
        f"<Reasoning effort=1>No.</Reasoning>{GOOD}<think>Done.</think>",
        f"\u200b\ufeff {GOOD}\u200e\n",
    ],
)
def test_thoughts_and_invisible_signs_around_a_summary_are_stripped(answer: str) -> None:
    model = ScriptedModel([answer])
    summary = summarize(SOURCE, share=3, limit=500, client=model)
    assert summary is not None
    assert summary.level == "normal"
    assert summary.content.startswith(GOOD)
    assert not any(
        word in summary.content for word in ("think", "Reasoning", "Let me", "leave out", "\u200b", "\u200e")
    )
    assert len(model.calls) == 1


@pytest.mark.parametrize(
    "answer",
    [
        "Unfortunately, Okafor can't come to Lisbon; Ana keeps the 4,200 € and Carla Meier pays 89.50 € for bed 17.",
        "Sorry was said by Ben for bed 17 at 14:05; Ana decided 4,200 € for Okafor in Lisbon.",
        "Error: 17 was not the cause, said Ben of bed 17. PUMP-381 of 14:05 is: Ana, Okafor, Lisbon, 4,200 €, 89.50 €.",
        "Ben could not help Ana at bed 17, so Okafor and Carla Meier get 4,200 € and 89.50 € in Lisbon, PUMP-381.",
    ],
)
def test_a_summary_of_refusals_and_errors_that_were_spoken_of_is_one(answer: str) -> None:
    summary = summarize(SOURCE, share=3, limit=500, client=ScriptedModel([answer]))
    assert summary is not None
    assert summary.level == "normal"
    assert summary.content.startswith(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "Ana und Okafor haben 4.200 € für Lisbon vereinbart; Beet 17 stand ab 14:05, Carla Meier zahlt 89,50 €.",
        "Ana a accordé 4 200 € à Okafor pour Lisbon ; Carla Meier commande une vanne à 89,50 € (PUMP-381, 14:05).",
        "阿娜（Ana）给 Okafor 的 Lisbon 预算是 4,200 €，Carla Meier 订购 89.50 € 的阀门，PUMP-381，14:05。",
    ],
)
def test_a_summary_in_another_language_is_kept_when_names_and_numbers_are_there(answer: str) -> None:
    model = ScriptedModel([answer])
    summary = summarize(SOURCE, share=3, limit=500, client=model)
    assert summary is not None
    assert (summary.level, len(model.calls)) == ("normal", 1)
    assert summary.content.startswith(answer)


def test_twelve_tokens_for_380_messages_are_too_few_unless_there_was_nothing_to_say() -> None:
    short = "Ana, Ben and Vibe talked about the garden."
    source = message_source(talk(95), chunk_tokens=20_000)
    assert find_problem(short, SourceCheck(source))
    idle = message_source([said("ok then, see you")] * 380, chunk_tokens=20_000)
    assert find_problem("Everybody said see you.", SourceCheck(idle)) == ""


def test_the_floor_grows_with_the_number_of_messages() -> None:
    assert [word_floor(messages) for messages in (1, 10, 40, 380, 100_000)] == [6, 7, 11, 53, 64]


def said(text: str) -> SourceMessage:
    return SourceMessage(NOON, "user", "Ana", text, count_tokens(text))


def test_what_a_condensed_summary_stands_for_counts_in_messages() -> None:
    below = [SourceSummary(NOON, NOON, 1, 190, GOOD, 40), SourceSummary(NOON, NOON, 191, 380, GOOD, 40)]
    assert summary_source(below).messages == 380
    assert message_source(talk(), chunk_tokens=9_000).messages == 40


@pytest.mark.parametrize(
    "lines",
    [
        ["玫瑰在三月修剪。霜冻之后再修剪。"] * 20,
        ["وافقت على ميزانية الحديقة"] * 20,
        ["prune the roses before the buds open, and burn what was ill"] * 20,
    ],
)
def test_a_source_without_names_is_known_by_its_words_in_any_script(lines: Sequence[str]) -> None:
    source = message_source([said(line) for line in lines], chunk_tokens=9_000)
    assert find_problem(lines[0], SourceCheck(source)) == ""
    assert find_problem("Everything went very well today indeed.", SourceCheck(source))


ODD = st.text(alphabet="ab <>/think\u200b\u202e\u0301é漢👩‍👧.\n", max_size=200)


@settings(deadline=None, max_examples=examples(300))
@given(ODD)
def test_cleaning_leaves_no_thoughts_and_cleans_once(text: str) -> None:
    cleaned = clean_answer(text)
    assert clean_answer(cleaned) == cleaned
    assert "<think>" not in cleaned
    assert "</think>" not in cleaned


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(ODD, min_size=1, max_size=8), ODD)
def test_any_text_and_any_source_can_be_judged(texts: list[str], answer: str) -> None:
    source = message_source([said(text) for text in texts], chunk_tokens=3_000)
    text = clean_answer(answer)
    problem = find_problem(text, SourceCheck(source))
    assert problem == problem.strip(), "half a sentence, or nothing"
    assert problem or has_visible_character(text), "what shows no word is no summary"

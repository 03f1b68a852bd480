"""Standing instructions in messages: what asks for something once and for all, and what only sounds like it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.text.preferences import MAX_PREFERENCES, are_contradictory, find_preferences


@pytest.mark.parametrize(
    "text",
    [
        "Always give me amounts in grams, never in cups.",
        "Never suggest anything with walnuts.",
        "please always answer in German",
        "From now on, keep your answers under five sentences.",
        "From now on use the metric system",
        "Going forward, please end with one question for me.",
        "In future, tell me the price in euros first.",
        "Please stick to short words from here on.",
        "I want you to address me as Thekla at all times.",
        "I prefer examples from Ghent when you explain something.",
        "I'd rather get one clear suggestion than a list of options.",
        "I like it better when you say what could go wrong first.",
        "I don't want you to apologise",
        "Remember that I only have time on Tuesdays.",
        "Keep in mind that my mother reads this too",
        "Make sure to always mention the source of a number.",
        "Whenever you name a temperature, write it in Celsius.",
        "For everything you write me, use British spelling.",
        "Please don't use bullet points when you answer me.",
        "Don't ever recommend shops outside Aarhus to me.",
        "Could you always add the date?",
        "Keep your answers short.",
        "Call me Ishmael.",
        "Bitte immer auf Deutsch antworten.",
        "Ab jetzt antworte mir auf Deutsch.",
        "Künftig bitte ohne Emojis.",
        "Schreib Preise immer in Euro.",
        "Ich bevorzuge kurze Antworten.",
        "Mir sind Listen lieber als Fließtext.",
        "Denk daran, dass ich Vegetarier bin.",
        "Nenn mich Toni.",
        "À partir de maintenant, réponds en français.",
        "Je préfère les listes courtes.",
        "Réponds toujours en français.",
        "N'oublie pas que je suis végétarien",
        "A partir de ahora responde en español.",
        "Prefiero respuestas cortas.",
        "Siempre dame los precios en euros.",
        "D'ora in poi rispondi in italiano.",
        "Preferisco risposte brevi.",
        "A partir de agora, responda em português.",
        "Prefiro respostas curtas.",
        "Voortaan graag in het Nederlands.",
        "Ik heb korte antwoorden liever.",
        "Отныне отвечай по-русски.",
        "Я предпочитаю короткие ответы.",
        "これからは日本語で答えてください。",
        "短い答えの方が好きです。",
        "以后请用中文回答。",
        "我更喜欢简短的回答。",
        "앞으로는 한국어로 답해 주세요.",
    ],
)
def test_a_standing_instruction_is_found_word_for_word(text: str) -> None:
    assert find_preferences(f"@vibe {text} ") == (text,)


@pytest.mark.parametrize(
    "text",
    [
        "I always forget where I put the ladder.",
        "My sister never answers the phone.",
        "She prefers oat milk, I heard.",
        "From now on it gets dark early.",
        "I always wanted to see Peru.",
        "Henning said I should never trust a bus driver.",
        "Do you always sleep so little?",
        "I would rather be in Porto right now.",
        "My parrot prefers the kitchen.",
        "Never mind.",
        "Never again!",
        "Always a pleasure.",
        "Never heard of it",
        "Always wanted one.",
        "Call me back tomorrow.",
        "In the future cars will fly.",
        "Remember the Alamo?",
        "Remember when we met?",
        "I prefer not to say.",
        "Why do you never answer in German?",
        "Ich vergesse das immer.",
        "Ab jetzt wird es früh dunkel.",
        "Er kommt nie pünktlich.",
        "Elle préfère le thé.",
        "Désormais il fait nuit tôt.",
        "> Always give me grams.",
        "`always use tabs`",
        "```\nnever do this\n```",
        "What should I always have in the car?",
        "",
    ],
)
def test_what_turns_to_nobody_is_no_instruction(text: str) -> None:
    assert find_preferences(text) == ()


def test_several_are_found_among_other_sentences() -> None:
    text = (
        "Hi! Can you plan the trip? Always name the price. I packed already.\n- I prefer trains\n- Never book flights."
    )
    assert find_preferences(text) == ("Always name the price.", "I prefer trains", "Never book flights.")


def test_pasted_rules_are_not_read_without_end() -> None:
    assert len(find_preferences("\n".join(f"Always do step {number}." for number in range(50)))) == MAX_PREFERENCES


def test_a_number_or_a_host_does_not_end_a_sentence() -> None:
    assert find_preferences("Always use v2.3.1 of example.org.") == ("Always use v2.3.1 of example.org.",)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Always answer in German.", "From now on answer in English."),
        ("Bitte immer auf Deutsch antworten", "Please always write in English"),
        ("Give me amounts in grams", "I prefer cups"),
        ("Keep your answers short", "I prefer detailed answers"),
        ("Always use bullet points", "Never use bullet points"),
        ("Always mention the source of a number", "Please don't mention sources of numbers to me"),
        ("Never answer in German.", "Answer in German from now on"),
    ],
)
def test_what_cannot_both_be_followed_is_contradictory(first: str, second: str) -> None:
    assert are_contradictory(first, second)
    assert are_contradictory(second, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Always answer in German.", "I prefer trains"),
        ("Always answer in German.", "Never answer in English."),
        ("Never suggest walnuts", "Never suggest flights"),
        ("Keep your answers short", "Always name the price in euros"),
        ("", ""),
    ],
)
def test_what_can_both_be_followed_is_not(first: str, second: str) -> None:
    assert not are_contradictory(first, second)


@given(st.text(max_size=500), st.text(max_size=200))
def test_any_text_is_read(text: str, other: str) -> None:
    assert all(sentence in text for sentence in find_preferences(text))
    assert are_contradictory(text, other) == are_contradictory(other, text)

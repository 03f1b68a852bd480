"""`tokenizer_counts.json`: what sixteen published tokenizers make of texts in many languages, none of which the weights
were fitted on."""

import json
from pathlib import Path

import pytest

from openvibe.engines.llm.token_estimates import UNKNOWN, TokenWeights, known_kinds, vocabulary_of
from openvibe.engines.llm.tokens import counter_for

ROWS = json.loads(Path(__file__).with_name("tokenizer_counts.json").read_text(encoding="utf-8"))
TEXTS = {row["language"]: row["text"] for row in ROWS}
MODELS = tuple(ROWS[0]["tokens"])
COUNTS = {model: {row["language"]: row["tokens"][model] for row in ROWS} for model in MODELS}
LANGUAGES = tuple(language for language in TEXTS if len(language) == 2)
WIDESPREAD = ("en", "de", "fr", "es", "pt", "it", "ru", "hi", "zh", "ja", "ko", "vi", "th", "tr")
"""The languages that models are asked in most."""


def estimates_over_counts(model: str, languages: tuple[str, ...]) -> dict[str, float]:
    counter = counter_for(model)
    return {language: counter.count(TEXTS[language]) / COUNTS[model][language] for language in languages}


@pytest.mark.parametrize("model", MODELS)
def test_no_text_is_undercounted(model: str) -> None:
    ratios = estimates_over_counts(model, tuple(TEXTS))
    assert min(ratios.values()) >= 1, ratios


@pytest.mark.parametrize("model", [model for model in MODELS if model not in ("yi:34b", "chatglm3-6b", "gpt2")])
def test_what_a_known_vocabulary_counts_is_at_most_half_too_much(model: str) -> None:
    ratios = estimates_over_counts(model, WIDESPREAD)
    assert sum(ratios.values()) / len(ratios) <= 1.4, ratios
    assert sum(ratio > 1.5 for ratio in ratios.values()) <= 2, ratios
    assert max(ratios.values()) <= 1.65, ratios


@pytest.mark.parametrize("model", [model for model in MODELS if vocabulary_of(model) not in ("yi", "internlm", "gpt2")])
def test_a_model_that_nobody_knows_counts_enough_for_all(model: str) -> None:
    counter = counter_for("somebodys-own-model")
    under = [language for language in TEXTS if counter.count(TEXTS[language]) < COUNTS[model][language]]
    assert under == []


def test_a_vocabulary_for_each_name() -> None:
    named = {
        "llama2": ("llama2:13b", "mistral", "mistral:7b", "mixtral:8x7b", "phi3:mini"),
        "llama3": ("llama3.1:8b", "llama-4-scout"),
        "tekken": ("mistral-large-latest", "ministral-8b", "devstral", "mistral-small-2506"),
        "claude": ("claude-opus-4-5", "claude-2.1"),
        "qwen": ("qwen3-coder:30b", "qwq:32b"),
        "gemma": ("gemma3:4b", "gemini-2.5-pro"),
        UNKNOWN: ("", "kimi-k2", "playing", "granite3"),
    }
    assert {name: vocabulary for vocabulary, names in named.items() for name in names} == {
        name: vocabulary_of(name) for names in named.values() for name in names
    }


@pytest.mark.parametrize("text", ["word " * 30_000, "語" * 70_000, "a" * 120_000, "👍🏽" * 30_000])
def test_long_texts_count_as_their_parts_do(text: str) -> None:
    counter = counter_for("llama2")
    part = text[:1_000]
    assert counter.count(text) == pytest.approx(counter.count(part) * len(text) / 1_000, rel=0.05)
    assert counter.count("") == 0


def test_the_first_count_looks_at_no_other_tokens_than_those_of_its_text() -> None:
    known_kinds.cache_clear()
    assert TokenWeights(UNKNOWN).count("") == 0
    few = TokenWeights(UNKNOWN).count("Roses and roses and roses.")
    assert 0 < (known_kinds() >= 0).sum() <= 6
    assert TokenWeights(UNKNOWN).count("Roses and roses and roses.") == few

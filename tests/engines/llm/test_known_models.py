"""The data file of models: every row is valid and reachable, its date is no promise, and names find their rows."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from agents.connect import presets
from openvibe.engines.llm.known_models import ABILITIES, KnownModel, find_hosted_model, find_model, known_models

ROWS = known_models().models


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.patterns[0])
def test_every_row_is_valid_and_reachable(row: KnownModel) -> None:
    assert row.family in known_models().hosts
    assert 4_000 <= row.window <= 10_000_000
    assert row.prompt is None or row.prompt < row.window
    assert row.output is None or 0 < row.output <= row.window
    assert (row.price_in is None) == (row.price_out is None)
    assert all(price is None or 0 < price < 1_000 for price in (row.price_in, row.price_out))
    assert row.abilities <= ABILITIES
    assert row.family != "open" or row.price_in is None, "open weights have no one price"
    for pattern in row.patterns:
        assert pattern == pattern.lower().strip()
        sample = pattern.replace("*", "").replace("?", "9")
        assert find_model(sample) is row, f"{pattern} is shadowed by a row before it"


def test_the_dates_are_not_in_the_future() -> None:
    today = datetime.now(UTC).date()
    assert known_models().date <= today
    assert today >= presets.DOCUMENTATION_DATE
    assert "OpenAI" in known_models().source


@pytest.mark.parametrize(
    ("name", "window", "abilities"),
    [
        ("gpt-6.2-sol", 1_050_000, {"tools", "images", "reasoning"}),
        ("gpt-5-mini-2025-08-07", 400_000, {"tools", "images", "reasoning"}),
        ("openai/gpt-oss-120b", 131_072, {"tools", "reasoning"}),
        ("anthropic/claude-sonnet-5.5", 1_000_000, {"tools", "images", "reasoning"}),
        ("claude-haiku-4-5-20251001", 200_000, {"tools", "images", "reasoning"}),
        ("models/gemini-2.5-flash", 1_048_576, {"tools", "images", "reasoning"}),
        ("deepseek-v4-flash", 1_000_000, {"tools", "images", "reasoning"}),
        ("qwen2.5:1.5b", 32_768, {"tools"}),
        ("Qwen/Qwen3-8B-GGUF", 40_960, {"tools", "reasoning"}),
        ("gemma3:latest", 131_072, {"images"}),
    ],
)
def test_names_find_their_rows(name: str, window: int, abilities: set[str]) -> None:
    row = find_model(name)
    assert row is not None
    assert (row.window, set(row.abilities)) == (window, abilities)


def test_windows_and_prices_hold_at_the_providers_own_address_alone() -> None:
    row = find_hosted_model("gpt-4o-mini", "https://api.openai.com/v1")
    assert row is not None
    assert (row.price_in, row.price_out) == (Decimal("0.15"), Decimal("0.6"))
    assert find_hosted_model("gpt-4o-mini", "https://proxy.example/v1") is None
    assert find_hosted_model("qwen3", "http://localhost:11434/v1") is None, "a server of one's own tells it itself"
    assert find_model("my-own-model") is None
    limited = find_model("gpt-5-mini")
    assert limited is not None
    assert limited.usable_window(2_000) == 274_000, "its prompts end before its window does"

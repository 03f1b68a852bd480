"""The model that an agent says it asks, as its answers name it."""

from typing import Any

import pytest
from acp.schema import SessionConfigOptionSelect, SessionConfigSelectOption

from openvibe_client.turn import model_of

OPUS = "Use the default model (currently Opus 4.8 (1M context)) · $5/$25 per Mtok"


def model_option(value: str, **choice: Any) -> SessionConfigOptionSelect:
    choices = [SessionConfigSelectOption(value=value, **choice)] if choice else []
    return SessionConfigOptionSelect(
        type="select", id="model", name="Model", category="model", current_value=value, options=choices
    )


@pytest.mark.parametrize(
    ("option", "model"),
    [
        (model_option("openai/gpt-4o", name="GPT-4o"), "openai/gpt-4o"),
        (model_option("opus[1m]", name="Opus"), "opus[1m]"),
        (model_option("scripted-1"), "scripted-1"),
        (model_option("$runtime|openai|gpt-4o(openai)", name="gpt-4o"), "gpt-4o"),
        (model_option("default", name="Default (recommended)", description=OPUS), "Opus 4.8"),
        (model_option("default", name="Default (recommended)"), "Default (recommended)"),
    ],
)
def test_it_is_named_as_people_know_it(option: SessionConfigOptionSelect, model: str) -> None:
    assert model_of([option]) == model


def test_a_session_that_says_nothing_of_it_has_none() -> None:
    assert model_of(None) == ""

"""Providers by the shape of their keys, and which of their models to begin with."""

import pytest

from agents.connect.presets import PRESETS, Preset, choose_model, find_local_servers, recognize_preset
from openvibe.engines.llm.endpoints.server_models import ServerModel
from openvibe.engines.llm.model_names import kind_of_name
from tests.engines.llm.model_server import Answer, serving

FAMILIES = {preset.name: preset.families for preset in PRESETS}


@pytest.mark.parametrize(
    ("key", "provider"),
    [
        ("sk-proj-" + "aB3" * 20, "OpenAI"),
        ("sk-" + "aB3" * 16, "OpenAI"),
        ("sk-ant-api03-" + "x" * 90, "Anthropic"),
        ("sk-or-v1-" + "0" * 64, "OpenRouter"),
        ("gsk_" + "a" * 52, "Groq"),
        ("AIzaSy" + "b" * 33, "Gemini"),
        ("AQ.Ab8" + "b" * 45, "Gemini"),
        ("sk-" + "0a" * 16, "DeepSeek"),
        ("a" * 32, None),
        ("", None),
    ],
)
def test_the_shape_of_a_key_names_its_provider(key: str, provider: str | None) -> None:
    preset = recognize_preset(key)
    assert (preset and preset.name) == provider


@pytest.mark.parametrize(
    ("provider", "names", "model"),
    [
        ("OpenAI", "gpt-4o-mini gpt-5-mini-2025-08-07 gpt-5-mini gpt-4o-mini-tts o4-mini gpt-5", "gpt-5-mini"),
        (
            "Anthropic",
            "claude-3-5-sonnet-20241022 claude-sonnet-4-5-20250929 claude-opus-4-1",
            "claude-sonnet-4-5-20250929",
        ),
        (
            "Gemini",
            "models/gemini-2.5-flash-lite models/gemini-2.5-flash models/gemini-2.0-live",
            "models/gemini-2.5-flash",
        ),
        ("Mistral", "mistral-embed mistral-medium-2505 mistral-medium-latest", "mistral-medium-latest"),
    ],
)
def test_the_newest_model_for_conversations_is_chosen(provider: str, names: str, model: str) -> None:
    models = [ServerModel(name, kind_of_name(name)) for name in names.split()]
    assert choose_model(models, FAMILIES[provider]) == model


def test_servers_of_this_machine_are_found_by_their_list_of_models() -> None:
    with (
        serving(Answer("llama3.2 qwen3")) as ollama,
        serving(Answer(body=b"<html>Hello</html>")) as website,
        serving(Answer("")) as empty,
        serving(Answer("mine")) as own,
    ):
        asked = (("Ollama", ollama), ("llama.cpp", website), ("vLLM", empty), ("Own", own))
        places = [Preset(name, server.base_url, is_local=True) for name, server in asked]
        servers = find_local_servers([*places, Preset("Gone", "http://127.0.0.1:9/v1")], own_port=str(own.port))
    assert [(server.preset.name, server.models) for server in servers] == [
        ("Ollama", ("llama3.2", "qwen3")),
        ("vLLM", ()),
    ]
    assert own.asked == []

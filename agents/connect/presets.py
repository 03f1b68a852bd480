"""Presets: where common providers and local servers answer and how their keys look, by their own documentation, which
was read on DOCUMENTATION_DATE. Prices and windows stand in `known_models.toml`; which models there are the endpoint
lists itself; `families` only says which to prefer. Which local servers answer on this machine.

What each was checked against: OpenAI's pages of models and deprecations (GPT-6.2 Sol for everyday work; keys of
projects and service accounts), Anthropic's overview of models and API reference, OpenRouter's quick start and its page
of keys, Mistral's API reference and changelog (`mistral-medium-latest` is Medium 3.5), Groq's pages of models and
deprecations (Llama 3.3 70B was shut down in August 2026), DeepSeek's page of models and pricing (`deepseek-flash`;
`deepseek-chat` and `deepseek-reasoner` ended in July 2026), Google's page of Gemini API keys (new ones begin with AQ.,
older ones with AIza) and of its OpenAI compatibility, and the READMEs of Ollama, llama.cpp's server, vLLM and LM Studio
for their ports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlencode, urlsplit

from openvibe.engines.llm.endpoints.endpoints import fetch_models
from openvibe.engines.llm.endpoints.server_models import TOOLS, ServerModel
from openvibe.engines.llm.model_names import ModelKind
from openvibe.engines.llm.models import Endpoint

DOCUMENTATION_DATE = date(2026, 11, 28)
"""The day on which all presets were last compared with their providers' documentation."""


@dataclass(frozen=True)
class Preset:
    """What fills the form of a new endpoint. `is_local`: on the operator's own machine, at its default port.

    `key_pattern`: how its keys begin, or look as a whole. `families`: words in names of models that suit a team's
    agent, good and not dear, the first preferred.
    """

    name: str
    base_url: str
    kind: str = Endpoint.Kind.OPENAI
    is_local: bool = False
    key_pattern: str = ""
    families: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        """The form's fields, as its address takes them."""
        free = {"price_in": "0", "price_out": "0"} if self.is_local else {}
        return urlencode({"name": self.name, "kind": self.kind, "base_url": self.base_url, **free})


PRESETS = (
    Preset(
        "OpenAI",
        "https://api.openai.com/v1",
        Endpoint.Kind.RESPONSES,  # its reasoning models keep what they thought between calls of tools only there
        key_pattern=r"sk-(?!ant-|or-)(?:proj-|svcacct-|admin-|[A-Za-z0-9]{40,})",
        families=("sol", "terra", "mini", "gpt"),
    ),
    Preset(
        "Anthropic",
        "https://api.anthropic.com",
        Endpoint.Kind.ANTHROPIC,
        key_pattern="sk-ant-",
        families=("sonnet", "haiku"),
    ),
    Preset(
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        key_pattern="sk-or-",
        families=("claude-sonnet", "gpt", "openrouter/auto"),
    ),
    Preset("Mistral", "https://api.mistral.ai/v1", families=("mistral-medium", "mistral-small", "mistral")),
    Preset(
        "Groq",
        "https://api.groq.com/openai/v1",
        key_pattern="gsk_",
        families=("gpt-oss-120b", "gpt-oss", "qwen", "llama"),
    ),
    Preset(
        "DeepSeek", "https://api.deepseek.com", key_pattern=r"sk-[0-9a-f]{32}\Z", families=("flash", "chat", "deepseek")
    ),
    Preset(
        "Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        key_pattern=r"AIza|AQ\.",
        families=("flash", "gemini"),
    ),
    Preset("Ollama", "http://localhost:11434/v1", is_local=True),
    Preset("llama.cpp", "http://localhost:8080/v1", is_local=True),
    Preset("vLLM", "http://localhost:8000/v1", is_local=True),
    Preset("LM Studio", "http://localhost:1234/v1", is_local=True),
)
_UNSTABLE = re.compile(r"preview|beta|exp\b|experimental|:free|alpha|lite|nano")
_SIZE = re.compile(r"(?<![a-z0-9.])(?:\d+x|[ea])?(\d{1,4}(?:\.\d+)?)([bm])(?![a-z])")
"""A pattern of sizes in billions or millions of parameters: 7b, 8x7b, e4b, 135m."""
_MIDDLING = (3, 40)  # billions: able enough, and it fits many machines
_SPECIAL = re.compile(r"cod(?:er|e|estral)|math|med|sql|-vl|roleplay|uncensored|abliterated|draft")
_DATE = re.compile(r"[-@](?:20\d{2}-?\d{2}-?\d{2}|\d{2}-\d{2}|\d{4})\b")


def recognize_preset(key: str) -> Preset | None:
    """The provider whose keys look like this one; None where no shape, or that of several, is known."""
    return next((each for each in PRESETS if each.key_pattern and re.match(each.key_pattern, key)), None)


def choose_model(models: Sequence[ServerModel], families: Sequence[str] = ()) -> str:
    """The model to answer in conversations, of those an endpoint offers: of the first of the families it has, the
    newest by the numbers in its name, no preview where there is another. Without families, as on a server of one's own,
    one that stands in memory, takes tools and is of a middling size before others. Empty without any model.

    One that is for something else is chosen only where there is no other.
    """
    conversational = [model for model in models if model.kind is ModelKind.CHAT] or list(models)
    for family in families:
        if names := [model.name for model in conversational if family in model.name.lower()]:
            return max(names, key=_preference)
    return max(conversational, key=_own_preference).name if conversational else ""


def _preference(name: str) -> tuple[bool, bool, list[float], int, str]:
    name_without_date = _DATE.sub("", name.lower())
    numbers = [float(number) for number in re.findall(r"\d{1,3}(?:\.\d+)?", name_without_date)]
    return not _UNSTABLE.search(name_without_date), "latest" in name_without_date, numbers, -len(name), name


def _own_preference(model: ServerModel) -> tuple[object, ...]:
    name = model.name.lower()
    sizes = [float(size) / (1 if unit == "b" else 1_000) for size, unit in _SIZE.findall(name)]
    is_middling = not sizes or _MIDDLING[0] <= max(sizes) <= _MIDDLING[1]
    takes_tools = 1 if model.abilities is None else 2 * (TOOLS in model.abilities)
    is_for_everything = not _SPECIAL.search(name)
    return bool(model.is_loaded), takes_tools, is_middling, is_for_everything, *_preference(_SIZE.sub("", name)), name


SEARCH_SECONDS = 2
"""The time for each of them: what runs on this machine answers at once, and somebody waits."""
MAX_CHOICES = 100
LOCAL_PRESETS = tuple(preset for preset in PRESETS if preset.is_local)


@dataclass(frozen=True)
class LocalServer:
    """One that answered, and the models it offers: perhaps none yet."""

    preset: Preset
    server_models: tuple[ServerModel, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """Names of those for conversations."""
        return tuple(model.name for model in self.server_models if model.kind is ModelKind.CHAT)

    @property
    def model(self) -> str:
        """The one to begin with."""
        return choose_model(self.server_models)

    @property
    def choices(self) -> tuple[str, ...]:
        """The one to begin with, and others."""
        return tuple(dict.fromkeys((self.model, *self.models)))[:MAX_CHOICES]


def find_local_servers(presets: Sequence[Preset] = LOCAL_PRESETS, *, own_port: str = "") -> list[LocalServer]:
    """Those that list models without a key, all asked at once. Only for superusers: it calls this machine.

    `own_port` is OpenVibe's own and left out. What answers otherwise, or not in time, is no model server.
    """
    others = [preset for preset in presets if str(urlsplit(preset.base_url).port) != own_port]
    if not others:
        return []
    with ThreadPoolExecutor(len(others)) as pool:
        servers = pool.map(_ask_server, others)
    return [server for server in servers if server is not None]


def _ask_server(preset: Preset) -> LocalServer | None:
    endpoint = Endpoint(kind=preset.kind, base_url=preset.base_url, allowed_address=preset.base_url)
    result = fetch_models(endpoint=endpoint, seconds=SEARCH_SECONDS)
    return LocalServer(preset, result.server_models) if result.is_list else None

"""Where common providers and local servers answer and how their keys look, by their own documentation. Prices and names
of models are not here: they change, and the endpoint lists its models itself; `families` only says which to prefer.
Which local servers answer on this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from openvibe.llm.endpoints import fetch_models
from openvibe.llm.models import Endpoint


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
        families=("mini", "gpt"),
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
    Preset("Groq", "https://api.groq.com/openai/v1", key_pattern="gsk_", families=("versatile", "gpt-oss", "llama")),
    Preset("DeepSeek", "https://api.deepseek.com", key_pattern=r"sk-[0-9a-f]{32}\Z", families=("chat",)),
    Preset(
        "Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        key_pattern="AIza",
        families=("flash", "gemini"),
    ),
    Preset("Ollama", "http://localhost:11434/v1", is_local=True),
    Preset("llama.cpp", "http://localhost:8080/v1", is_local=True),
    Preset("vLLM", "http://localhost:8000/v1", is_local=True),
    Preset("LM Studio", "http://localhost:1234/v1", is_local=True),
)
_OTHER_USES = re.compile(
    r"embed|whisper|tts|audio|realtime|transcri|dall-e|image|imagen|veo|sora|moderation|guard|ocr|rerank|speech|search"
    r"|instruct|codex|davinci|babbage|computer-use|deep-research|live|aqa|learnlm"
)
"""In names of models that do not answer in a conversation, or not only."""
_UNSTABLE = re.compile(r"preview|beta|exp\b|experimental|:free|alpha|lite|nano")
_DATE = re.compile(r"[-@](?:20\d{2}-?\d{2}-?\d{2}|\d{2}-\d{2}|\d{4})\b")


def recognize_preset(key: str) -> Preset | None:
    """The provider whose keys look like this one; None where no shape, or that of several, is known."""
    return next((each for each in PRESETS if each.key_pattern and re.match(each.key_pattern, key)), None)


def choose_model(names: Sequence[str], families: Sequence[str] = ()) -> str:
    """Of the models an endpoint lists, one for answering in conversations: of the first of the families it has, the
    newest by the numbers in its name, no preview where there is another. Empty without any name."""
    conversational = [name for name in names if not _OTHER_USES.search(name.lower())] or list(names)
    for family in (*families, ""):
        if matches := [name for name in conversational if family in name.lower()]:
            return max(matches, key=_preference)
    return ""


def _preference(name: str) -> tuple[bool, bool, list[float], int, str]:
    name_without_date = _DATE.sub("", name.lower())
    numbers = [float(number) for number in re.findall(r"\d{1,3}(?:\.\d+)?", name_without_date)]
    return not _UNSTABLE.search(name_without_date), "latest" in name_without_date, numbers, -len(name), name


SEARCH_SECONDS = 1
"""For each of them: what runs on this machine answers at once, and somebody waits."""
LOCAL_PRESETS = tuple(preset for preset in PRESETS if preset.is_local)


@dataclass(frozen=True)
class LocalServer:
    """One that answered, and the models it offers: perhaps none yet."""

    preset: Preset
    models: tuple[str, ...]

    @property
    def model(self) -> str:
        """The one to begin with."""
        return choose_model(self.models)


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
    return LocalServer(preset, tuple(result.models)) if result.is_list else None

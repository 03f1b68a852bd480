"""Where common providers and local servers answer, by their own documentation. Prices and models are not here: they
change, and the endpoint lists its models itself."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from openvibe.llm.models import Endpoint


@dataclass(frozen=True)
class Preset:
    """What fills the form of a new endpoint. `is_local`: on the operator's own machine, at its default port."""

    name: str
    base_url: str
    kind: str = Endpoint.Kind.OPENAI
    is_local: bool = False

    @property
    def query(self) -> str:
        """The form's fields, as its address takes them."""
        free = {"price_in": "0", "price_out": "0"} if self.is_local else {}
        return urlencode({"name": self.name, "kind": self.kind, "base_url": self.base_url, **free})


PRESETS = (
    Preset("OpenAI", "https://api.openai.com/v1"),
    Preset("Anthropic", "https://api.anthropic.com", Endpoint.Kind.ANTHROPIC),
    Preset("OpenRouter", "https://openrouter.ai/api/v1"),
    Preset("Mistral", "https://api.mistral.ai/v1"),
    Preset("Groq", "https://api.groq.com/openai/v1"),
    Preset("DeepSeek", "https://api.deepseek.com"),
    Preset("Gemini", "https://generativelanguage.googleapis.com/v1beta/openai"),
    Preset("Ollama", "http://localhost:11434/v1", is_local=True),
    Preset("llama.cpp", "http://localhost:8080/v1", is_local=True),
    Preset("vLLM", "http://localhost:8000/v1", is_local=True),
    Preset("LM Studio", "http://localhost:1234/v1", is_local=True),
)

"""What travels to a language model and back: plain frozen values, no Django, no vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True)
class ToolCallRequest:
    """One call a model asks for. `arguments` is JSON text as the model wrote it: it may be invalid JSON.

    `provider_fields`: what the provider added to the call, such as a signature, given back as it came.
    """

    id: str
    name: str
    arguments: str
    provider_fields: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class ImagePart:
    """An image that goes with a message's text. `data` is the file as the provider takes it (PNG, JPEG or WebP, already
    scaled), `width` and `height` its size in pixels, `description` what a person wrote about it."""

    media_type: str
    data: bytes = field(repr=False)
    width: int
    height: int
    name: str = ""
    description: str = ""


@dataclass(frozen=True)
class ChatMessage:
    """One message of a prompt. `tool_call_id` names the call that a message of role `tool` answers.

    `ends_stable_part`: the prompt up to its end is likely to come again, so that a provider does well to cache it.
    `provider_fields`: what the provider added to an answer of the model (thinking, encrypted items), given back as it
    came, to the same endpoint and model only.
    `images`: for models that see; whoever builds the message has left them out for others.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCallRequest, ...] = ()
    tool_call_id: str | None = None
    ends_stable_part: bool = field(default=False, compare=False)
    provider_fields: Mapping[str, Any] = field(default_factory=dict, compare=False)
    images: tuple[ImagePart, ...] = ()


@dataclass(frozen=True)
class CallOptions:
    """How a model is to answer, besides its prompt. None everywhere: as the endpoint does by default.

    `effort`: how long a reasoning model may think; each client says it in its protocol's words. `response_format` is
    the chat-completions protocol's value for JSON, with or without a schema. A client leaves out what its endpoint does
    not take and says so in a `CallNotice`. `tool_choice` names the one of the tools that has to be called.
    """

    effort: Literal["off", "low", "medium", "high"] | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    parallel_tool_calls: bool | None = None
    response_format: Mapping[str, Any] | None = None
    tool_choice: str | None = None


NO_OPTIONS = CallOptions()


@dataclass(frozen=True)
class ToolSpec:
    """A tool offered to a model. `parameters` is a JSON schema of type object. `leads_to`: names of further tools that
    calls of it offer; models are not sent them."""

    name: str
    description: str
    parameters: dict[str, Any]
    leads_to: tuple[str, ...] = ()


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. `cached_tokens` is the part of `input_tokens` the provider read from its cache,
    `cache_write_tokens` the part it wrote there, `reasoning_tokens` the part of `output_tokens` that the model thought;
    None where it did not say."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True)
class Completion:
    """A finished answer. `stop_reason` is `stop`, `length`, `tool_calls`, `content_filter`, `pause` (the provider
    did not let the model end) or the provider's own word; `provider_fields` as in ChatMessage. `reasoning`
    is what the model thought, as far as its provider shows it: no part of the answer. `notices`: every CallNotice of
    the call."""

    text: str
    tool_calls: tuple[ToolCallRequest, ...]
    usage: Usage
    stop_reason: str
    provider_fields: Mapping[str, Any] = field(default_factory=dict, compare=False)
    reasoning: str = field(default="", compare=False)
    notices: tuple[CallNotice, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class CallNotice:
    """A notice of what a client did to be answered, such as leaving out tools that the endpoint refuses. `code` is for
    programs, `text` a sentence for people."""

    code: str
    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """The next piece of what the model thinks, never empty. A TextReset takes back these pieces, too."""

    text: str


@dataclass(frozen=True)
class TextDelta:
    """The next piece of the text, never empty. All pieces since the last TextReset joined are the completion's text."""

    text: str


@dataclass(frozen=True)
class TextReset:
    """The answer begins anew, and what came before is no part of it. Comes before a call is tried again, too, when
    nothing had come: whoever wants no answer any more closes the stream there, and nothing more is asked."""


@dataclass(frozen=True)
class StreamEnd:
    """The last thing a stream yields, exactly once."""

    completion: Completion

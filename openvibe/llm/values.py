"""What travels to a language model and back: plain frozen values, no Django, no vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True)
class ToolCallRequest:
    """One call a model asks for. `arguments` is JSON text as the model wrote it: it may be invalid JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ChatMessage:
    """One message of a prompt. `tool_call_id` names the call that a message of role `tool` answers.

    `ends_stable_part`: the prompt up to its end is likely to come again, so that a provider does well to cache it.
    `thinking`: what the model thought before it called tools, in blocks of its provider's own, given back as they came.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCallRequest, ...] = ()
    tool_call_id: str | None = None
    ends_stable_part: bool = field(default=False, compare=False)
    thinking: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class ToolSpec:
    """A tool offered to a model. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. `cached_tokens` is the part of `input_tokens` the provider read from its cache,
    `cache_write_tokens` the part it wrote there; None where it did not say."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


@dataclass(frozen=True)
class Completion:
    """A finished answer. `stop_reason` is `stop`, `length`, `tool_calls`, `content_filter`, `pause` (the provider
    did not let the model end) or the provider's own word; `thinking` as in ChatMessage."""

    text: str
    tool_calls: tuple[ToolCallRequest, ...]
    usage: Usage
    stop_reason: str
    thinking: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)


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

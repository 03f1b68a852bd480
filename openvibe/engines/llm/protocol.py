"""The one door to language models: what every client promises.

`tests/engines/llm/conformance.py` holds each client to it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from openvibe.engines.llm.values import (
    NO_OPTIONS,
    CallNotice,
    CallOptions,
    ChatMessage,
    Completion,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    TextReset,
    ToolSpec,
)

ModelStream = Generator[TextDelta | ReasoningDelta | TextReset | CallNotice | StreamEnd, None, None]


class ModelClient(Protocol):
    """A model that answers. Stateless between calls; both verbs raise only `ModelError`s."""

    @property
    def model(self) -> str:
        """The model's name, as tokens are counted for it and as a run records it."""

    @property
    def is_free(self) -> bool:
        """Whether its answers cost nothing: they use no token budget."""

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        """The whole answer at once. Never empty: an answer has text, tool calls, or both."""

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        """Pieces of text and of reasoning as they come, then one `StreamEnd`; a `TextReset` takes back those before it.
        A `CallNotice` says what the client did to be answered. Closing the generator cancels the call."""

"""An embeddings endpoint for tests: a real HTTP server with the built-in embedder's vectors, or cut ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from openvibe.engines.search.embedders import StaticEmbedder
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving

BUILT_IN = StaticEmbedder()


@dataclass
class Embeddings:
    """What the endpoint does: how many numbers its vectors have, and what it answers instead, while it does."""

    dimension: int = 256
    instead: Answer | None = None
    longest: int = 100_000
    asked: list[list[str]] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer:
        texts = asked.body["input"]
        self.asked.append(texts)
        if self.instead is not None:
            return self.instead
        if max(map(len, texts)) > self.longest:
            said = {"message": "This model's maximum context length is 512 tokens", "code": "context_length_exceeded"}
            return Answer(status=400, error=said)
        return answer([row[: self.dimension] for row in BUILT_IN.embed(texts).tolist()])


def answer(vectors: list[Any], **changed: Any) -> Answer:
    """An answer of these vectors as the protocol writes them; last one first, for the order is in the numbers."""
    rows = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(vectors)]
    body = {"object": "list", "data": rows[::-1], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    return Answer(body=json.dumps(body | changed).encode())


@contextmanager
def embedding(**values: Any) -> Iterator[tuple[FakeEndpoint, Embeddings]]:
    """The running endpoint, and what it does."""
    script = Embeddings(**values)
    with serving(script=script) as server:
        yield server, script

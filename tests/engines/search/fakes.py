"""An embedder behind an endpoint without an endpoint: the built-in one's vectors, cut, and what trouble is asked for.

`replaced(ENDPOINT_EMBEDDER, embedder_for)` puts `FAKE` behind every endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from openvibe.engines.search.embedders import StaticEmbedder
from openvibe.engines.search.values import Floats


class Trouble(Exception):
    """What an embedder raises, in its own words."""

    advice = "Look at the endpoint."
    retry_after: float | None = None


class FakeEmbedder:
    """`asked` holds the texts of every call; `meanwhile` is called once, in the middle of the next one."""

    def __init__(self) -> None:
        self._built_in = StaticEmbedder()
        self.begin_anew()

    def begin_anew(self) -> None:
        self.dimension, self.repeated = 64, 1
        self.trouble: Exception | None = None
        self.meanwhile: Callable[[], object] | None = None
        self.asked: list[list[str]] = []
        self.for_queries = 0

    def embed(self, texts: Sequence[str]) -> Floats:
        self.asked.append(list(texts))
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        if self.trouble is not None:
            raise self.trouble
        return np.tile(self._built_in.embed(texts)[:, : self.dimension], self.repeated)


FAKE = FakeEmbedder()


def embedder_for(endpoint_id: int | None, *, address: str, model: str, for_query: bool) -> FakeEmbedder:
    FAKE.for_queries += for_query
    return FAKE

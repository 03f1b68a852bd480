"""Vectors of texts from any endpoint that speaks the embeddings protocol of OpenAI (`POST …/embeddings`).

The same checked addresses, time-outs and errors as for chat completions. Answers are checked to the last number:
what is not exactly one finite vector a text, none of zeros, all of one dimension, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openvibe.engines.llm.endpoints.breaker import EndpointBreaker
from openvibe.engines.llm.errors import BadAnswer, ContextTooLong, ModelError, ModelUnavailable
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.json_post import post_json
from openvibe.engines.llm.models import Endpoint

Floats = NDArray[np.float32]

MAX_BATCH_TEXTS = 96
MAX_BATCH_CHARACTERS = 150_000
"""The most characters of the texts of one request."""
TRUNCATION_STEPS = (8_000, 2_000, 500)
"""Characters of a text: tried in this order where a model takes fewer tokens."""
QUERY_TIMEOUT_SECONDS = 2.0
_TOO_LONG_PHRASES = ("token", "too large", "too long")
_QUERY_BREAKER = EndpointBreaker("query_failures", "query_rests_until", failures_in_a_row=2)


class HttpEmbedder:
    """An embedder for one endpoint and model. Opens a connection per request and keeps none.

    `dimension` is 0 before the first answer. `total_seconds` is for one request; a long list of texts takes several.
    All of them happen inside `guard()`.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        model: str,
        total_seconds: float = 60,
        allow_private: bool = False,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.dimension = 0
        self._model, self._guard, self._total_seconds = model, guard, total_seconds
        self._connection = Connection(base_url, api_key, allow_private)

    def embed(self, texts: Sequence[str]) -> Floats:
        """One vector a text (texts × dimension): of unit length, all zeros for an empty text. Raises ModelError."""
        cleaned = [clean_text(text).strip()[: TRUNCATION_STEPS[0]] for text in texts]
        nonempty = [text for text in cleaned if text]
        with self._guard():
            if cleaned and not nonempty and not self.dimension:
                self._request_vectors(["?"])  # only an answer shows the dimension
            batches = [self._embed_truncating(batch) for batch in _batches(nonempty)]
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        if batches:
            vectors[[index for index, text in enumerate(cleaned) if text]] = np.concatenate(batches)
        return vectors

    def _embed_truncating(self, texts: list[str]) -> Floats:
        for max_characters in TRUNCATION_STEPS[:-1]:
            with suppress(ContextTooLong):
                return self._request_vectors([text[:max_characters] for text in texts])
        return self._request_vectors([text[: TRUNCATION_STEPS[-1]] for text in texts])

    def _request_vectors(self, texts: list[str]) -> Floats:
        """One request: unit vectors in the order of the texts."""
        body, seconds = {"model": self._model, "input": texts, "encoding_format": "float"}, self._total_seconds
        try:
            with post_json(
                self._connection,
                "/embeddings",
                body,
                read_timeout=seconds,
                total_seconds=seconds,
                no_answer="The endpoint answered with something that is not vectors of texts.",
            ) as response:
                response.read()
                vectors = _parse_vectors(response.json(), len(texts))
        except ModelError as error:
            raise _as_too_long(error) from None
        if self.dimension not in (0, vectors.shape[1]):
            raise BadAnswer("The endpoint answered with vectors of two dimensions.")
        self.dimension = vectors.shape[1]
        return vectors


def embedder_for(endpoint_id: int | None, *, address: str, model: str, for_query: bool) -> HttpEmbedder:
    """The embedder that an endpoint was when it stood at this address with this model.

    `for_query`: two seconds, and behind a breaker. Raises ModelUnavailable when the endpoint is gone or another
    one now: its vectors would not compare.
    """
    endpoint = Endpoint.objects.filter(pk=endpoint_id).first() if endpoint_id else None
    if endpoint is None:
        raise ModelUnavailable("The model endpoint was deleted.", advice="Choose another embedder.")
    if not endpoint.has_embeddings or (endpoint.base_url, endpoint.model) != (address, model):
        raise ModelUnavailable(
            f"The model endpoint {endpoint.name} was changed.", advice="Its vectors are made anew; this takes a while."
        )
    guard = partial(_QUERY_BREAKER.guard, endpoint)
    return HttpEmbedder(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        model=endpoint.model,
        total_seconds=QUERY_TIMEOUT_SECONDS if for_query else min(endpoint.timeout_seconds, 60),
        allow_private=endpoint.allows_private,
        guard=guard if for_query else nullcontext,
    )


def _batches(texts: list[str]) -> Iterator[list[str]]:
    """The texts in requests of a bounded size."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) >= MAX_BATCH_TEXTS or size + len(text) > MAX_BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _parse_vectors(response: Any, expected: int) -> Floats:
    """The vectors of an answer, of unit length, in the order asked for. Raises BadAnswer."""
    rows = response.get("data") if isinstance(response, dict) else None
    if not isinstance(rows, list) or len(rows) != expected:
        raise BadAnswer("The endpoint did not answer with one vector for each text.")
    indexes = [row.get("index") for row in rows]
    if indexes != [None] * expected:
        if sorted(index for index in indexes if isinstance(index, int)) != list(range(expected)):
            raise BadAnswer("The endpoint's vectors do not say which text they belong to.")
        rows = sorted(rows, key=lambda row: int(row["index"]))
    embeddings = [row.get("embedding") for row in rows]
    if not all(isinstance(row, list) and row and all(type(n) in (int, float) for n in row) for row in embeddings):
        raise BadAnswer("The endpoint answered with something that is not a vector of numbers.")
    if len({len(row) for row in embeddings if row}) != 1:
        raise BadAnswer("The endpoint answered with vectors of two dimensions.")
    matrix = np.array(embeddings, np.float64)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        raise BadAnswer("The endpoint answered with numbers that are not finite.")
    if not norms.all():
        raise BadAnswer("The endpoint answered with vectors that say nothing: all their numbers are zero.")
    unit_vectors: Floats = (matrix / norms).astype(np.float32)
    return unit_vectors


def _as_too_long(error: ModelError) -> ModelError:
    """The error itself, or ContextTooLong where its words say that it is one."""
    report = error.report
    if report and report.status in (400, 413, 422, 500):
        words = f"{report.code} {report.message}".lower()
        if any(phrase in words for phrase in _TOO_LONG_PHRASES):
            return ContextTooLong("A text is longer than the embedding model takes.")
    return error

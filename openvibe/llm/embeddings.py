"""Vectors of texts from any endpoint that speaks the embeddings protocol of OpenAI (`POST …/embeddings`).

The same checked addresses, time-outs and errors as for chat completions. Answers are checked to the last number:
what is not exactly one finite vector a text, all of one dimension, is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import openai
from django.conf import settings
from numpy.typing import NDArray

from openvibe.llm.breaker import Breaker
from openvibe.llm.connecting import UNREADABLE, connected
from openvibe.llm.errors import BadAnswer, ContextTooLong, ModelError, ModelUnavailable
from openvibe.llm.fences import clean
from openvibe.llm.models import Endpoint
from openvibe.llm.openai_errors import translated
from openvibe.llm.outbound import Resolve, resolve_name

Floats = NDArray[np.float32]

TEXTS_AT_ONCE = 96
CHARACTERS_AT_ONCE = 150_000
"""Of the texts of one request."""
SHORTER = (8_000, 2_000, 500)
"""Characters of a text: tried in this order where a model takes fewer tokens."""
QUESTION_SECONDS = 2.0
_TOO_LONG = ("token", "too large", "too long")
_QUESTIONS = Breaker(failures_in_a_row=2, rest_seconds=60)


class HttpEmbedder:
    """An embedder for one endpoint and model. Opens a connection per request and keeps none.

    `dimension` is 0 before the first answer. `total_seconds` is for one request; a long list of texts takes several.
    `resolve` and `clock` are there to be replaced in tests.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        model: str,
        total_seconds: float = 60,
        allow_private: bool = False,
        resolve: Resolve = resolve_name,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"{base_url} {model}"
        self.dimension = 0
        self._base_url, self._api_key, self._model = base_url, api_key, model
        self._seconds, self._allow_private = total_seconds, allow_private
        self._resolve, self._clock = resolve, clock

    def embed(self, texts: Sequence[str]) -> Floats:
        """One vector a text (texts × dimension): of unit length, all zeros for an empty text. Raises ModelError."""
        said = [clean(text).strip()[: SHORTER[0]] for text in texts]
        asked = [text for text in said if text]
        if said and not asked and not self.dimension:
            self._answered(["?"])  # only an answer shows the dimension
        found = [self._answered_shorter(part) for part in _parts(asked)]
        made = np.zeros((len(texts), self.dimension), np.float32)
        if found:
            made[[at for at, text in enumerate(said) if text]] = np.concatenate(found)
        return made

    def _answered_shorter(self, texts: list[str]) -> Floats:
        for most in SHORTER:
            try:
                return self._answered([text[:most] for text in texts])
            except ContextTooLong:
                if most == SHORTER[-1]:
                    raise
        raise AssertionError("unreachable")

    def _answered(self, texts: list[str]) -> Floats:
        """One request: unit vectors in the order of the texts."""
        try:
            with connected(
                base_url=self._base_url,
                api_key=self._api_key,
                waits=self._seconds,
                total_seconds=self._seconds,
                allow_private=self._allow_private,
                resolve=self._resolve,
                clock=self._clock,
            ) as sdk:
                answered = sdk.embeddings.create(model=self._model, input=texts, encoding_format="float")
                made = _vectors(answered, len(texts))
        except UNREADABLE as error:
            raise _complaint(error, self._api_key) from error
        if self.dimension not in (0, made.shape[1]):
            raise BadAnswer("The endpoint answered with vectors of two dimensions.")
        self.dimension = made.shape[1]
        return made


class _AskedBriefly:
    """An embedder behind the breaker of its endpoint: for questions, which somebody waits for."""

    def __init__(self, embedder: HttpEmbedder, endpoint: Hashable) -> None:
        self.name, self._embedder, self._endpoint = embedder.name, embedder, endpoint

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed(self, texts: Sequence[str]) -> Floats:
        """As `HttpEmbedder.embed`; while the endpoint rests, ModelUnavailable at once."""
        _QUESTIONS.admit(self._endpoint)
        try:
            made = self._embedder.embed(texts)
        except ModelError as error:
            _QUESTIONS.record(self._endpoint, error)
            raise
        _QUESTIONS.record(self._endpoint, None)
        return made


def embedder_for(
    endpoint_id: int | None, *, address: str, model: str, for_question: bool
) -> HttpEmbedder | _AskedBriefly:
    """The embedder that an endpoint was when it stood at this address with this model.

    `for_question`: two seconds, and behind a breaker. Raises ModelUnavailable when the endpoint is gone or another
    one now: its vectors would not compare.
    """
    endpoint = Endpoint.objects.filter(pk=endpoint_id).first() if endpoint_id else None
    if endpoint is None:
        raise ModelUnavailable("The model endpoint was deleted.", advice="Choose another embedder.")
    if endpoint.kind != Endpoint.Kind.OPENAI or (endpoint.base_url, endpoint.model) != (address, model):
        raise ModelUnavailable(
            f"The model endpoint {endpoint.name} was changed.", advice="Its vectors are made anew; this takes a while."
        )
    embedder = HttpEmbedder(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        model=endpoint.model,
        total_seconds=QUESTION_SECONDS if for_question else min(endpoint.timeout_seconds, 60),
        allow_private=settings.ALLOW_PRIVATE_ENDPOINTS,
    )
    return _AskedBriefly(embedder, (endpoint.pk, endpoint.updated_at)) if for_question else embedder


def _parts(texts: list[str]) -> Iterator[list[str]]:
    """The texts in requests of a bounded size."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and (len(part) >= TEXTS_AT_ONCE or size + len(text) > CHARACTERS_AT_ONCE):
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part


def _vectors(answered: Any, wanted: int) -> Floats:
    """The vectors of an answer, of unit length, in the order asked for. Raises BadAnswer."""
    rows = getattr(answered, "data", None)
    if not isinstance(rows, list) or len(rows) != wanted:
        raise BadAnswer("The endpoint did not answer with one vector for each text.")
    places = [getattr(row, "index", None) for row in rows]
    if places != [None] * wanted:
        if sorted(place for place in places if isinstance(place, int)) != list(range(wanted)):
            raise BadAnswer("The endpoint's vectors do not say which text they belong to.")
        rows = sorted(rows, key=lambda row: int(row.index))
    given = [getattr(row, "embedding", None) for row in rows]
    if not all(isinstance(row, list) and row and all(type(n) in (int, float) for n in row) for row in given):
        raise BadAnswer("The endpoint answered with something that is not a vector of numbers.")
    if len({len(row) for row in given if row}) != 1:
        raise BadAnswer("The endpoint answered with vectors of two dimensions.")
    exact = np.array(given, np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise BadAnswer("The endpoint answered with numbers that are not finite.")
    made: Floats = np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths > 0).astype(np.float32)
    return made


def _complaint(error: Exception, key: str) -> ModelError:
    """The ModelError for anything that can go wrong in a request."""
    found = translated(error, key=key)
    if isinstance(error, openai.APIStatusError):
        said = error.message.lower()
        if error.status_code in (400, 413, 422, 500) and any(phrase in said for phrase in _TOO_LONG):
            return ContextTooLong("A text is longer than the embedding model takes.")
    elif isinstance(found, BadAnswer):
        return BadAnswer("The endpoint answered with something that is not vectors of texts.")
    return found

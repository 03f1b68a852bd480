"""The vector space that serves a workspace, its embedder, and a query's vector in it; both cached in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import Protocol

import numpy as np
import structlog
from django.db import transaction
from django.utils import timezone

from openvibe.engines.registers import Register
from openvibe.engines.search.embedders import (
    Embedder,
    EmbedderUnavailable,
    LocalEmbedder,
    MultilingualEmbedder,
    StaticEmbedder,
)
from openvibe.engines.search.models import MAX_DIMENSION, VectorSpace
from openvibe.engines.search.values import Floats
from openvibe.engines.text.masking import mask_secrets

log = structlog.get_logger(__name__)

BUILT_IN_EMBEDDER = StaticEmbedder()
LOCAL_EMBEDDERS: dict[str, LocalEmbedder] = {
    VectorSpace.Kind.STATIC: BUILT_IN_EMBEDDER,
    VectorSpace.Kind.MULTILINGUAL: MultilingualEmbedder(),
}
"""Those that run on this server, by kind."""

FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 5.0, 900.0
"""Seconds that a network embedder is left alone after its first failure, and at most: a pause that seems longer began
while the clock was ahead, and is over."""
SPACE_CACHE_SECONDS = 3.0
"""How long a process goes on using what it knows of a workspace's space."""
QUERY_CACHE_SIZE = 512
MAX_EMBEDDED_QUERY_CHARACTERS = 2_000
"""Characters of a question that are compared by meaning."""


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A question in the space that its vector can be compared in. `vector`: `dimension` numbers of unit length."""

    space_id: int
    dimension: int
    vector: Floats


_cache_lock = Lock()
_spaces: dict[int, tuple[float, VectorSpace | None]] = {}
"""The space that serves each workspace, and when it was read."""
_query_vectors: dict[tuple[int, str], Floats] = {}
"""The latest questions, by space."""


def serving_space(workspace_id: int) -> VectorSpace | None:
    """The space that searches of this workspace use; None while there is none. May be three seconds old."""
    now = time.monotonic()
    read_at, space = _spaces.get(workspace_id, (None, None))
    if read_at is None or now - read_at > SPACE_CACHE_SECONDS:
        space = VectorSpace.objects.filter(workspace_id=workspace_id, state=VectorSpace.State.SERVING).first()
        with _cache_lock:
            _spaces[workspace_id] = (now, space)
    return space


def clear_space_cache() -> None:
    """Clears what is known of spaces, which are looked at again at the next question: called by whoever changed a space
    in this process."""
    with _cache_lock:
        _spaces.clear()
        _query_vectors.clear()


def embed_query(workspace_id: int, text: str) -> QueryVector | None:
    """The question in the space that serves; None when words alone have to do. Never raises for the embedder's sake.

    None: no embedder is set, none of its vectors stands yet, the text has no words, or the embedder is down or
    answers another dimension; the space then says why. A network embedder is given two seconds, and left alone for a
    minute after two failures: ask before a transaction begins, not inside it.
    """
    space = serving_space(workspace_id)
    if space is None or space.kind == VectorSpace.Kind.NONE or not space.dimension:
        return None
    words = " ".join(mask_secrets(text[:MAX_EMBEDDED_QUERY_CHARACTERS]).split())
    if not words:
        return None
    vector = _query_vectors.get((space.pk, words))
    if vector is None:
        vector = _embed_words(space, words)
    return QueryVector(space.pk, space.dimension, vector) if vector is not None and vector.any() else None


def _embed_words(space: VectorSpace, words: str) -> Floats | None:
    """The vector, asked of the embedder and remembered. None when it is to be left alone or cannot answer; the space
    says why."""
    if space.kind not in LOCAL_EMBEDDERS and is_left_alone(space):
        return None
    try:
        vector: Floats = embed_texts(space, [words], for_query=True)[0]
    except EmbedderUnavailable as error:
        _record_problem(space, str(error))
        return None
    _record_problem(space, "")
    with _cache_lock:
        while len(_query_vectors) >= QUERY_CACHE_SIZE:
            _query_vectors.pop(next(iter(_query_vectors)))
        _query_vectors[space.pk, words] = vector
    return vector


def is_left_alone(space: VectorSpace) -> bool:
    """Whether its embedder failed and is not to be tried yet."""
    now = timezone.now()
    longest = timedelta(seconds=MAX_BACKOFF_SECONDS)
    return space.try_again_at is not None and now < space.try_again_at <= now + longest


def embed_texts(space: VectorSpace, texts: Sequence[str], *, for_query: bool = False) -> Floats:
    """One vector a text (texts × dimension), of unit length or all zeros.

    Raises EmbedderUnavailable, with the reason for people, whatever goes wrong, and for vectors that do not belong
    into this space. `for_query`: with little patience.
    """
    try:
        embedder: Embedder | None = LOCAL_EMBEDDERS.get(space.kind)
        if embedder is None:
            embedder_for = ENDPOINT_EMBEDDER.only()
            embedder = embedder_for(space.endpoint_id, address=space.address, model=space.model, for_query=for_query)
        vectors = np.asarray(embedder.embed(texts), np.float32)
    except EmbedderUnavailable:
        raise
    except Exception as error:  # an embedder is somebody else's code, with errors of its own
        log.info("embedder_down", space_id=space.pk, error=type(error).__name__)
        advice = getattr(error, "advice", "")
        raise EmbedderUnavailable(f"{error} {advice}".strip()) from error
    _check_vectors(space, vectors, len(texts))
    return vectors


class EndpointEmbedder(Protocol):
    """Finds the embedder that an endpoint was when it stood at this address with this model.

    `for_query`: with little patience. Raises, in words for people, when the endpoint is gone or another one now.
    """

    def __call__(self, endpoint_id: int | None, /, *, address: str, model: str, for_query: bool) -> Embedder: ...


ENDPOINT_EMBEDDER: Register[EndpointEmbedder] = Register("openvibe.engines.search.spaces.ENDPOINT_EMBEDDER")


def _check_vectors(space: VectorSpace, vectors: Floats, expected: int) -> None:
    if vectors.ndim != 2 or len(vectors) != expected or not np.isfinite(vectors).all():
        raise EmbedderUnavailable("The embedder answered with something that is not one vector for each text.")
    dimension = vectors.shape[1]
    if not 0 < dimension <= MAX_DIMENSION:
        raise EmbedderUnavailable(
            f"The embedder's vectors have {dimension:,} numbers; at most {MAX_DIMENSION:,} can be searched. "
            "Choose a smaller embedding model."
        )
    if space.dimension and dimension != space.dimension:
        raise EmbedderUnavailable(
            f"The embedder answers with {dimension:,} numbers a vector now, and these vectors have "
            f"{space.dimension:,}: it is another model than before. Choose the embedder anew, and all vectors are "
            "made with it; until then search goes by words alone."
        )


def _record_problem(space: VectorSpace, problem: str) -> None:
    """Lets the space say what is wrong, or that nothing is any more: only when that is news."""
    if space.problem != problem:
        new_space = copy(space)  # others are reading this one
        new_space.problem = problem
        with _cache_lock:
            _spaces[space.workspace_id] = (time.monotonic(), new_space)
        row = VectorSpace.objects.filter(pk=space.pk).exclude(problem=problem)
        transaction.on_commit(partial(row.update, problem=problem), robust=True)

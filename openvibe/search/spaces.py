"""The vector space that serves a workspace, and a question's vector in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from threading import Lock

import numpy as np
import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from openvibe.base.secrets import mask_secrets
from openvibe.search.embedders import Embedder, EmbedderDown, StaticEmbedder
from openvibe.search.models import LONGEST_VECTOR, VectorSpace
from openvibe.search.values import Floats

log = structlog.get_logger(__name__)

BUILT_IN = StaticEmbedder()
REMEMBERED_SECONDS = 3.0
"""How long a process goes on using what it knows of a workspace's space."""
QUESTIONS_REMEMBERED = 512
LONGEST_QUESTION = 2_000
"""Characters of a question that are compared by meaning."""


@dataclass(frozen=True, slots=True)
class Space:
    """A row of `VectorSpace` as it was read. `dimension` is 0 until the first vector was made."""

    id: int
    workspace_id: int
    kind: str
    dimension: int
    endpoint_id: int | None
    address: str
    model: str
    problem: str
    try_again_at: datetime | None


@dataclass(frozen=True, slots=True)
class Question:
    """A question in the space that its vector can be compared in. `vector`: `dimension` numbers of unit length."""

    space_id: int
    dimension: int
    vector: Floats


def serving(workspace_id: int) -> Space | None:
    """The space that searches of this workspace use; None while there is none. May be three seconds old."""
    return _MEMORY.space(workspace_id)


def forget() -> None:
    """Look again at the next question: called by whoever changed a space in this process."""
    _MEMORY.clear()


def embed_question(workspace_id: int, text: str) -> Question | None:
    """The question in the space that serves; None when words alone have to do. Never raises for the embedder's sake.

    None: no embedder is set, none of its vectors stands yet, the text has no words, or the embedder is down or
    answers another dimension; the space then says why. A network embedder is given two seconds, and left alone for a
    minute after two failures: ask before a transaction begins, not inside it.
    """
    space = serving(workspace_id)
    if space is None or space.kind == VectorSpace.Kind.NONE or not space.dimension:
        return None
    words = " ".join(mask_secrets(text[:LONGEST_QUESTION]).split())
    if not words:
        return None
    known = _MEMORY.question(space.id, words)
    if known is None:
        known = _asked(space, words)
        if known is None:
            return None
        _MEMORY.keep(space.id, words, known)
    return Question(space.id, space.dimension, known) if known.any() else None


def _asked(space: Space, words: str) -> Floats | None:
    if space.kind != VectorSpace.Kind.STATIC and space.try_again_at and space.try_again_at > timezone.now():
        return None
    try:
        vector: Floats = vectors_of(space, [words], for_question=True)[0]
    except EmbedderDown as error:
        _tell(space, str(error))
        return None
    _tell(space, "")
    return vector


def vectors_of(space: Space, texts: Sequence[str], *, for_question: bool = False) -> Floats:
    """One vector a text (texts × dimension), of unit length or all zeros.

    Raises EmbedderDown, with the reason for people, whatever goes wrong, and for vectors that do not belong into this
    space. `for_question`: with little patience.
    """
    try:
        embedder = _embedder_of(space, for_question)
        made = np.asarray(embedder.embed(texts), np.float32)
    except EmbedderDown:
        raise
    except Exception as error:  # an embedder is somebody else's code, with errors of its own
        log.info("embedder_down", space_id=space.id, error=type(error).__name__)
        advice = getattr(error, "advice", "")
        raise EmbedderDown(f"{error} {advice}".strip()) from error
    _check(space, made, len(texts))
    return made


def _embedder_of(space: Space, for_question: bool) -> Embedder:
    if space.kind == VectorSpace.Kind.STATIC:
        return BUILT_IN
    embedder: Embedder = import_string(settings.EMBEDDER_OF_ENDPOINT)(
        space.endpoint_id, address=space.address, model=space.model, for_question=for_question
    )
    return embedder


def _check(space: Space, made: Floats, wanted: int) -> None:
    if made.ndim != 2 or len(made) != wanted or not np.isfinite(made).all():
        raise EmbedderDown("The embedder answered with something that is not one vector for each text.")
    dimension = made.shape[1]
    if not 0 < dimension <= LONGEST_VECTOR:
        raise EmbedderDown(
            f"The embedder's vectors have {dimension:,} numbers; at most {LONGEST_VECTOR:,} can be searched. "
            "Choose a smaller embedding model."
        )
    if space.dimension and dimension != space.dimension:
        raise EmbedderDown(
            f"The embedder answers with {dimension:,} numbers a vector now, and these vectors have "
            f"{space.dimension:,}: it is another model than before. Choose the embedder anew, and all vectors are "
            "made with it; until then search goes by words alone."
        )


def _tell(space: Space, problem: str) -> None:
    """Let the space say what is wrong, or that nothing is any more: only when that is news."""
    if space.problem != problem:
        _MEMORY.noted(space, problem)
        row = VectorSpace.objects.filter(pk=space.id).exclude(problem=problem)
        transaction.on_commit(partial(row.update, problem=problem), robust=True)


class _Memory:
    """What this process remembers: each workspace's space for a moment, and the latest questions. Thread safe."""

    def __init__(self) -> None:
        self._spaces: dict[int, tuple[float, Space | None]] = {}
        self._questions: dict[tuple[int, str], Floats] = {}
        self._lock = Lock()

    def space(self, workspace_id: int) -> Space | None:
        now = time.monotonic()
        read_at, space = self._spaces.get(workspace_id, (None, None))
        if read_at is None or now - read_at > REMEMBERED_SECONDS:
            space = read_space(workspace_id=workspace_id, state=VectorSpace.State.SERVING)
            with self._lock:
                self._spaces[workspace_id] = (now, space)
        return space

    def noted(self, space: Space, problem: str) -> None:
        with self._lock:
            self._spaces[space.workspace_id] = (time.monotonic(), replace(space, problem=problem))

    def question(self, space_id: int, words: str) -> Floats | None:
        return self._questions.get((space_id, words))

    def keep(self, space_id: int, words: str, vector: Floats) -> None:
        with self._lock:
            while len(self._questions) >= QUESTIONS_REMEMBERED:
                self._questions.pop(next(iter(self._questions)))
            self._questions[space_id, words] = vector

    def clear(self) -> None:
        with self._lock:
            self._spaces.clear()
            self._questions.clear()


_MEMORY = _Memory()

_COLUMNS = ("id", "workspace_id", "kind", "dimension", "endpoint_id", "address", "model", "problem", "try_again_at")


def read_space(**which: object) -> Space | None:
    """The one space that these conditions name, as it stands now."""
    row = VectorSpace.objects.filter(**which).values_list(*_COLUMNS).first()
    return Space(*row) if row else None

"""The lifecycle of vector spaces: building, serving, retired, deleted; and the status of each, for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from openvibe.engines.database.locks import LockKind, advisory_lock
from openvibe.engines.search.embedder_choice import lock_workspace, retire_space, use_embedder
from openvibe.engines.search.embedders import EmbedderUnavailable
from openvibe.engines.search.indexing import (
    VECTOR_TABLES,
    back_off,
    build_missing_indexes,
    create_hnsw_indexes,
    drop_hnsw_indexes,
    record_dimension,
)
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.spaces import LOCAL_EMBEDDERS, clear_space_cache, embed_texts, is_left_alone

State = VectorSpace.State
ENDPOINT_DELETED = (
    "The model endpoint that made these vectors was deleted. Search goes by words alone; choose an embedder anew."
)


def advance_spaces() -> int:
    """Brings every space forward by one step; returns how many began to serve. Safe to kill, and to call at any time.

    A space that is being built serves as soon as no text waits for it any more and its index stands. An endpoint that
    was given another address or model counts as another embedder: its vectors are made anew. Indexes that are missing
    are built last, which may take minutes.
    """
    with advisory_lock(LockKind.VECTOR_SPACES, 0) as is_mine:
        if not is_mine:
            return 0
        with_endpoint = VectorSpace.objects.filter(kind=VectorSpace.Kind.OPENAI).exclude(state=State.RETIRED)
        for space in with_endpoint.select_related("endpoint", "workspace").order_by("state"):
            _sync_endpoint(space)
        ready = [space for space in VectorSpace.objects.filter(state=State.BUILDING) if _is_ready(space)]
        served = sum(_start_serving(space) for space in ready)
        delete_retired_spaces()
        build_missing_indexes()
        return served


def _sync_endpoint(space: VectorSpace) -> None:
    """An endpoint that is gone is reported; one that changed gives another embedder, unless one is chosen already."""
    endpoint = space.endpoint
    if endpoint is None:
        if VectorSpace.objects.filter(pk=space.pk).exclude(problem=ENDPOINT_DELETED).update(problem=ENDPOINT_DELETED):
            clear_space_cache()
    elif endpoint.kind == "openai" and (endpoint.base_url, endpoint.model) != (space.address, space.model):
        others = VectorSpace.objects.filter(workspace_id=space.workspace_id, state=State.BUILDING).exclude(pk=space.pk)
        if not others.exists():
            use_embedder(workspace=space.workspace, kind=space.kind, endpoint=endpoint, by=None)


def _is_ready(space: VectorSpace) -> bool:
    """Nothing waits, nothing was overlooked, the dimension is known and its indexes stand."""
    is_orphaned = space.kind == VectorSpace.Kind.OPENAI and space.endpoint_id is None
    if is_orphaned or any(table.has_pending(space.pk) for table in VECTOR_TABLES):
        return False
    if sum(table.enqueue_all(space.pk, space.workspace_id) for table in VECTOR_TABLES):  # written while the space began
        return False
    dimension = space.dimension or _probe_dimension(space)
    if dimension:
        create_hnsw_indexes(dimension)
    return bool(dimension)


def _probe_dimension(space: VectorSpace) -> int:
    """The dimension of an embedder that had no text to make a vector of yet; 0 when that is not known now."""
    current = VectorSpace.objects.filter(pk=space.pk).first()
    if current is None or is_left_alone(current):
        return 0
    try:
        dimension = int(embed_texts(current, ["search"]).shape[1])
    except EmbedderUnavailable as error:
        back_off(current, error)
        return 0
    return dimension if record_dimension(current, dimension) else 0


def _start_serving(space: VectorSpace) -> bool:
    """Lets it serve from now on. False when another one was chosen meanwhile."""
    with transaction.atomic():
        lock_workspace(space.workspace_id)
        space.refresh_from_db()
        if space.state != State.BUILDING:
            return False
        for old in VectorSpace.objects.filter(workspace_id=space.workspace_id, state=State.SERVING):
            retire_space(old)
        space.state, space.served_since = State.SERVING, timezone.now()
        space.problem, space.failures, space.try_again_at = "", 0, None
        space.save(update_fields=["state", "served_since", "problem", "failures", "try_again_at"])
    clear_space_cache()
    return True


DELETE_BATCH_SIZE = 5_000
"""Rows that are removed in one statement."""
READ_GRACE_PERIOD = timedelta(seconds=30)
"""How long searches that began before go on finding its vectors."""
WRITE_GRACE_PERIOD = timedelta(hours=2)
"""How long its row stays: a transaction that began before may still let texts wait for it."""


def delete_retired_spaces() -> None:
    """Removes one batch of what each retired space has, and the spaces of which nothing is left."""
    now = timezone.now()
    for space in VectorSpace.objects.filter(state=State.RETIRED, try_again_at__lte=now - READ_GRACE_PERIOD):
        deleted = sum(table.delete_batch(space.pk, DELETE_BATCH_SIZE) for table in VECTOR_TABLES)
        if not deleted and space.try_again_at and space.try_again_at <= now - WRITE_GRACE_PERIOD:
            space.delete()
            drop_hnsw_indexes(space.dimension)


@dataclass(frozen=True)
class SpaceStatus:
    """A space, how many texts have a vector in it, how many wait for one, and how many its embedder could not take."""

    space: VectorSpace
    embedded: int
    pending: int
    set_aside: int

    @property
    def percent(self) -> int:
        """Rounded down: 100 is all."""
        return 100 * self.embedded // (self.embedded + self.pending) if self.pending else 100


def space_statuses(workspace_id: int) -> list[SpaceStatus]:
    """The workspace's spaces: the one that serves, then the one that is being built, where there is one."""
    spaces = VectorSpace.objects.filter(workspace_id=workspace_id).exclude(state=State.RETIRED)
    return [
        SpaceStatus(
            space,
            embedded=sum(table.count_vectors(space.pk) for table in VECTOR_TABLES),
            pending=sum(table.count_pending(space.pk) for table in VECTOR_TABLES),
            set_aside=sum(table.count_set_aside(space.pk) for table in VECTOR_TABLES),
        )
        for space in spaces.order_by("-state")
    ]


def diagnose_search() -> tuple[str, str, str]:
    """The diagnosis for `manage.py doctor`: what was looked at, what was found, and what to do where something is
    wrong."""
    spaces = VectorSpace.objects.exclude(state=State.RETIRED)
    pending = sum(table.count_pending(space.pk) for space in spaces for table in VECTOR_TABLES)
    failing = spaces.exclude(problem="").select_related("workspace")
    set_aside = sum(table.count_set_aside(space.pk) for space in spaces for table in VECTOR_TABLES)
    summary = f"{pending:,} texts wait for their vectors." if pending else "every text has its vector."
    if set_aside:
        texts = "1 text" if set_aside == 1 else f"{set_aside:,} texts"
        wait = "no text waits." if not pending else summary
        summary = f"{wait} {texts} got no usable vector; words find them, and they are tried again every hour."
    for kind, embedder in LOCAL_EMBEDDERS.items():
        if embedder.missing and spaces.filter(kind=kind).exists():
            return ("search", summary, f"{embedder.missing} Or choose another one at “Search” in its settings.")
    if not failing:
        return "search", summary, ""
    problems = " ".join(f"{space.workspace}: {space.problem}" for space in failing[:3])
    return ("search", f"{summary} {problems}", "Search goes by words meanwhile; look at “Search” in its settings.")

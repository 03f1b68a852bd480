"""The job that brings spaces forward: one that is complete begins to serve, one that is not needed any more goes."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from openvibe.base.ownership import Piece, owned
from openvibe.search.embedders import EmbedderDown
from openvibe.search.filling import back_off, learn_dimension
from openvibe.search.models import VectorSpace
from openvibe.search.retiring import make_indexes, remove_retired, retire
from openvibe.search.services import one_at_a_time, use_embedder
from openvibe.search.spaces import forget, read_space, vectors_of
from openvibe.search.tables import vector_tables

State = VectorSpace.State
NO_ENDPOINT = (
    "The model endpoint that made these vectors was deleted. Search goes by words alone; choose an embedder anew."
)


def settle_spaces() -> int:
    """Bring every space forward by one step; how many began to serve. Safe to kill, and to call at any time.

    A space that is being built serves as soon as no text waits for it any more and its index stands. An endpoint that
    was given another address or model counts as another embedder: its vectors are made anew.
    """
    with owned(Piece.SPACES, 0) as is_mine:
        if not is_mine:
            return 0
        for space in _of_endpoints():
            _look_at_endpoint(space)
        ready = [space for space in VectorSpace.objects.filter(state=State.BUILDING) if _is_ready(space)]
        served = sum(_serve(space) for space in ready)
        remove_retired()
        return served


def _of_endpoints() -> list[VectorSpace]:
    rows = VectorSpace.objects.filter(kind=VectorSpace.Kind.OPENAI).exclude(state=State.RETIRED)
    return list(rows.select_related("endpoint", "workspace").order_by("state"))


def _look_at_endpoint(space: VectorSpace) -> None:
    """An endpoint that is gone is said; one that changed gives another embedder, unless one is chosen already."""
    endpoint = space.endpoint
    if endpoint is None:
        if VectorSpace.objects.filter(pk=space.pk).exclude(problem=NO_ENDPOINT).update(problem=NO_ENDPOINT):
            forget()
        return
    if (endpoint.base_url, endpoint.model) == (space.address, space.model):
        return
    others = VectorSpace.objects.filter(workspace_id=space.workspace_id, state=State.BUILDING).exclude(pk=space.pk)
    if endpoint.kind == "openai" and not others.exists():
        use_embedder(workspace=space.workspace, kind=space.kind, endpoint=endpoint, by=None)


def _is_ready(space: VectorSpace) -> bool:
    """Nothing waits, nothing was overlooked, the dimension is known and its indexes stand."""
    if space.kind == VectorSpace.Kind.OPENAI and space.endpoint_id is None:
        return False
    tables = vector_tables()
    if any(table.has_waiting(space.pk) for table in tables):
        return False
    if sum(table.let_wait(space.pk, space.workspace_id) for table in tables):  # said while the space began
        return False
    dimension = space.dimension or _asked_dimension(space)
    if dimension:
        make_indexes(dimension)
    return bool(dimension)


def _asked_dimension(space: VectorSpace) -> int:
    """The dimension of an embedder that had no text to make a vector of yet; 0 when it cannot be told now."""
    now = read_space(pk=space.pk)
    if now is None or (now.try_again_at and now.try_again_at > timezone.now()):
        return 0
    try:
        dimension = int(vectors_of(now, ["search"]).shape[1])
    except EmbedderDown as error:
        back_off(now, error)
        return 0
    return dimension if learn_dimension(now, dimension) else 0


def _serve(space: VectorSpace) -> bool:
    """Let it serve from now on. False when another one was chosen meanwhile."""
    with transaction.atomic():
        one_at_a_time(space.workspace_id)
        space.refresh_from_db()
        if space.state != State.BUILDING:
            return False
        for old in VectorSpace.objects.filter(workspace_id=space.workspace_id, state=State.SERVING):
            retire(old)
        space.state, space.served_since = State.SERVING, timezone.now()
        space.problem, space.failures, space.try_again_at = "", 0, None
        space.save(update_fields=["state", "served_since", "problem", "failures", "try_again_at"])
    forget()
    return True

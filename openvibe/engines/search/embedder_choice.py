"""What people do with embedders: choose one for a workspace, and try one; vector spaces are made and retired here."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol

from django.apps import apps
from django.db import models, transaction
from django.utils import timezone

from openvibe.engines.search.embedders import EmbedderUnavailable
from openvibe.engines.search.indexing import VECTOR_TABLES
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.spaces import LOCAL_EMBEDDERS, clear_space_cache, embed_texts
from openvibe.engines.search.values import dot

Kind = VectorSpace.Kind


class AdminAccess(Protocol):
    """The asker: `openvibe.workspaces.access.Access`, which this floor does not know."""

    @property
    def workspace_id(self) -> int: ...

    @property
    def administers(self) -> bool: ...


class EmbedderRefused(Exception):
    """An embedder that cannot be chosen. `message` says why and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EmbedderChange(NamedTuple):
    """What a choice did: the space it led to, whether anything changed, and both in words."""

    space: VectorSpace
    changed: bool
    message: str


class EmbedderTryResult(NamedTuple):
    """How a try went. `message` is what was answered or, where `ok` is False, what is wrong and what to do."""

    ok: bool
    message: str


def use_embedder(*, workspace: models.Model, kind: str, endpoint: Any = None, by: AdminAccess | None) -> EmbedderChange:
    """Lets this embedder make the workspace's vectors; those that stand serve until all new ones are made.

    `endpoint`: an OpenAI-compatible `llm.Endpoint` of the workspace, whose model is the embedding model. `none`
    serves at once. The embedder that is in use already changes nothing, save that another one being built is given
    up. Admins only; `by=None` is a job, or the admin site, which has asked already. Raises EmbedderRefused, with
    nothing changed.
    """
    workspace_id = int(workspace.pk)
    if by is not None and not (by.administers and by.workspace_id == workspace_id):
        raise EmbedderRefused("Only owners and admins of the workspace choose how it searches.")
    new_space = _clean_space(workspace_id, kind, endpoint)
    with transaction.atomic():
        lock_workspace(workspace_id)
        spaces = VectorSpace.objects.filter(workspace_id=workspace_id)
        serving = spaces.filter(state=VectorSpace.State.SERVING).first()
        building = spaces.filter(state=VectorSpace.State.BUILDING).first()
        change = _change_embedder(new_space, serving, building)
    clear_space_cache()
    return change


def lock_workspace(workspace_id: int) -> None:
    """Locks the workspace: until this transaction ends, nobody else changes which spaces this workspace has."""
    workspaces = apps.get_model("workspaces.Workspace").objects  # a floor that is known here only as a string
    workspaces.select_for_update(no_key=True).filter(pk=workspace_id).first()


def try_embedder(*, kind: str, endpoint: Any = None) -> EmbedderTryResult:
    """Asks the embedder for the vectors of two texts. Never raises for the embedder's sake."""
    try:
        space = _clean_space(getattr(endpoint, "workspace_id", 0), kind, endpoint)
    except EmbedderRefused as refusal:
        return EmbedderTryResult(False, refusal.message)
    if space.kind == Kind.NONE:
        return EmbedderTryResult(True, "Without an embedder there is nothing to try: search goes by words alone.")
    start_time = time.monotonic()
    try:
        vectors = embed_texts(space, ["When do we prune the roses?", "The roses are cut back in March."])
    except EmbedderUnavailable as error:
        return EmbedderTryResult(False, f"{space.title} does not work: {error}")
    seconds, cosine = time.monotonic() - start_time, float(dot(vectors[0], vectors[1]))
    description = f"{vectors.shape[1]:,} numbers a text; a question and its answer are {cosine:.0%} alike."
    return EmbedderTryResult(True, f"{space.title} answered in {seconds:.2f} s: {description}")


def _clean_space(workspace_id: int, kind: str, endpoint: Any) -> VectorSpace:
    """A space of this embedder, not saved. Raises EmbedderRefused."""
    if kind not in Kind.values:
        raise EmbedderRefused("There is no such embedder. Choose static, multilingual, openai or none.")
    if kind in LOCAL_EMBEDDERS and LOCAL_EMBEDDERS[kind].missing:
        raise EmbedderRefused(LOCAL_EMBEDDERS[kind].missing)
    if kind != Kind.OPENAI:
        return VectorSpace(workspace_id=workspace_id, kind=kind)
    if endpoint is None or endpoint.workspace_id != workspace_id:
        raise EmbedderRefused("Choose a model endpoint of this workspace.")
    if not endpoint.has_embeddings or not endpoint.model:
        raise EmbedderRefused("That endpoint has no embeddings. Choose an OpenAI-compatible one.")
    return VectorSpace(
        workspace_id=workspace_id, kind=kind, endpoint_id=endpoint.pk, address=endpoint.base_url, model=endpoint.model
    )


def _change_embedder(
    new_space: VectorSpace, serving: VectorSpace | None, building: VectorSpace | None
) -> EmbedderChange:
    if building is not None and building.embedder == new_space.embedder:
        return EmbedderChange(building, False, f"{new_space.title} is being built already. Nothing changed.")
    if serving is not None and serving.embedder == new_space.embedder:
        if building is None:
            return EmbedderChange(serving, False, f"{new_space.title} is in use already. Nothing changed.")
        retire_space(building)
        return EmbedderChange(serving, True, f"{new_space.title} stays in use. What was being built is given up.")
    if building is not None:
        retire_space(building)
    if new_space.kind == Kind.NONE and serving is not None:
        retire_space(serving)
    if new_space.kind in LOCAL_EMBEDDERS:
        new_space.dimension = LOCAL_EMBEDDERS[new_space.kind].dimension
    if new_space.kind == Kind.NONE or serving is None:
        new_space.state, new_space.served_since = VectorSpace.State.SERVING, timezone.now()
    new_space.save()
    if new_space.kind == Kind.NONE:
        return EmbedderChange(new_space, True, "Search goes by words alone from now on. All vectors are removed.")
    pending = sum(table.enqueue_all(new_space.pk, new_space.workspace_id) for table in VECTOR_TABLES)
    has_vectors = serving is not None and serving.kind != Kind.NONE
    meanwhile = "The old vectors serve" if has_vectors else "Search goes by words alone"
    return EmbedderChange(
        new_space, True, f"{new_space.title}: {pending:,} texts wait for their vectors. {meanwhile} until all are made."
    )


def retire_space(space: VectorSpace) -> None:
    """Takes the space out of use. Its vectors are removed by `delete_retired_spaces`."""
    space.state = VectorSpace.State.RETIRED
    space.problem, space.failures = "", 0
    space.try_again_at = timezone.now()
    space.save(update_fields=["state", "problem", "failures", "try_again_at"])

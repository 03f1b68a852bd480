"""What people do with embedders: choose one for a workspace, and try one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from django.apps import apps
from django.db import models, transaction
from django.utils import timezone

from openvibe.base.problems import Problem, Refused
from openvibe.search.embedders import EmbedderDown
from openvibe.search.models import VectorSpace
from openvibe.search.retiring import retire
from openvibe.search.spaces import BUILT_IN, Space, forget, vectors_of
from openvibe.search.tables import vector_tables

Kind = VectorSpace.Kind


class Standing(Protocol):
    """Who asks: `openvibe.workspaces.access.Access`, which this floor does not know."""

    @property
    def workspace_id(self) -> int: ...

    @property
    def administers(self) -> bool: ...


class Chosen(NamedTuple):
    """What a choice did: the space it led to, whether anything changed, and both in words."""

    space: VectorSpace
    changed: bool
    said: str


@dataclass(frozen=True)
class TryResult:
    """How a try went. `said` is what was answered or, where `ok` is False, what is wrong and what to do."""

    ok: bool
    said: str


class Embedder(NamedTuple):
    """An embedder that can be chosen: its kind, and for an endpoint where it is and which model it gives."""

    kind: str
    endpoint_id: int | None = None
    address: str = ""
    model: str = ""

    @property
    def title(self) -> str:
        return f"{self.model} at {self.address}" if self.kind == Kind.OPENAI else str(Kind(self.kind).label)


def embedder_of(space: VectorSpace) -> Embedder:
    return Embedder(space.kind, space.endpoint_id, space.address, space.model)


def use_embedder(*, workspace: models.Model, kind: str, endpoint: Any = None, by: Standing | None) -> Chosen:
    """Let this embedder make the workspace's vectors; those that stand serve until all new ones are made.

    `endpoint`: an OpenAI-compatible `llm.Endpoint` of the workspace, whose model is the embedding model. `none`
    serves at once. The embedder that is in use already changes nothing, save that another one being built is given
    up. Admins only; `by=None` is the command line or a job. Raises Refused and Problem, with nothing changed.
    """
    home = int(workspace.pk)
    if by is not None and not (by.administers and by.workspace_id == home):
        raise Refused("Only owners and admins of the workspace choose how it searches.")
    wanted = _wanted(home, kind, endpoint)
    with transaction.atomic():
        one_at_a_time(home)
        spaces = VectorSpace.objects.filter(workspace_id=home)
        serving = spaces.filter(state=VectorSpace.State.SERVING).first()
        building = spaces.filter(state=VectorSpace.State.BUILDING).first()
        chosen = _chosen(home, wanted, serving, building)
    forget()
    return chosen


def one_at_a_time(workspace_id: int) -> None:
    """Until this transaction ends, nobody else changes which spaces this workspace has."""
    homes = apps.get_model("workspaces.Workspace").objects  # a floor that is known here only as a string
    homes.select_for_update(no_key=True).filter(pk=workspace_id).first()


def try_embedder(*, kind: str, endpoint: Any = None) -> TryResult:
    """Ask the embedder for the vectors of two texts. Never raises for the embedder's sake."""
    try:
        wanted = _wanted(getattr(endpoint, "workspace_id", 0), kind, endpoint)
    except Problem as problem:
        return TryResult(False, problem.message)
    if wanted.kind == Kind.NONE:
        return TryResult(True, "Without an embedder there is nothing to try: search goes by words alone.")
    space = Space(0, 0, wanted.kind, 0, wanted.endpoint_id, wanted.address, wanted.model, "", None)
    begun = time.monotonic()
    try:
        made = vectors_of(space, ["When do we prune the roses?", "The roses are cut back in March."])
    except EmbedderDown as error:
        return TryResult(False, f"{wanted.title} does not work: {error}")
    seconds, alike = time.monotonic() - begun, float(made[0] @ made[1])
    said = f"{made.shape[1]:,} numbers a text; a question and its answer are {alike:.0%} alike."
    return TryResult(True, f"{wanted.title} answered in {seconds:.2f} s: {said}")


def _wanted(home: int, kind: str, endpoint: Any) -> Embedder:
    if kind not in Kind.values:
        raise Problem("There is no such embedder. Choose static, openai or none.", field="kind")
    if kind != Kind.OPENAI:
        return Embedder(kind)
    if endpoint is None or endpoint.workspace_id != home:
        raise Problem("Choose a model endpoint of this workspace.", field="endpoint")
    if endpoint.kind != "openai" or not endpoint.model:
        raise Problem("That endpoint has no embeddings. Choose an OpenAI-compatible one.", field="endpoint")
    return Embedder(kind, endpoint.pk, endpoint.base_url, endpoint.model)


def _chosen(home: int, wanted: Embedder, serving: VectorSpace | None, building: VectorSpace | None) -> Chosen:
    if building is not None and embedder_of(building) == wanted:
        return Chosen(building, False, f"{wanted.title} is being built already. Nothing changed.")
    if serving is not None and embedder_of(serving) == wanted:
        if building is None:
            return Chosen(serving, False, f"{wanted.title} is in use already. Nothing changed.")
        retire(building)
        return Chosen(serving, True, f"{wanted.title} stays in use. What was being built is given up.")
    if building is not None:
        retire(building)
    if wanted.kind == Kind.NONE and serving is not None:
        retire(serving)
    space = _begun(home, wanted, at_once=wanted.kind == Kind.NONE or serving is None)
    if wanted.kind == Kind.NONE:
        return Chosen(space, True, "Search goes by words alone from now on. All vectors are removed.")
    waiting = sum(table.let_wait(space.pk, home) for table in vector_tables())
    now = "Search goes by words alone" if serving is None or serving.kind == Kind.NONE else "The old vectors serve"
    return Chosen(space, True, f"{wanted.title}: {waiting:,} texts wait for their vectors. {now} until all are made.")


def _begun(home: int, wanted: Embedder, *, at_once: bool) -> VectorSpace:
    return VectorSpace.objects.create(
        workspace_id=home,
        kind=wanted.kind,
        endpoint_id=wanted.endpoint_id,
        address=wanted.address,
        model=wanted.model,
        dimension=BUILT_IN.dimension if wanted.kind == Kind.STATIC else 0,
        state=VectorSpace.State.SERVING if at_once else VectorSpace.State.BUILDING,
        served_since=timezone.now() if at_once else None,
    )

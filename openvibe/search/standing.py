"""How far a workspace's vectors are made, in numbers and words for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from openvibe.search.models import VectorSpace
from openvibe.search.services import Embedder, embedder_of
from openvibe.search.tables import vector_tables


@dataclass(frozen=True)
class SpaceStanding:
    """One space: its embedder, how many texts have a vector in it and how many wait, and what is wrong ("" nothing)."""

    embedder: Embedder
    is_serving: bool
    dimension: int
    made: int
    waiting: int
    problem: str
    try_again_at: datetime | None

    @property
    def title(self) -> str:
        return self.embedder.title

    @property
    def percent(self) -> int:
        """Rounded down: 100 is all."""
        return 100 * self.made // (self.made + self.waiting) if self.waiting else 100


def standings(workspace_id: int) -> list[SpaceStanding]:
    """The workspace's spaces: the one that serves, then the one that is being built, where there is one."""
    rows = VectorSpace.objects.filter(workspace_id=workspace_id).exclude(state=VectorSpace.State.RETIRED)
    return [_standing(space) for space in rows.order_by("-state")]


def look() -> tuple[str, str, str]:
    """For `manage.py doctor`: what was looked at, what was found, and what to do where something is wrong."""
    spaces = VectorSpace.objects.exclude(state=VectorSpace.State.RETIRED)
    waiting = sum(table.count_waiting(space.pk) for space in spaces for table in vector_tables())
    troubled = spaces.exclude(problem="").select_related("workspace")
    found = f"{waiting:,} texts wait for their vectors." if waiting else "every text has its vector."
    if not troubled:
        return "search", found, ""
    told = " ".join(f"{space.workspace}: {space.problem}" for space in troubled[:3])
    return "search", f"{found} {told}", "Search goes by words meanwhile; look at “Search embedder” in the admin."


def _standing(space: VectorSpace) -> SpaceStanding:
    tables = vector_tables()
    return SpaceStanding(
        embedder=embedder_of(space),
        is_serving=space.state == VectorSpace.State.SERVING,
        dimension=space.dimension,
        made=sum(table.count_made(space.pk) for table in tables),
        waiting=sum(table.count_waiting(space.pk) for table in tables),
        problem=space.problem,
        try_again_at=space.try_again_at,
    )

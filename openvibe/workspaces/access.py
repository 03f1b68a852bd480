"""Who is asking, and what that lets them see. Pure: every `visible_to(access)` takes one of these.

Members' access follows their role, agents' their trust level (spec: context.md, "What an agent may see").
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

Role = Literal["owner", "admin", "member", "guest"]
KnowledgeScope = Literal["none", "shared", "restricted"]


@dataclass(frozen=True)
class Access:
    """One participant's standing in one workspace, at this moment. Never keep one across requests."""

    workspace_id: int
    participant_id: int
    is_agent: bool = False
    role: Role | None = None
    level: int | None = None
    reads_public_channels: bool = False
    reads_dive_results: bool = True
    knowledge: KnowledgeScope = "shared"

    @property
    def shape(self) -> Self:
        """All that it allows, whoever it is: askers of one shape are asked for with the same SQL."""
        return self.with_ids(0, 0)

    def with_ids(self, workspace_id: int, participant_id: int) -> Self:
        """The same, of somebody else."""
        return replace(self, workspace_id=workspace_id, participant_id=participant_id)

    @property
    def administers(self) -> bool:
        """May change members, agents, channels and settings of the workspace."""
        return self.role in ("owner", "admin")

    @property
    def is_guest(self) -> bool:
        return self.role == "guest"


def role_access(*, workspace_id: int, participant_id: int, role: Role) -> Access:
    """A human's access: everybody but guests reads all public channels; private ones need membership."""
    return Access(
        workspace_id=workspace_id,
        participant_id=participant_id,
        role=role,
        reads_public_channels=role != "guest",
        knowledge="restricted" if role in ("owner", "admin") else "shared",
    )

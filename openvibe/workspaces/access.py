"""The asker, and what that lets them see. Pure: every `visible_to(access)` takes one of these.

Members' access follows their role, agents' their trust level (spec: context.md, "What an agent may see").
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

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
    shut_out: str = ""
    """The people, for an agent that answers, who read the answer and no restricted knowledge, as PostgreSQL writes an
    array of participants (three at most, 0 for agents). Of restricted knowledge only what all of these wrote or own
    counts."""
    memo: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What upper floors looked up for it, once: kept as long as this object is, and by no copy."""

    @property
    def shape(self) -> Self:
        """All that it allows, whoever it is: askers of one shape are asked for with the same SQL."""
        return replace(self, workspace_id=0, participant_id=0, shut_out="")

    def shown_to(self, shut_out: str) -> Self:
        """Returns the same access for an answer that others read: `shut_out` as the field says. What was looked up is
        kept."""
        narrowed = replace(self, shut_out=shut_out)
        narrowed.memo.update(self.memo)
        return narrowed

    @property
    def administers(self) -> bool:
        """Whether the asker may change members, agents, channels and settings of the workspace."""
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

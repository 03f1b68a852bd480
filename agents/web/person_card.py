"""What the card of an agent shows: its level and what that lets it do, what it is for, whether it is at work."""

from __future__ import annotations

from dataclasses import dataclass

from agents.agent.models import Agent
from agents.agent.soul.parser import soul_from_dict
from agents.agent.trust import TrustLevel, trust_level
from agents.runs.external.presence import Presence, read_presences
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


@dataclass(frozen=True)
class AgentFacts:
    """`role` and `description` are its SOUL's, empty without one."""

    agent: Agent
    level: TrustLevel
    role: str
    description: str
    presence: Presence | None

    @property
    def may(self) -> str:
        """What it may do, as a sentence."""
        actions = ", ".join(self.level.allowed_actions)
        return f"{actions[:1].upper()}{actions[1:]}."


def agent_facts(who: Participant, access: Access) -> dict[str, object]:
    """`agent_facts` of an agent: six queries; nothing of anybody else."""
    if not who.is_agent:
        return {}
    agent = Agent.objects.select_related("participant", "soul").get(participant=who)
    soul = soul_from_dict(agent.soul.content) if agent.soul else None
    facts = AgentFacts(
        agent,
        trust_level(agent.level),
        soul.identity.role if soul else "",
        soul.identity.description if soul else "",
        read_presences([agent], access)[agent.pk] if agent.is_active else None,
    )
    return {"agent_facts": facts}

"""Verbs of context blocks, for doors: who may write them, and which agent is meant."""

from __future__ import annotations

from memory.blocks import Author, ContextBlock, ContextBlocks
from memory.blocks.rules import missing
from memory.models import CarriedVersion
from openvibe.base.problems import Missing, Refused
from openvibe.chat.querysets import participants_known_to
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


def agent_known_to(by: Access, handle: str) -> Participant:
    """An agent by its handle. Admins also know deactivated ones, an agent always itself. Raises Missing."""
    agents = Participant.objects.filter(workspace_id=by.workspace_id, kind=Participant.Kind.AGENT)
    if not by.administers:
        agents = agents.filter(pk__in=participants_known_to(by).order_by().values("pk"))
    found = agents.filter(handle=handle).first() if "\x00" not in handle else None
    if found is None:
        raise Missing
    return found


def may_write_blocks(agent: Participant, by: Access) -> bool:
    """Owners and admins those of every agent, an agent its own."""
    return by.workspace_id == agent.workspace_id and (by.administers or by.participant_id == agent.pk)


def blocks_read_by(agent: Participant, by: Access) -> ContextBlocks:
    """To look at. People read those of the agents they know, an agent only its own (Refused)."""
    if by.workspace_id != agent.workspace_id:
        raise Missing
    if by.is_agent and by.participant_id != agent.pk:
        raise Refused("An agent reads its own blocks only.")
    return ContextBlocks(agent, author=Author(by.participant_id))


def blocks_written_by(agent: Participant, by: Access, how: str) -> ContextBlocks:
    """To write as `by` through a door (`how`: page, api). Raises Refused for members who are no admins, and for other
    agents. Reading them is allowed too."""
    blocks = blocks_read_by(agent, by)
    if not may_write_blocks(agent, by):
        raise Refused("Only owners, admins and the agent itself may change what it carries.")
    blocks.author = Author(by.participant_id, how, configures=by.administers)
    return blocks


def restore_block(*, agent: Participant, by: Access, label: str, number: int, seen: str, how: str) -> ContextBlock:
    """What the block said in an earlier version becomes its next one. Raises Missing, Refused, Conflict, Problem."""
    blocks = blocks_written_by(agent, by, how)
    earlier = CarriedVersion.objects.filter(block__agent=agent, block__label=label, number=number).first()
    if earlier is None:
        raise missing(label) if blocks.get(label) is None else Missing()
    return blocks.set(label, earlier.content, seen=seen)

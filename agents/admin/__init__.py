"""Agents in the admin: making them, their SOUL, their trust level, where they are, and what they did."""

from agents.admin.agents import AgentAdmin
from agents.admin.endpoints import EndpointAdmin
from agents.admin.mcp import McpServerAdmin
from agents.admin.records import RunAdmin, SnapshotAdmin, SoulVersionAdmin, TrustChangeAdmin
from agents.admin.search import VectorSpaceAdmin

__all__ = [
    "AgentAdmin",
    "EndpointAdmin",
    "McpServerAdmin",
    "RunAdmin",
    "SnapshotAdmin",
    "SoulVersionAdmin",
    "TrustChangeAdmin",
    "VectorSpaceAdmin",
]

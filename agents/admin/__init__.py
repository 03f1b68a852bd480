"""Agents in the admin: making them, their SOUL, their trust level, where they are, and what they did."""

from agents.admin.agents import AgentAdmin
from agents.admin.mcp import McpServerAdmin
from agents.admin.records import RunAdmin, SnapshotAdmin, SoulVersionAdmin, TrustChangeAdmin

__all__ = ["AgentAdmin", "McpServerAdmin", "RunAdmin", "SnapshotAdmin", "SoulVersionAdmin", "TrustChangeAdmin"]

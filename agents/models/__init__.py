"""Who answers: agents, their versioned SOULs and trust, their runs and exactly what each run saw."""

from agents.models.agent import Agent, SoulVersion, TrustChange
from agents.models.run import LoadedSkill, Run, Snapshot, ToolCall
from agents.models.usage import KnowledgeUse

__all__ = ["Agent", "KnowledgeUse", "LoadedSkill", "Run", "Snapshot", "SoulVersion", "ToolCall", "TrustChange"]

"""Who answers: agents, their versioned SOULs and trust, their runs and exactly what each run saw."""

from agents.models.agent import Agent, SoulVersion, TrustChange
from agents.models.run import Run, Snapshot

__all__ = ["Agent", "Run", "Snapshot", "SoulVersion", "TrustChange"]

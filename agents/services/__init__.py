"""Verbs of agents: made, given a SOUL, trusted, retired."""

from agents.services.agents import create_agent, deactivate_agent, reactivate_agent
from agents.services.soul import StaleSoul, check_soul, restore_soul, save_soul
from agents.services.trust import set_trust_level

__all__ = [
    "StaleSoul",
    "check_soul",
    "create_agent",
    "deactivate_agent",
    "reactivate_agent",
    "restore_soul",
    "save_soul",
    "set_trust_level",
]

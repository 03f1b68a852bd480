"""What a fresh installation starts with: a small company, its agents, and something to ask them."""

from agents.demo.making import make_demo
from agents.demo.texts import EMAIL, MEETING, NAME, SLUG, SOUL

__all__ = ["EMAIL", "MEETING", "NAME", "SLUG", "SOUL", "make_demo"]

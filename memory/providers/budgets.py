"""How many tokens of a prompt a conversation may count on, and when it is due for compaction."""

from openvibe.chat.models import Thread

DEFAULT_CEILING = 15_000
"""The ceiling of task type `thread` (spec: context.md), where a workspace set none of its own."""

THRESHOLD, GOAL = 0.75, 0.5
"""Shares of that budget: above the first a conversation is due, and compaction brings it down to the second."""


def context_budget(thread: Thread) -> int:
    """Tokens: the workspace's own ceiling for task type `thread`, else DEFAULT_CEILING."""
    own = thread.workspace.budgets
    ceiling = own.get("thread", {}) if isinstance(own, dict) else {}
    wanted = ceiling.get("ceiling") if isinstance(ceiling, dict) else None
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0 else DEFAULT_CEILING

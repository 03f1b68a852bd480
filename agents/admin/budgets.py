"""Checks a workspace's own token budgets before they are stored."""

from collections.abc import Mapping

from agents.assembler.stack import BUDGETS, with_overrides


def check_budgets(budgets: object) -> None:
    """Raise ValueError, with a sentence for people, unless these are overrides by task type that leave room for
    what every prompt needs."""
    if not isinstance(budgets, Mapping):
        raise ValueError('Budgets are written by task type, for example {"thread": {"ceiling": 12000}}.')
    for task, overrides in budgets.items():
        if task not in BUDGETS:
            raise ValueError(f"There is no task type {task!r}. Known: {', '.join(BUDGETS)}.")
        if not isinstance(overrides, Mapping):
            raise ValueError(f'The budget for {task} must name its parts, for example {{"ceiling": 12000}}.')
        with_overrides(BUDGETS[task], overrides)

"""Completion of arguments: what may stand for the next argument of a prompt or a resource template, as the caller sees
it. Ids are proposed by their first digits, or by words of what they stand for."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

import mcp_types as types

from knowledge.queries import entries_by_hint
from openvibe.chat.queries import agents_by_hint, threads_by_hint
from openvibe.workspaces.access import Access

MAX_VALUES = 100
"""The protocol's limit of one answer."""

Source = Callable[[Access, str], Iterable[object]]


def complete(access: Access, argument: str, hint: str, *, tasks: Iterable[str]) -> types.Completion:
    """Proposes at most MAX_VALUES values for the argument of this name; none for one that takes any text."""
    sources: Mapping[str, Source] = {
        "thread": threads_by_hint,
        "entry": entries_by_hint,
        "agent": agents_by_hint,
        "task": lambda access, hint: (task for task in tasks if task.startswith(hint.lower())),
    }
    if argument not in sources:
        return types.Completion(values=[], total=0, has_more=False)
    values = [str(value) for value in islice(sources[argument](access, hint), MAX_VALUES + 1)]
    has_more = len(values) > MAX_VALUES
    return types.Completion(values=values[:MAX_VALUES], total=None if has_more else len(values), has_more=has_more)

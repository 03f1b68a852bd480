"""Which tool call a result answers: the same for every plugin and for prompts. Pure."""

from collections.abc import Iterable

PAIR_REACH = 200
"""A tool's result belongs to a call at most so many messages before it; farther apart they are orphans."""


def pairs_of(lines: Iterable[tuple[int, str, str]]) -> list[tuple[int, int]]:
    """Tool calls with their results, as indices into the lines, by result: a result answers the newest call of its id
    that is within reach and has no result yet. A line is a message's number, its kind and its call id."""
    waiting: dict[str, tuple[int, int]] = {}
    found = []
    for at, (number, kind, call_id) in enumerate(lines):
        if kind == "tool_call" and call_id:
            waiting[call_id] = at, number
        elif kind == "tool_result" and call_id in waiting:
            call, said = waiting.pop(call_id)
            if number - said <= PAIR_REACH:
                found.append((call, at))
    return found

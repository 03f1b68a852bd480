"""What an agent changed in a file, as a unified diff of bounded size and cost."""

import difflib
import re
from itertools import islice, takewhile
from typing import Any

MAX_DIFF_CHARACTERS, MAX_TEXT_CHARACTERS = 20_000, 8_000_000
MAX_COMPARED_LINES = 2_000
"""More changed lines than these are shown as taken out and put in whole: comparing them takes minutes."""


def file_change(path: str, old: str, new: str) -> dict[str, Any]:
    """`path`, `diff` (what does not fit is cut, and said), and how many lines were `added` and `removed`."""
    before, after = old[:MAX_TEXT_CHARACTERS].splitlines(), new[:MAX_TEXT_CHARACTERS].splitlines()
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    rests = zip(reversed(before[head:]), reversed(after[head:]), strict=False)
    tail = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], rests))
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    if max(len(removed), len(added)) <= MAX_COMPARED_LINES:
        start = max(0, head - 3)  # lines of context stay, so that a long file costs what its change costs
        old_part, new_part = (lines[start : len(lines) - max(0, tail - 3)] for lines in (before, after))
        hunks = islice(difflib.unified_diff(old_part, new_part, lineterm=""), 2, None)
        lines = [_moved(line, start) if line.startswith("@@ ") else line for line in hunks]
    else:
        spans = f"@@ -{head + 1},{len(removed)} +{head + 1},{len(added)} @@"
        lines = [spans, *(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
    counts = {name: sum(line.startswith(sign) for line in lines) for name, sign in (("added", "+"), ("removed", "-"))}
    return {"path": path[:1_000], "diff": _bounded(lines), **counts}


def _moved(header: str, lines: int) -> str:
    """A hunk's header, so many lines further down."""
    return re.sub(r"([-+])(\d+)", lambda place: f"{place[1]}{int(place[2]) + lines}", header)


def _bounded(lines: list[str]) -> str:
    kept: list[str] = []
    room = MAX_DIFF_CHARACTERS - 80
    for place, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*kept, f"[{len(lines) - place:,} more lines of this diff were cut.]"])
        kept.append(line)
    return "\n".join(kept)

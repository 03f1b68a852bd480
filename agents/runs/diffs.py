"""Unified diffs that agents elsewhere tell of: counted whole, kept in part, and read line by line for pages. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

MAX_SHOWN_LINES = 400
"""Lines of one diff that a page shows at once."""


class CutDiff(NamedTuple):
    """The beginning of a diff, in whole lines; the lines that the whole of it adds and removes, and those not kept."""

    text: str
    added: int
    removed: int
    unkept_lines: int


class DiffLine(NamedTuple):
    """`kind`: add, del, hunk, file or same."""

    kind: str
    text: str


def cut_diff(diff: str, limit: int) -> CutDiff:
    """The first `limit` characters of a diff at most; a single line that is longer is cut where it is."""
    lines = [f"{line}\n" for line in split_lines(diff)]
    if lines and not diff.endswith("\n"):
        lines[-1] = lines[-1][:-1]
    kinds = [line.kind for line in _read(lines)]
    length, kept = 0, 0
    for line in lines:
        if length + len(line) > limit:
            break
        length, kept = length + len(line), kept + 1
    text = diff[:length] or diff[:limit]
    return CutDiff(text, kinds.count("add"), kinds.count("del"), len(lines) - kept)


def read_diff(diff: str, limit: int = MAX_SHOWN_LINES) -> tuple[DiffLine, ...]:
    """The first lines of a diff, each with what it is."""
    return tuple(_read(split_lines(diff)[:limit]))


def split_lines(diff: str) -> list[str]:
    """The lines of a diff, which newlines alone end."""
    lines = diff.split("\n")
    return lines if lines[-1] else lines[:-1]


def _read(lines: list[str]) -> Iterator[DiffLine]:
    is_head = True
    for line in lines:
        if line.startswith("@@"):
            is_head = False
            yield DiffLine("hunk", line)
        elif line.startswith(("diff ", "index ")) or (is_head and line.startswith(("--- ", "+++ "))):
            is_head = True
            yield DiffLine("file", line)
        elif line.startswith("+"):
            yield DiffLine("add", line)
        elif line.startswith("-"):
            yield DiffLine("del", line)
        else:
            yield DiffLine("same", line)

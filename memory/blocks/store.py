"""Where blocks are kept. A store knows no rules: it holds still what changes, and asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import RLock
from typing import Protocol

from memory.blocks.values import Author, ContextBlock

Change = Callable[[ContextBlock | None], ContextBlock]
"""Given what is stored (None: nothing), what shall be; or it raises, and nothing changes."""

Check = Callable[[ContextBlock], None]
"""Raises when this block must not go."""


class BlockStore(Protocol):
    """The blocks of one agent. Writers wait for each other: between what `change` or `check` is shown and what is
    written, nobody else writes. The rules are asked in there, and stand in `ContextBlocks`."""

    def get_blocks(self) -> list[ContextBlock]:
        """All of them, sorted by label."""

    def get_block(self, label: str) -> ContextBlock | None: ...

    def set_block(self, label: str, change: Change, author: Author) -> ContextBlock:
        """Store what `change` makes of the block, as its next version (the first is 1) by `author`; as stored.
        Nothing is written, and no version made, when it stays the same."""

    def delete_block(self, label: str, check: Check) -> bool:
        """Whether there was one."""

    def clear_blocks(self, check: Check) -> int:
        """Delete all or, when `check` raises for one, none; how many."""


class InMemoryBlocks:
    """A store for trials and tests; gone with the process."""

    def __init__(self) -> None:
        self._blocks: dict[str, ContextBlock] = {}
        self._made = 0
        self._lock = RLock()

    def get_blocks(self) -> list[ContextBlock]:
        return [self._blocks[label] for label in sorted(self._blocks)]

    def get_block(self, label: str) -> ContextBlock | None:
        return self._blocks.get(label)

    def set_block(self, label: str, change: Change, author: Author) -> ContextBlock:
        with self._lock:
            current = self._blocks.get(label)
            wanted = change(current)
            if wanted == current:
                return wanted
            if current is None:
                self._made += 1
            number = current.id if current else self._made
            stored = replace(wanted, id=number, version=(current.version if current else 0) + 1)
            self._blocks[label] = stored
            return stored

    def delete_block(self, label: str, check: Check) -> bool:
        with self._lock:
            current = self._blocks.get(label)
            if current is None:
                return False
            check(current)
            del self._blocks[label]
            return True

    def clear_blocks(self, check: Check) -> int:
        with self._lock:
            for block in self.get_blocks():
                check(block)
            cleared = len(self._blocks)
            self._blocks.clear()
            return cleared

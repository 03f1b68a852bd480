"""A store of blocks that is gone with the process; it keeps the promises of the one in the database."""

from dataclasses import replace
from threading import RLock

from memory.blocks.context_blocks import BlockStore, BlockUpdate, DeleteCheck
from memory.blocks.values import BlockAuthor, ContextBlock


class InMemoryBlocks(BlockStore):
    def __init__(self) -> None:
        super().__init__(agent_id=0)
        self._blocks: dict[str, ContextBlock] = {}
        self._last_id = 0
        self._lock = RLock()

    def get_blocks(self) -> list[ContextBlock]:
        return [self._blocks[label] for label in sorted(self._blocks)]

    def get_block(self, label: str) -> ContextBlock | None:
        return self._blocks.get(label)

    def set_block(self, label: str, change: BlockUpdate, author: BlockAuthor) -> ContextBlock:
        with self._lock:
            current = self._blocks.get(label)
            updated = change(current)
            if updated == current:
                return updated
            if current is None:
                self._last_id += 1
            number = current.id if current else self._last_id
            stored = replace(updated, id=number, version=(current.version if current else 0) + 1)
            self._blocks[label] = stored
            return stored

    def delete_block(self, label: str, check: DeleteCheck) -> bool:
        with self._lock:
            current = self._blocks.get(label)
            if current is None:
                return False
            check(current)
            del self._blocks[label]
            return True

    def clear_blocks(self, check: DeleteCheck) -> int:
        with self._lock:
            for block in self.get_blocks():
                check(block)
            cleared = len(self._blocks)
            self._blocks.clear()
            return cleared

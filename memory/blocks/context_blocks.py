"""Context blocks of an agent: `ContextBlocks` holds the rules, a `BlockStore` keeps the blocks (database or memory)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import RLock
from typing import Protocol

from django.db import transaction

from memory.blocks import values
from memory.blocks.models import Block, CarriedVersion
from memory.blocks.values import PREDEFINED_BLOCKS, UNSTORED, BlockAuthor, ContextBlock
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.llm.fences import fence
from openvibe.llm.values import ToolSpec
from openvibe.workspaces.models import Participant

BlockUpdate = Callable[[ContextBlock | None], ContextBlock]
"""Given what is stored (None: nothing), what shall be; or it raises, and nothing changes."""

DeleteCheck = Callable[[ContextBlock], None]
"""Raises when this block must not go."""


class BlockStore(Protocol):
    """The blocks of one agent. Writers wait for each other: between what `change` or `check` is shown and what is
    written, nobody else writes. The rules are asked in there, and stand in `ContextBlocks`."""

    def get_blocks(self) -> list[ContextBlock]:
        """All of them, sorted by label."""

    def get_block(self, label: str) -> ContextBlock | None: ...

    def set_block(self, label: str, change: BlockUpdate, author: BlockAuthor) -> ContextBlock:
        """Store what `change` makes of the block, as its next version (the first is 1) by `author`; as stored.
        Nothing is written, and no version made, when it stays the same."""

    def delete_block(self, label: str, check: DeleteCheck) -> bool:
        """Whether there was one."""

    def clear_blocks(self, check: DeleteCheck) -> int:
        """Delete all or, when `check` raises for one, none; how many."""


class InMemoryBlocks:
    """A store for trials and tests; gone with the process."""

    def __init__(self) -> None:
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


BLOCKS_CHANGED = "blocks_changed"
"""The event open pages hear of."""


class DatabaseBlocks:
    """The blocks of an agent (a participant's id). Its writers wait for each other at the participant's row."""

    def __init__(self, agent_id: int) -> None:
        self.agent_id = agent_id

    def get_blocks(self) -> list[ContextBlock]:
        return sorted(
            map(to_context_block, Block.objects.filter(agent_id=self.agent_id)), key=lambda block: block.label
        )

    def get_block(self, label: str) -> ContextBlock | None:
        row = self._row(label)
        return to_context_block(row) if row else None

    @transaction.atomic
    def set_block(self, label: str, change: BlockUpdate, author: BlockAuthor) -> ContextBlock:
        workspace_id = self._lock_agent()
        row = self._row(label)
        current = to_context_block(row) if row else None
        updated = change(current)
        if updated == current:
            return updated
        row = row or Block(agent_id=self.agent_id, label=label, version=0)
        row.description, row.content, row.tokens = updated.description, updated.content, updated.tokens
        row.max_tokens, row.readonly = updated.max_tokens, updated.readonly
        row.version, row.changed_by_id = row.version + 1, author.participant_id
        row.save()
        CarriedVersion.objects.create(
            block=row, number=row.version, content=row.content, author_id=author.participant_id, how=author.how
        )
        emit(BLOCKS_CHANGED, workspace_id=workspace_id)
        return to_context_block(row)

    @transaction.atomic
    def delete_block(self, label: str, check: DeleteCheck) -> bool:
        workspace_id = self._lock_agent()
        row = self._row(label)
        if row is None:
            return False
        check(to_context_block(row))
        row.delete()
        emit(BLOCKS_CHANGED, workspace_id=workspace_id)
        return True

    @transaction.atomic
    def clear_blocks(self, check: DeleteCheck) -> int:
        workspace_id = self._lock_agent()
        rows = Block.objects.filter(agent_id=self.agent_id)
        blocks = [to_context_block(row) for row in rows]
        for block in blocks:
            check(block)
        rows.delete()
        if blocks:
            emit(BLOCKS_CHANGED, workspace_id=workspace_id)
        return len(blocks)

    def _row(self, label: str) -> Block | None:
        return Block.objects.filter(agent_id=self.agent_id, label=label).first()

    def _lock_agent(self) -> int:
        """The agent's row until the transaction ends, so that two first writes are one after the other, too."""
        rows = Participant.objects.select_for_update(of=("self",), no_key=True).filter(pk=self.agent_id)
        workspace_id = rows.values_list("workspace_id", flat=True).first()
        if workspace_id is None:
            raise Missing
        return workspace_id


def to_context_block(row: Block) -> ContextBlock:
    return ContextBlock(
        row.label, row.description, row.content, row.max_tokens, row.readonly, version=row.version, id=row.pk
    )


TOOL_NAME = "update_context_block"
BlockList = list[ContextBlock]


class ContextBlocks:
    """The blocks of one agent, written by `author` (the agent itself, unless said otherwise).

    Predefined blocks appear where nothing of their label is stored; they are stored when they are first written, so
    deleting or clearing arms them again, and reading never writes. `seen` is a block's stamp as the writer read it:
    Conflict when it was changed, deleted or made again since. Every write raises Refused for a deactivated agent.
    """

    def __init__(
        self,
        agent: Participant,
        store: BlockStore | None = None,
        *,
        author: BlockAuthor | None = None,
        predefined: Sequence[ContextBlock] = PREDEFINED_BLOCKS,
    ) -> None:
        self.agent = agent
        self.store: BlockStore = store if store is not None else DatabaseBlocks(agent.pk)
        self.author = author if author is not None else BlockAuthor(agent.pk)
        self.predefined = {block.label: replace(block, id=0, version=0) for block in predefined}
        for block in self.predefined.values():
            values.check_label(block.label)
            values.check_fits(block)

    def list(self) -> BlockList:
        """All blocks, sorted by label. One query."""
        blocks = self.predefined | {block.label: block for block in self.store.get_blocks()}
        return [blocks[label] for label in sorted(blocks)]

    def get(self, label: str) -> ContextBlock | None:
        return self.store.get_block(label) or self.predefined.get(label)

    def set(
        self,
        label: str,
        content: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        readonly: bool | None = None,
        seen: str | None = None,
    ) -> ContextBlock:
        """Create or replace; what is None stays as it is. Raises Problem (too long), Refused (readonly; a limit or
        flag that is not the author's to set), Conflict."""
        values.check_label(label)
        cleaned_content = values.clean_block_text(content, field="content")
        cleaned_description = (
            None if description is None else " ".join(values.clean_block_text(description, field="description").split())
        )

        def change(stored: ContextBlock | None) -> ContextBlock:
            before = self._current_block(label, stored, seen)
            base = before or ContextBlock(label)
            after = replace(
                base,
                content=cleaned_content,
                description=base.description if cleaned_description is None else cleaned_description,
                max_tokens=base.max_tokens if max_tokens is None else max_tokens,
                readonly=base.readonly if readonly is None else readonly,
            )
            values.check_change(before, after, self.author)
            if before is None:
                self._check_block_count()
            return after

        return self._store(label, change)

    def create(
        self,
        label: str,
        content: str,
        *,
        description: str = "",
        max_tokens: int | None = None,
        readonly: bool | None = None,
    ) -> ContextBlock:
        """Like `set`, but Conflict when the agent has a block of this label."""
        values.check_label(label)
        if self.store.get_block(label) is not None:
            raise Conflict(f'Block "{label}" is there already. Change it, or choose another label.', code="taken")
        return self.set(
            label, content, description=description or None, max_tokens=max_tokens, readonly=readonly, seen=UNSTORED
        )

    def append(self, label: str, content: str, *, seen: str | None = None) -> ContextBlock:
        """Add a line at the end. Raises Missing, and otherwise what `set` raises."""
        cleaned_content = values.clean_block_text(content, field="content")

        def change(stored: ContextBlock | None) -> ContextBlock:
            before = self._current_block(label, stored, seen)
            if before is None:
                raise values.block_missing(label)
            after = replace(
                before, content=f"{before.content}\n{cleaned_content}" if before.content else cleaned_content
            )
            values.check_writable(before)
            values.check_change(before, after, self.author)
            return after

        return self._store(label, change)

    def delete(self, label: str, *, seen: str | None = None) -> None:
        """Raises Missing, Refused (readonly), Conflict. A predefined block that nobody wrote stays as it is."""
        self._check_active()

        def check(block: ContextBlock) -> None:
            values.check_stamp(block, label, seen, UNSTORED)
            values.check_writable(block)

        if not self.store.delete_block(label, check) and label not in self.predefined:
            raise values.block_missing(label)

    def clear(self) -> int:
        """Delete all of them; how many. Raises Refused, and deletes none, when one is readonly."""
        self._check_active()
        return self.store.clear_blocks(values.check_writable)

    def tool(self) -> ToolSpec | None:
        """What the agent is offered to write its blocks with; None when there is nothing it may write. One query.

        Of descriptions only the built-in ones are told: a tool's definition is trusted text.
        """
        writable = [block.label for block in self.list() if not block.readonly]
        if not writable or not self.agent.is_active:
            return None
        descriptions = [
            f"{label}: {self.predefined[label].description}" for label in writable if label in self.predefined
        ]
        return ToolSpec(
            TOOL_NAME,
            "\n".join(["Write a context block, a note you carry in every prompt. Keep it short.", *descriptions]),
            {
                "type": "object",
                "properties": {
                    "label": {"type": "string", "enum": writable},
                    "content": {"type": "string"},
                    "action": {"type": "string", "enum": ["replace", "append"]},
                },
                "required": ["label", "content"],
                "additionalProperties": False,
            },
        )

    def text(self) -> str:
        """The blocks that say something, as prompts show them; "" when none does."""
        return "\n\n".join(
            fence(
                "context_block",
                block.content,
                label=block.label,
                description=block.description or None,
                readonly="true" if block.readonly else None,
            )
            for block in self.list()
            if block.content
        )

    def _store(self, label: str, change: BlockUpdate) -> ContextBlock:
        self._check_active()
        return self.store.set_block(label, change, self.author)

    def _current_block(self, label: str, stored: ContextBlock | None, seen: str | None) -> ContextBlock | None:
        """What is there now, predefined or stored. Raises Conflict when the writer has seen something else."""
        values.check_stamp(stored, label, seen, UNSTORED)
        return stored or self.predefined.get(label)

    def _check_block_count(self) -> None:
        if len(self.list()) >= values.MAX_BLOCKS:
            raise Problem(f"An agent has at most {values.MAX_BLOCKS} blocks. Delete one first.", code="too_many")

    def _check_active(self) -> None:
        if not self.agent.is_active:
            raise Refused(f"@{self.agent.handle} is deactivated. Bring it back before changing what it carries.")

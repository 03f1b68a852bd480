"""Context blocks of one agent: `ContextBlocks` holds the rules, a `BlockStore` the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory.blocks import values
from memory.blocks.store import BlockStore, BlockUpdate
from memory.blocks.values import PREDEFINED_BLOCKS, UNSTORED, BlockAuthor, ContextBlock
from openvibe.base.problems import Conflict, Problem
from openvibe.llm.fences import fence
from openvibe.llm.values import ToolSpec
from openvibe.workspaces.models import Participant

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
        self.store = store or BlockStore(agent.pk)
        self.author = author or BlockAuthor(agent.pk)
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

    def access(self, label: str) -> ContextBlock:
        """Like `get`. Raises Missing when there is none."""
        block = self.get(label)
        if block is None:
            raise values.block_missing(label)
        return block

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
        cleaned_content = values.clean_text(content, field="content")
        cleaned_description = (
            None if description is None else " ".join(values.clean_text(description, field="description").split())
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
        cleaned_content = values.clean_text(content, field="content")

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
            values.check_stamp(block, label, seen)
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
        values.check_stamp(stored, label, seen)
        return stored or self.predefined.get(label)

    def _check_block_count(self) -> None:
        if len(self.list()) >= values.MAX_BLOCKS:
            raise Problem(f"An agent has at most {values.MAX_BLOCKS} blocks. Delete one first.", code="too_many")

    def _check_active(self) -> None:
        values.check_active(self.agent.handle, self.agent.is_active, "what it carries")

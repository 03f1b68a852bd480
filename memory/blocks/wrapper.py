"""All rules of context blocks, whatever store keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory.blocks import rules
from memory.blocks.database import DatabaseBlocks
from memory.blocks.predefined import PREDEFINED
from memory.blocks.store import BlockStore, Change
from memory.blocks.values import UNSTORED, Author, ContextBlock
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.llm.fences import fence
from openvibe.llm.values import ToolSpec
from openvibe.workspaces.models import Participant

TOOL = "update_context_block"
Blocks = list[ContextBlock]


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
        author: Author | None = None,
        predefined: Sequence[ContextBlock] = PREDEFINED,
    ) -> None:
        self.agent = agent
        self.store: BlockStore = store if store is not None else DatabaseBlocks(agent.pk)
        self.author = author if author is not None else Author(agent.pk)
        self.predefined = {block.label: replace(block, id=0, version=0) for block in predefined}
        for block in self.predefined.values():
            rules.check_label(block.label)
            rules.check_fits(block)

    def list(self) -> Blocks:
        """All blocks, sorted by label. One query."""
        found = self.predefined | {block.label: block for block in self.store.get_blocks()}
        return [found[label] for label in sorted(found)]

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
        rules.check_label(label)
        words = rules.clean_text(content, field="content")
        about = None if description is None else " ".join(rules.clean_text(description, field="description").split())

        def change(stored: ContextBlock | None) -> ContextBlock:
            before = self._before(label, stored, seen)
            base = before or ContextBlock(label)
            after = replace(
                base,
                content=words,
                description=base.description if about is None else about,
                max_tokens=base.max_tokens if max_tokens is None else max_tokens,
                readonly=base.readonly if readonly is None else readonly,
            )
            rules.check_change(before, after, self.author)
            if before is None:
                self._check_room()
            return after

        return self._stored(label, change)

    def create(
        self, label: str, content: str, *, description: str = "", max_tokens: int | None = None,
        readonly: bool | None = None,
    ) -> ContextBlock:  # fmt: skip
        """Like `set`, but Conflict when the agent has a block of this label."""
        rules.check_label(label)
        if self.store.get_block(label) is not None:
            raise Conflict(f'Block "{label}" is there already. Change it, or choose another label.', code="taken")
        return self.set(
            label, content, description=description or None, max_tokens=max_tokens, readonly=readonly, seen=UNSTORED
        )

    def append(self, label: str, content: str, *, seen: str | None = None) -> ContextBlock:
        """Add a line at the end. Raises Missing, and otherwise what `set` raises."""
        more = rules.clean_text(content, field="content")

        def change(stored: ContextBlock | None) -> ContextBlock:
            before = self._before(label, stored, seen)
            if before is None:
                raise rules.missing(label)
            after = replace(before, content=f"{before.content}\n{more}" if before.content else more)
            rules.check_writable(before)
            rules.check_change(before, after, self.author)
            return after

        return self._stored(label, change)

    def delete(self, label: str, *, seen: str | None = None) -> None:
        """Raises Missing, Refused (readonly), Conflict. A predefined block that nobody wrote stays as it is."""
        self._check_active()

        def check(block: ContextBlock) -> None:
            rules.check_seen(block, label, seen, UNSTORED)
            rules.check_writable(block)

        if not self.store.delete_block(label, check) and label not in self.predefined:
            raise rules.missing(label)

    def clear(self) -> int:
        """Delete all of them; how many. Raises Refused, and deletes none, when one is readonly."""
        self._check_active()
        return self.store.clear_blocks(rules.check_writable)

    def tool(self) -> ToolSpec | None:
        """What the agent is offered to write its blocks with; None when there is nothing it may write. One query.

        Of descriptions only the built-in ones are told: a tool's definition is trusted text.
        """
        writable = [block.label for block in self.list() if not block.readonly]
        if not writable or not self.agent.is_active:
            return None
        known = [f"{label}: {self.predefined[label].description}" for label in writable if label in self.predefined]
        return ToolSpec(
            TOOL,
            "\n".join(["Write a context block, a note you carry in every prompt. Keep it short.", *known]),
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

    def _stored(self, label: str, change: Change) -> ContextBlock:
        self._check_active()
        return self.store.set_block(label, change, self.author)

    def _before(self, label: str, stored: ContextBlock | None, seen: str | None) -> ContextBlock | None:
        """What is there now, predefined or stored. Raises Conflict when the writer has seen something else."""
        rules.check_seen(stored, label, seen, UNSTORED)
        return stored or self.predefined.get(label)

    def _check_room(self) -> None:
        if len(self.list()) >= rules.BLOCKS:
            raise Problem(f"An agent has at most {rules.BLOCKS} blocks. Delete one first.", code="too_many")

    def _check_active(self) -> None:
        if not self.agent.is_active:
            raise Refused(f"@{self.agent.handle} is deactivated. Bring it back before changing what it carries.")

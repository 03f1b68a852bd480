"""Context blocks of one agent, their rules (`ContextBlocks`) and their storage (`BlockStore`). Profile notes are stored
alike: one text for each agent and key (a block's label, a note's person), and a version with its author for every
change. Writers wait for each other at the agent's row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from django.db import transaction
from django.db.models import QuerySet

from memory.blocks import values
from memory.blocks.models import Block, CarriedVersion, ProfileNote
from memory.blocks.values import NO_STAMP, PREDEFINED_BLOCKS, BlockAuthor, ContextBlock
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing, Problem
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.models import Participant

BLOCKS_CHANGED = "blocks_changed"
"""The event open pages hear of, for blocks and for notes: they stand beside each other."""


RowT = TypeVar("RowT", Block, ProfileNote)


@dataclass(frozen=True)
class TextKind(Generic[RowT]):
    """One of the two kinds: its model, the column that is the key beside the agent, how a version names its row."""

    model: type[RowT]
    key: str
    version_link: str

    def find(self, agent_id: int, key: str | int) -> RowT | None:
        return self.model.objects.filter(agent_id=agent_id, **{self.key: key}).first()

    def find_or_new(self, agent_id: int, key: str | int) -> RowT:
        """The row; where there is none, a new one, not stored yet, of version 0."""
        return self.find(agent_id, key) or self.model(agent_id=agent_id, version=0, **{self.key: key})

    def versions(self, agent_id: int, key: str | int) -> QuerySet[CarriedVersion]:
        link = self.version_link
        return CarriedVersion.objects.filter(**{f"{link}__agent": agent_id, f"{link}__{self.key}": key})


BLOCKS, NOTES = TextKind(Block, "label", "block"), TextKind(ProfileNote, "person_id", "note")


def lock_agent(agent_id: int) -> int:
    """Locks the agent's row until the transaction ends, so that two first writes are one after the other, too; returns
    the id of its workspace. Raises Missing."""
    rows = Participant.objects.select_for_update(of=("self",), no_key=True)
    agents = rows.filter(pk=agent_id, kind=Participant.Kind.AGENT)
    workspace_id = agents.values_list("workspace_id", flat=True).first()
    if workspace_id is None:
        raise Missing
    return workspace_id


def save_version(row: Block | ProfileNote, *, content: str, tokens: int, author: BlockAuthor) -> None:
    """Stores the row with this content as its next version. The caller holds the agent's lock."""
    row.content, row.tokens = content, tokens
    row.version, row.changed_by_id = row.version + 1, author.participant_id
    row.save()
    row.versions.create(number=row.version, content=content, author_id=author.participant_id, how=author.how)


BlockUpdate = Callable[[ContextBlock | None], ContextBlock]
"""Given what is stored (None: nothing), what shall be; or it raises, and nothing changes."""

DeleteCheck = Callable[[ContextBlock], None]
"""Raises when this block must not go."""


@CompiledQuery
def _blocks_of(agent_id: int) -> QuerySet[Block]:
    return Block.objects.filter(agent=agent_id).order_by()


class BlockStore:
    """The blocks of one agent (a participant's id). Writers wait for each other: between what `change` or `check` is
    shown and what is written, nobody else writes. The rules are asked in there, and stand in `ContextBlocks`."""

    def __init__(self, agent_id: int) -> None:
        self.agent_id = agent_id

    def get_blocks(self) -> list[ContextBlock]:
        """All of them, sorted by label."""
        rows = _blocks_of.objects(self.agent_id)
        return sorted(map(to_context_block, rows), key=lambda block: block.label)

    def get_block(self, label: str) -> ContextBlock | None:
        row = BLOCKS.find(self.agent_id, label)
        return to_context_block(row) if row else None

    @transaction.atomic
    def set_block(self, label: str, change: BlockUpdate, author: BlockAuthor) -> ContextBlock:
        """Stores what `change` makes of the block, as its next version (the first is 1) by `author`; returns it as
        stored. Nothing is written, and no version made, when it stays the same."""
        workspace_id = lock_agent(self.agent_id)
        row = BLOCKS.find_or_new(self.agent_id, label)
        current = to_context_block(row) if row.pk else None
        updated = change(current)
        if updated == current:
            return updated
        row.description, row.max_tokens, row.readonly = updated.description, updated.max_tokens, updated.readonly
        save_version(row, content=updated.content, tokens=updated.tokens, author=author)
        emit(BLOCKS_CHANGED, workspace_id=workspace_id)
        return to_context_block(row)

    def delete_block(self, label: str, check: DeleteCheck) -> bool:
        """Whether there was one."""
        return self._delete(Block.objects.filter(label=label), check) > 0

    def clear_blocks(self, check: DeleteCheck) -> int:
        """Deletes all or, when `check` raises for one, none; returns how many."""
        return self._delete(Block.objects.all(), check)

    @transaction.atomic
    def _delete(self, rows: QuerySet[Block], check: DeleteCheck) -> int:
        workspace_id = lock_agent(self.agent_id)
        rows = rows.filter(agent_id=self.agent_id)
        blocks = [to_context_block(row) for row in rows]
        for block in blocks:
            check(block)
        rows.delete()
        if blocks:
            emit(BLOCKS_CHANGED, workspace_id=workspace_id)
        return len(blocks)


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
        """The block that `get` gives. Raises Missing when there is none."""
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
        based_on: str | None = None,
    ) -> ContextBlock:
        """Creates or replaces the block; what is None stays as it is. Raises Problem (too long), Refused (readonly; a
        limit or flag that is not the author's to set), Conflict."""
        values.check_label(label)
        cleaned_content = values.clean_block_text(content, field="content")
        cleaned_description = (
            None if description is None else " ".join(values.clean_block_text(description, field="description").split())
        )

        def change(stored: ContextBlock | None) -> ContextBlock:
            before = self._current_block(label, stored, based_on)
            base = before or ContextBlock(label)
            after = replace(
                base,
                content=cleaned_content,
                description=base.description if cleaned_description is None else cleaned_description,
                max_tokens=base.max_tokens if max_tokens is None else max_tokens,
                readonly=base.readonly if readonly is None else readonly,
            )
            values.check_change(before, after, self.author)
            if before is None and len(self.list()) >= values.MAX_BLOCKS:
                raise Problem(f"An agent has at most {values.MAX_BLOCKS} blocks. Delete one first.", code="too_many")
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
        """Creates a block as `set` does; raises Conflict when the agent has a block of this label."""
        values.check_label(label)
        if self.store.get_block(label) is not None:
            raise Conflict(f'Block "{label}" is there already. Change it, or choose another label.', code="taken")
        return self.set(
            label, content, description=description or None, max_tokens=max_tokens, readonly=readonly, based_on=NO_STAMP
        )

    def append(self, label: str, content: str, *, based_on: str | None = None) -> ContextBlock:
        """Adds a line at the end. Raises Missing, and otherwise what `set` raises."""
        cleaned_content = values.clean_block_text(content, field="content")

        def change(stored: ContextBlock | None) -> ContextBlock:
            before = self._current_block(label, stored, based_on)
            if before is None:
                raise values.block_missing(label)
            after = replace(
                before, content=f"{before.content}\n{cleaned_content}" if before.content else cleaned_content
            )
            values.check_writable(before)
            values.check_change(before, after, self.author)
            return after

        return self._store(label, change)

    def delete(self, label: str, *, based_on: str | None = None) -> None:
        """Raises Missing, Refused (readonly), Conflict. A predefined block that nobody wrote stays as it is."""
        self._check_active()

        def check(block: ContextBlock) -> None:
            values.check_stamp(block, label, based_on)
            values.check_writable(block)

        if not self.store.delete_block(label, check) and label not in self.predefined:
            raise values.block_missing(label)

    def clear(self) -> int:
        """Deletes all of them; returns how many. Raises Refused, and deletes none, when one is readonly."""
        self._check_active()
        return self.store.clear_blocks(values.check_writable)

    def tool(self, blocks: Sequence[ContextBlock] | None = None) -> ToolSpec | None:
        """What the agent is offered to write its blocks with; None when there is nothing it may write. One query,
        unless `blocks` are given, all that it has.

        Of descriptions only the built-in ones are in it: a tool's definition is trusted text.
        """
        writable = [block.label for block in (self.list() if blocks is None else blocks) if not block.readonly]
        if not writable or not self.agent.is_active:
            return None
        descriptions = [
            f"{label}: {self.predefined[label].description}" for label in writable if label in self.predefined
        ]
        return ToolSpec(
            TOOL_NAME,
            "\n".join(["Write a context block, a short note you carry in every prompt.", *descriptions]),
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

    def _current_block(self, label: str, stored: ContextBlock | None, based_on: str | None) -> ContextBlock | None:
        """What is there now, predefined or stored. Raises Conflict when the writer has seen something else."""
        values.check_stamp(stored, label, based_on)
        return stored or self.predefined.get(label)

    def _check_active(self) -> None:
        values.check_active(self.agent.handle, self.agent.is_active, "what it carries")

"""Storage of what an agent carries: blocks and profile notes alike. One text for each agent and key (a block's label,
a note's person), and a version with its author for every change. Writers wait for each other at the agent's row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db import transaction
from django.db.models import QuerySet

from memory.blocks.models import Block, CarriedVersion, ProfileNote
from memory.blocks.values import BlockAuthor, ContextBlock
from openvibe.base.events import emit
from openvibe.base.problems import Missing
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
    """Hold the agent's row until the transaction ends, so that two first writes are one after the other, too; the id
    of its workspace. Raises Missing."""
    rows = Participant.objects.select_for_update(of=("self",), no_key=True)
    agents = rows.filter(pk=agent_id, kind=Participant.Kind.AGENT)
    workspace_id = agents.values_list("workspace_id", flat=True).first()
    if workspace_id is None:
        raise Missing
    return workspace_id


def save_version(row: Block | ProfileNote, *, content: str, tokens: int, author: BlockAuthor) -> None:
    """Store the row with this content as its next version. The caller holds the agent's lock."""
    row.content, row.tokens = content, tokens
    row.version, row.changed_by_id = row.version + 1, author.participant_id
    row.save()
    row.versions.create(number=row.version, content=content, author_id=author.participant_id, how=author.how)


BlockUpdate = Callable[[ContextBlock | None], ContextBlock]
"""Given what is stored (None: nothing), what shall be; or it raises, and nothing changes."""

DeleteCheck = Callable[[ContextBlock], None]
"""Raises when this block must not go."""


class BlockStore:
    """The blocks of one agent (a participant's id). Writers wait for each other: between what `change` or `check` is
    shown and what is written, nobody else writes. The rules are asked in there, and stand in `ContextBlocks`."""

    def __init__(self, agent_id: int) -> None:
        self.agent_id = agent_id

    def get_blocks(self) -> list[ContextBlock]:
        """All of them, sorted by label."""
        rows = Block.objects.filter(agent_id=self.agent_id)
        return sorted(map(to_context_block, rows), key=lambda block: block.label)

    def get_block(self, label: str) -> ContextBlock | None:
        row = BLOCKS.find(self.agent_id, label)
        return to_context_block(row) if row else None

    @transaction.atomic
    def set_block(self, label: str, change: BlockUpdate, author: BlockAuthor) -> ContextBlock:
        """Store what `change` makes of the block, as its next version (the first is 1) by `author`; as stored.
        Nothing is written, and no version made, when it stays the same."""
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
        """Delete all or, when `check` raises for one, none; how many."""
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

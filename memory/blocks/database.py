"""Blocks as rows, every change of them kept as a version."""

from __future__ import annotations

from django.db import transaction

from memory.blocks.store import Change, Check
from memory.blocks.values import Author, ContextBlock
from memory.models import Block, CarriedVersion
from openvibe.base.models import emit
from openvibe.base.problems import Missing
from openvibe.workspaces.models import Participant

CHANGED = "blocks_changed"
"""The event open pages hear of."""


class DatabaseBlocks:
    """The blocks of an agent (a participant's id). Its writers wait for each other at the participant's row."""

    def __init__(self, agent_id: int) -> None:
        self.agent_id = agent_id

    def get_blocks(self) -> list[ContextBlock]:
        return sorted(map(value_of, Block.objects.filter(agent_id=self.agent_id)), key=lambda block: block.label)

    def get_block(self, label: str) -> ContextBlock | None:
        row = self._row(label)
        return value_of(row) if row else None

    @transaction.atomic
    def set_block(self, label: str, change: Change, author: Author) -> ContextBlock:
        workspace_id = self._hold()
        row = self._row(label)
        current = value_of(row) if row else None
        wanted = change(current)
        if wanted == current:
            return wanted
        row = row or Block(agent_id=self.agent_id, label=label, version=0)
        row.description, row.content, row.tokens = wanted.description, wanted.content, wanted.tokens
        row.max_tokens, row.readonly = wanted.max_tokens, wanted.readonly
        row.version, row.changed_by_id = row.version + 1, author.participant_id
        row.save()
        CarriedVersion.objects.create(
            block=row, number=row.version, content=row.content, author_id=author.participant_id, how=author.how
        )
        emit(CHANGED, workspace_id=workspace_id)
        return value_of(row)

    @transaction.atomic
    def delete_block(self, label: str, check: Check) -> bool:
        workspace_id = self._hold()
        row = self._row(label)
        if row is None:
            return False
        check(value_of(row))
        row.delete()
        emit(CHANGED, workspace_id=workspace_id)
        return True

    @transaction.atomic
    def clear_blocks(self, check: Check) -> int:
        workspace_id = self._hold()
        rows = Block.objects.filter(agent_id=self.agent_id)
        found = [value_of(row) for row in rows]
        for block in found:
            check(block)
        rows.delete()
        if found:
            emit(CHANGED, workspace_id=workspace_id)
        return len(found)

    def _row(self, label: str) -> Block | None:
        return Block.objects.filter(agent_id=self.agent_id, label=label).first()

    def _hold(self) -> int:
        """The agent's row until the transaction ends, so that two first writes are one after the other, too."""
        rows = Participant.objects.select_for_update(of=("self",), no_key=True).filter(pk=self.agent_id)
        workspace_id = rows.values_list("workspace_id", flat=True).first()
        if workspace_id is None:
            raise Missing
        return workspace_id


def value_of(row: Block) -> ContextBlock:
    return ContextBlock(
        row.label, row.description, row.content, row.max_tokens, row.readonly, version=row.version, id=row.pk
    )

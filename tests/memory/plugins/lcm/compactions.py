"""Conversations to compact, and compacting them with a model that is told what to say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memory.plugins.base import CompactionResult, Session
from memory.plugins.lcm.compaction import compact_conversation
from memory.plugins.lcm.models import Item
from openvibe.chat.models import Thread
from tests.engines.llm.scripted_client import ScriptedModel, ScriptedReply

BUDGET = 4_000
TEXT = "Prune the roses in March, before the buds open, and burn what was ill. "
GOOD = "Ana said to prune the roses in March, before the buds open."
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def model(*replies: ScriptedReply) -> ScriptedModel:
    return ScriptedModel(replies or (GOOD,))


def fold(session: Session, client: ScriptedModel | None = None, **more: Any) -> CompactionResult:
    options = {"full": False, "config": {}, "client": client or model(), **more}
    return compact_conversation(session, options.pop("budget", BUDGET), **options)


def items(thread: Thread) -> list[tuple[int, int | None]]:
    """Ordinal and depth of each item; None for a message."""
    rows = Item.objects.filter(conversation__thread=thread).order_by("ordinal")
    return list(rows.values_list("ordinal", "summary__depth"))


def depths(thread: Thread) -> list[int]:
    return [depth for _, depth in items(thread) if depth is not None]

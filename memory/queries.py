"""Memory's queries, re-exported from its rooms: what other apps read, as plain values, and the provider protocol."""

from memory.blocks.context_blocks import ContextBlocks
from memory.blocks.queries import blocks_context, is_public_thread, notes_context
from memory.episodes.queries import (
    access_feedback_episode,
    access_workspace_episode,
    count_open_feedback,
    list_feedback,
    list_proposals,
    newest_open_feedback,
    status_label,
)
from memory.plugins.base import (
    ENVELOPE_TOKENS,
    FRESH_TAIL,
    MAX_ENTRY_TOKENS,
    WINDOW_STEP,
    Compactor,
    ContextEntry,
    MemoryProvider,
    Session,
    pair_tool_calls,
)
from memory.plugins.health import CompactionHealth, compaction_health, workspace_compactions, workspace_memories
from memory.plugins.registry import ActivePlugin, active_plugin, provider_for, provider_of
from memory.plugins.sessions import context_budget, message_entries, messages_for_prompts, open_session
from memory.plugins.thread_modes import MemoryMode, is_ignored, memory_mode, memory_mode_of
from memory.plugins.tool import build_tool
from memory.work.queries import access_approval, row_text, visible_work_items

__all__ = [
    "ENVELOPE_TOKENS",
    "FRESH_TAIL",
    "MAX_ENTRY_TOKENS",
    "WINDOW_STEP",
    "ActivePlugin",
    "CompactionHealth",
    "Compactor",
    "ContextBlocks",
    "ContextEntry",
    "MemoryMode",
    "MemoryProvider",
    "Session",
    "access_approval",
    "access_feedback_episode",
    "access_workspace_episode",
    "active_plugin",
    "blocks_context",
    "build_tool",
    "compaction_health",
    "context_budget",
    "count_open_feedback",
    "is_ignored",
    "is_public_thread",
    "list_feedback",
    "list_proposals",
    "memory_mode",
    "memory_mode_of",
    "message_entries",
    "messages_for_prompts",
    "newest_open_feedback",
    "notes_context",
    "open_session",
    "pair_tool_calls",
    "provider_for",
    "provider_of",
    "row_text",
    "status_label",
    "visible_work_items",
    "workspace_compactions",
    "workspace_memories",
]

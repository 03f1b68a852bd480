"""What memory plugs into chat, and where other apps plug into memory: registers, signals, jobs for its workers."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse

from memory.blocks.services import notes_cleared
from memory.episodes.queries import feedback_by_message, feedback_givers
from memory.episodes.session_review import AGENT_CLIENT, REVIEWER_AGENTS
from memory.plugins.answers import answer_from_memory
from memory.plugins.compaction import erase_focus
from memory.plugins.lcm.correction import forget_quoting_summaries
from memory.plugins.map.timeline import PROMPT_HISTORY, PromptPart, PromptReading, Step, steps_beside
from memory.plugins.message_search import SHOWN_MESSAGES
from memory.plugins.tasks import ask_compaction, enqueue_compaction_check_on_commit
from memory.plugins.tool_results import TOOL_RESULTS, read_tool_result
from memory.quotes import MEMORY_QUOTES
from memory.work.approvals import approval_decided
from memory.work.handoff import ACTIONS, HANDOFF_SOURCES, INSTRUCTIONS, RESOURCES, HandoffLine
from memory.work.models import Approval
from memory.work.queries import (
    AGENT_PLANS,
    APPROVAL_CALLS,
    AgentPlanView,
    ApprovalCall,
    PermissionCall,
    count_pending_approvals,
    preferences_by_message,
    visible_approvals,
    visible_work_items,
)
from openvibe.chat.queries import AccessQuery
from openvibe.chat.wiring import (
    INBOX_NOTES,
    LINK_KINDS,
    MESSAGE_DECORATORS,
    PENDING_DECISIONS,
    PERSONAL_MESSAGE_VIEWS,
    QUOTE_KINDS,
    TEXT_ERASERS,
    InboxNote,
    LinkKind,
    LinkPreview,
    TextEraser,
)
from openvibe.workspaces.access import Access

MAX_INBOX_NOTES = 20

__all__ = [
    "ACTIONS",
    "AGENT_CLIENT",
    "AGENT_PLANS",
    "APPROVAL_CALLS",
    "HANDOFF_SOURCES",
    "INSTRUCTIONS",
    "PROMPT_HISTORY",
    "RESOURCES",
    "REVIEWER_AGENTS",
    "SHOWN_MESSAGES",
    "TOOL_RESULTS",
    "AgentPlanView",
    "ApprovalCall",
    "HandoffLine",
    "PermissionCall",
    "PromptPart",
    "PromptReading",
    "Step",
    "answer_from_memory",
    "approval_decided",
    "ask_compaction",
    "enqueue_compaction_check_on_commit",
    "notes_cleared",
    "read_tool_result",
    "steps_beside",
    "wire",
]


def wire() -> None:
    MESSAGE_DECORATORS.add(feedback_by_message)
    MESSAGE_DECORATORS.add(preferences_by_message)
    PERSONAL_MESSAGE_VIEWS.add(feedback_givers)
    TEXT_ERASERS.add(TextEraser("focus of compactions", erase_focus))
    TEXT_ERASERS.add(TextEraser("summaries", forget_quoting_summaries))
    PENDING_DECISIONS.add(count_pending_approvals)
    INBOX_NOTES.add(approval_notes)
    LINK_KINDS.add(LinkKind("work", work_previews))
    for kind in MEMORY_QUOTES:
        QUOTE_KINDS.add(kind)


def work_previews(access: Access, ids: Sequence[int]) -> dict[int, LinkPreview]:
    """What is said of rows of work where an answer cites them, of those the asker may see. One query."""
    rows = visible_work_items(access).filter(pk__in=ids).exclude(message__deleted_at__isnull=False)
    return {
        row.pk: LinkPreview(row.get_kind_display(), row.author.label, " ".join(row.text.split())[:160], row.created_at)
        for row in rows
    }


def approval_notes(access: Access) -> list[InboxNote]:
    """Approvals that the asker may decide, the newest first. Each leads to its thread, with the thread's work beside
    it: there it is decided, and what becomes of it is seen."""
    if access.is_agent or access.is_guest:
        return []
    return [
        InboxNote(
            href=f"{reverse('thread', args=[slug, thread_id])}?{urlencode({'panel': f't/{thread_id}/work/'})}",
            text=f"{name} waits for a decision in “{title}”: {what}",
            at=at,
        )
        for slug, thread_id, title, name, what, at in _requested_approvals.rows(access)
    ]


@AccessQuery
def _requested_approvals(access: Access) -> QuerySet[Any, Any]:
    rows = visible_approvals(access).filter(state=Approval.State.REQUESTED).order_by("-id")
    columns = ("thread__workspace__slug", "thread_id", "thread__title", "requested_by__label", "what", "created_at")
    return rows.values_list(*columns)[:MAX_INBOX_NOTES]

"""The uses of knowledge entries: which runs of agents had them before them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db.models import QuerySet

from agents.agent.models import KnowledgeUse, Run
from knowledge.models import Entry
from openvibe.engines.database.compiled_queries import array_literal
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MAX_USES_SHOWN = 50
"""Uses that an entry's page lists."""

# The entries are locked in one order, so that two runs that use the same ones wait for each other instead of for ever.
_RECORD_USES = """
WITH held AS (
    SELECT id FROM knowledge_entry WHERE id = ANY(%(entries)s::bigint[]) AND workspace_id = %(workspace)s::bigint
    ORDER BY id FOR NO KEY UPDATE
), used AS (
    INSERT INTO agents_knowledgeuse (run_id, entry_id, how) SELECT %(run)s::bigint, id, %(how)s::text FROM held
    ON CONFLICT DO NOTHING RETURNING entry_id
)
UPDATE knowledge_entry SET use_count = use_count + 1, last_used_at = now() FROM used WHERE id = used.entry_id
RETURNING id
"""


@dataclass(frozen=True)
class EntryUse:
    """One run that had an entry before it."""

    run_id: int
    task: str
    agent: Participant
    thread_title: str
    message_id: int
    how: str
    at: datetime


def record_uses(*, run: Run, entry_ids: Collection[int], how: Literal["prompt", "tool"]) -> int:
    """Counts these entries as used by the run, in the caller's transaction. Returns how many were new to the run.

    However often a run meets an entry, it counts once; entries of other workspaces do not count.
    """
    if not entry_ids:
        return 0
    values = {"entries": array_literal(entry_ids), "workspace": run.workspace_id, "run": run.pk, "how": how}
    return len(fetch_prepared(_RECORD_USES, values))


def entry_uses(entry: Entry, access: Access) -> QuerySet[KnowledgeUse]:
    """Uses of an entry in the threads the asker sees, newest first; an agent knows only its own runs.

    The caller has checked that the entry itself is visible.
    """
    runs: QuerySet[Run] = Run.objects.visible_to(access)
    if access.is_agent:
        runs = runs.filter(agent__participant_id=access.participant_id)
    uses = KnowledgeUse.objects.filter(entry=entry, run__in=runs)
    return uses.select_related("run__agent__participant", "run__thread").order_by("-id")


def recent_entry_uses(entry: Entry, access: Access) -> tuple[EntryUse, ...]:
    """The newest uses for the entry's page, at most `MAX_USES_SHOWN`. One query."""
    return tuple(
        EntryUse(
            run_id=use.run_id,
            task=use.run.get_task_display(),
            agent=use.run.agent.participant,
            thread_title=use.run.thread.title,
            message_id=use.run.trigger_id,
            how=use.how,
            at=use.created_at,
        )
        for use in entry_uses(entry, access)[:MAX_USES_SHOWN]
    )

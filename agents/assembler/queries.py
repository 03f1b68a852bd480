"""What a prompt reads of the database besides the conversation: `PromptContext`, in one statement and one row.

Each section owns its sub-select (`JsonRows`) and its rows; here they are put into the one statement."""

from functools import cache
from typing import Any, NamedTuple

from django.db.models import OuterRef, QuerySet

from agents.assembler.sections.blocks import (
    BLOCKS,
    LOADED_SKILLS,
    PROFILE_NOTES,
    BlockRow,
    LoadedSkillRow,
    ProfileNoteRow,
)
from agents.assembler.sections.dive import DIVE_RESULTS, DiveResultRow
from agents.assembler.sections.episodes import EPISODES, EpisodeRow
from agents.assembler.sections.history import MEMORY_PLUGIN, NO_PLUGIN, MemoryPluginRow
from agents.assembler.sections.knowledge import ANY_ENTRY, AnyEntryRow
from agents.assembler.sections.request import QueryScope, ThreadContext, thread_columns, thread_context
from agents.assembler.sections.work import (
    APPROVALS,
    PREVIOUS_TOOLS,
    PROGRESS_ENTRIES,
    TOOL_RESULTS,
    WORK_ITEMS,
    WorkContext,
    work_context,
)
from openvibe.base.query_cache import CompiledQuery, JsonRows, json_object
from openvibe.chat.models import Thread
from openvibe.llm.models import Endpoint
from openvibe.workspaces.access import Access


class ModelWindow(NamedTuple):
    """What an endpoint says about its model. Sizes in tokens."""

    model: str
    context_window: int
    output_reserve: int


def _default_endpoint(_scope: QueryScope) -> QuerySet[Any, Any]:
    return Endpoint.objects.filter(workspace_id=OuterRef("workspace_id"), is_default=True).order_by()


DEFAULT_ENDPOINT = JsonRows("default_endpoint", ModelWindow, _default_endpoint)

FRAGMENTS: tuple[JsonRows[QueryScope, Any], ...] = (
    DEFAULT_ENDPOINT,
    MEMORY_PLUGIN,
    EPISODES,
    BLOCKS,
    PROFILE_NOTES,
    WORK_ITEMS,
    APPROVALS,
    PROGRESS_ENTRIES,
    TOOL_RESULTS,
    LOADED_SKILLS,
    PREVIOUS_TOOLS,
    DIVE_RESULTS,
    ANY_ENTRY,
)
"""The sub-selects of the statement, in their order."""


class PromptContext(NamedTuple):
    """All of one reading: each section is given its own part."""

    thread: ThreadContext
    default_endpoint: ModelWindow | None
    memory_plugin: MemoryPluginRow
    episodes: list[EpisodeRow]
    blocks: list[BlockRow]
    profile_notes: list[ProfileNoteRow]
    loaded_skills: list[LoadedSkillRow]
    work: WorkContext
    dive_results: list[DiveResultRow]
    any_entry: AnyEntryRow | None


def read_prompt_context(access: Access, *, thread_id: int, person_id: int | None) -> PromptContext | None:
    """What the agent may read around the conversation; `person_id` is the participant who asks.

    None when the agent may not see the thread. One query.
    """
    query = _context_query(access.shape)
    rows = query.rows(access.workspace_id, access.participant_id, thread_id, person_id or 0)
    if not rows:
        return None
    answer = rows[0][0]
    return PromptContext(
        thread=thread_context(answer["thread"]),
        default_endpoint=DEFAULT_ENDPOINT.first(answer),
        memory_plugin=MEMORY_PLUGIN.first(answer) or NO_PLUGIN,
        episodes=EPISODES.all(answer),
        blocks=BLOCKS.all(answer),
        profile_notes=PROFILE_NOTES.all(answer),
        loaded_skills=LOADED_SKILLS.all(answer),
        work=work_context(answer),
        dive_results=DIVE_RESULTS.all(answer),
        any_entry=ANY_ENTRY.first(answer),
    )


@cache
def _context_query(shape: Access) -> CompiledQuery:
    """The statement of one kind of access, four numbers to be filled in: which conditions there are depends on it."""

    def statement(workspace_id: int, participant_id: int, thread_id: int, person_id: int) -> QuerySet[Any, Any]:
        access = shape.with_ids(workspace_id, participant_id)
        scope = QueryScope(participant_id, person_id, shape.reads_dive_results)
        parts = {"thread": thread_columns(), **{rows.name: rows.expression(scope) for rows in FRAGMENTS}}
        return Thread.objects.visible_to(access).filter(pk=thread_id).order_by().values_list(json_object(parts))

    return CompiledQuery(statement, 4)

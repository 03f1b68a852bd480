"""The prompt's one statement: what the agent may read besides the conversation, each section's rows a sub-select."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db.models import OuterRef, QuerySet

from agents.prompts.assembler.sections import (
    blocks,
    constraints,
    dive,
    episodes,
    files,
    history,
    identity,
    images,
    knowledge,
    situation,
    work,
)
from agents.prompts.assembler.sections.request import THREAD_COLUMNS, QueryScope
from openvibe.chat.models import Thread
from openvibe.chat.queries import AccessQuery
from openvibe.engines.database.compiled_queries import JsonRows, json_array, json_object
from openvibe.engines.llm.models import Endpoint, may_be_sent_images, reserve_within
from openvibe.workspaces.access import Access


class ModelWindow(NamedTuple):
    """What an endpoint says about its model. Sizes in tokens."""

    model: str
    context_window: int
    output_reserve: int
    learned_window: int | None
    kind: str
    sees_images: bool | None

    @property
    def usable_window(self) -> int:
        """What `Endpoint.usable_window` is."""
        return min(self.context_window, self.learned_window or self.context_window)

    @property
    def usable_reserve(self) -> int:
        return reserve_within(self.output_reserve, self.context_window, self.learned_window)

    @property
    def is_sent_images(self) -> bool:
        """What `Endpoint.is_sent_images` is."""
        return may_be_sent_images(self.kind, self.model, self.sees_images)


def _default_endpoint(_scope: QueryScope) -> QuerySet[Any, Any]:
    return Endpoint.objects.filter(workspace_id=OuterRef("workspace_id"), is_default=True).order_by()


DEFAULT_ENDPOINT = JsonRows("default_endpoint", ModelWindow, _default_endpoint)

FRAGMENTS: tuple[JsonRows[QueryScope, Any], ...] = (
    DEFAULT_ENDPOINT,
    identity.SNIPPETS,
    history.MEMORY_PLUGIN,
    history.LATER_MESSAGES,
    history.FIRST_MESSAGE,
    episodes.FEEDBACK,
    episodes.EPISODES,
    blocks.BLOCKS,
    blocks.PROFILE_NOTES,
    situation.ASKER,
    constraints.CONSTRAINTS,
    work.WORK_ITEMS,
    work.APPROVALS,
    work.PROGRESS_ENTRIES,
    work.TOOL_RESULTS,
    blocks.LOADED_SKILLS,
    work.PREVIOUS_ANSWER,
    dive.DIVE_RESULTS,
    files.FILES,
    images.IMAGES,
    knowledge.ANY_ENTRY,
    knowledge.RECENT,
)
"""The sub-selects of the prompt's one statement, in their order; each stands in the section that reads its rows."""


def read_prompt_rows(
    access: Access, *, thread_id: int, person_id: int | None, request_seq: int = 0, is_draft: bool = False
) -> Mapping[str, Any] | None:
    """What the agent may read besides the conversation: `thread` and the rows of every fragment, by name. One query.

    `person_id` is the participant who asks, `request_seq` the number of the request, `is_draft` whether a result is to
    be drafted. None when the agent may not see the thread.
    """
    answers = _prompt_rows.rows(access, thread_id, person_id or 0, request_seq, is_draft=is_draft)
    return answers[0][0] if answers else None


@AccessQuery
def _prompt_rows(
    access: Access, thread_id: int, person_id: int, request_seq: int, *, is_draft: bool
) -> QuerySet[Any, Any]:
    scope = QueryScope(access.participant_id, person_id, request_seq, is_draft, access)
    parts = {"thread": json_array(THREAD_COLUMNS), **{rows.name: rows.expression(scope) for rows in FRAGMENTS}}
    return Thread.objects.visible_to(access).filter(pk=thread_id).order_by().values_list(json_object(parts))

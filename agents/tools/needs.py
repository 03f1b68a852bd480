"""The rules by which tools of our own are offered at once: those for which there is something. The others are
named by one small tool, which offers them for the rest of the run (`agents.tools.offers`).

The rules ask for what stands in the thread and the workspace, hardly ever for what may go again, and never for the
words of a request: consecutive prompts begin with the same tools."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Exists, Max, Min, OuterRef, Q, QuerySet, Subquery, Sum, TextField, Value, When
from django.db.models.functions import Cast, Coalesce, Concat

from agents.agent.models import LoadedSkill, Run, ToolCall
from agents.prompts.assembler.stack import FIND_TOOL, MORE_TOOLS
from knowledge.models import Entry
from memory.models import Approval, Block, ProgressEntry, WorkItem
from openvibe.chat.models import Message, Thread
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.llm.values import ToolCallRequest

SHORT_THREAD_MESSAGES, SHORT_THREAD_TOKENS = 61, 2_500
"""A thread of so few messages, the request among them, and tokens stands whole in every prompt, that of a small window
too: there is nothing of it to look up."""


class Needs(NamedTuple):
    """What there is in a thread for the tools of an agent; `called`: what it called there before, in the order of the
    first calls, and the id of the last call of each."""

    has_more_to_read: bool = True
    has_work: bool = True
    has_progress: bool = True
    has_approvals: bool = True
    has_blocks: bool = True
    has_knowledge: bool = True
    has_loaded_skills: bool = True
    called: Mapping[str, int] = MappingProxyType({})


NEEDS: Mapping[str, Callable[[Needs], bool]] = {
    "memory": lambda needs: needs.has_more_to_read,
    "update_context_block": lambda needs: needs.has_blocks,
    "log_progress": lambda needs: needs.has_work or needs.has_progress,
    "work_update": lambda needs: needs.has_work,
    "request_approval": lambda needs: needs.has_work or needs.has_approvals,
    "knowledge_search": lambda needs: needs.has_knowledge,
    "knowledge_suggest": lambda needs: needs.has_knowledge,
    "unload_skill": lambda needs: needs.has_loaded_skills,
}
"""The conditions under which each tool of ours is offered at once. The others always are: their factories ask for what
they are about."""


def read_needs(agent_id: int, participant_id: int, thread_id: int) -> Needs:
    """One query. `agent_id` and its `participant_id`."""
    rows = _needs.rows(agent_id, participant_id, thread_id)
    if not rows:
        return Needs()
    *facts, called = rows[0]
    calls = (entry.partition(" ") for entry in called or ())
    return Needs(*facts)._replace(called={name: int(last) for last, _, name in calls})


@CompiledQuery
def _needs(agent_id: int, participant_id: int, thread_id: int) -> QuerySet[Any, Any]:
    messages = Message.objects.filter(thread=OuterRef("pk")).order_by()
    first_messages = messages.filter(seq__lte=SHORT_THREAD_MESSAGES).values("thread")
    tokens: Any = Coalesce(Subquery(first_messages.annotate(total=Sum("token_count")).values("total")), 0)
    here = {"thread": OuterRef("pk")}
    work = WorkItem.objects.filter(**here).exclude(kind=WorkItem.Kind.CONSTRAINT)  # those people set, and take away
    calls = ToolCall.objects.filter(run__thread=OuterRef("pk"), run__agent=agent_id).order_by()
    is_long = Q(last_seq__gt=SHORT_THREAD_MESSAGES) | Q(tokens__gt=SHORT_THREAD_TOKENS)
    entries = Entry.objects.filter(workspace=OuterRef("workspace_id"))
    threads = (
        Thread.objects.filter(pk=thread_id)
        .order_by()
        .annotate(
            tokens=tokens,
            has_more_to_read=Case(When(is_long, then=Value(True)), default=Value(False)),
            has_work=Exists(work.order_by()),
            has_progress=Exists(ProgressEntry.objects.filter(**here).order_by()),
            has_approvals=Exists(Approval.objects.filter(**here).order_by()),
            has_blocks=Exists(Block.objects.filter(agent=participant_id).exclude(content="").order_by()),
            has_knowledge=Exists(entries.order_by()),
            has_loaded_skills=Exists(LoadedSkill.objects.filter(agent=agent_id, **here).order_by()),
            called=ArraySubquery(_names_called(calls)),
        )
    )
    return threads.values_list(*Needs._fields)


def _names_called(calls: QuerySet[ToolCall]) -> QuerySet[Any, Any]:
    """`LAST NAME` of each name that was called, in the order of the first calls."""
    names = calls.values("name").annotate(first=Min("pk"), last=Max("pk")).order_by("first")
    return names.values_list(Concat(Cast("last", TextField()), Value(" "), "name", output_field=TextField()), flat=True)


def earlier_requests(run: Run | None) -> list[ToolCallRequest]:
    """The calls with which earlier attempts of a run asked for tools. One query, of a run that began before."""
    if run is None or run.attempt <= 1:
        return []
    asking = (MORE_TOOLS, FIND_TOOL)
    calls = ToolCall.objects.filter(run=run, name__in=asking, decision=ToolCall.Decision.ALLOWED).order_by("pk")
    return [ToolCallRequest("", *row) for row in calls.values_list("name", "arguments")]

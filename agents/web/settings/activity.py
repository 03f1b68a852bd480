"""The settings page of activity, for owners and admins: what needs a look, 30 days drawn, and long lists of what
happened. No titles and no texts of threads: each is read where the reader's own access goes."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django import forms
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.views.decorators.http import require_safe

from agents.agent.models import Agent, Run, Snapshot
from agents.runs.error_text import read_error
from agents.statistics.overview import Overview, Tile, read_overview
from agents.web.access import check_may
from memory.queries import count_open_feedback, list_feedback, status_label, workspace_compactions, workspace_memories
from openvibe.base.params import int_param
from openvibe.chat.queries import visible_threads
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.queries import background_calls

PAGE_SIZE = 50


class Cell(NamedTuple):
    """A cell of a row: what stands there, and the page it leads to (empty: none)."""

    text: str
    link: str = ""
    is_number: bool = False


class ActivityList(NamedTuple):
    """A list of rows, newest first. `states`: what it can be narrowed to; `cells` of some rows, for this asker."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: Callable[[Access], QuerySet[Any]]
    cells: Callable[[WorkspaceRequest, Sequence[Any]], Iterable[Sequence[Cell]]]
    states: Sequence[tuple[str, str]] = ()


@workspace_view
@require_safe
def activity(request: WorkspaceRequest) -> HttpResponse:
    """The counts and charts of the workspace, and the list that `?list=` names (runs without it), narrowed by
    `?state=`, `?agent=` (an id) and `?before=`."""
    check_may(request, "see what happened in a workspace")
    key = request.GET.get("list", "runs")
    key = key if key in LISTS else "runs"
    shown = LISTS[key]
    form = ActivityFilter(request, shown)
    rows = shown.rows(request.access)
    state, agent = (form.cleaned_data.get(name) for name in ("state", "agent")) if form.is_valid() else ("", None)
    if state:
        rows = rows.filter(is_stuck=True) if key == "threads" else rows.filter(state=state)
    if agent:
        rows = rows.filter(agent=agent)
    if (before := int_param(request.GET, "before")) is not None:
        rows = rows.filter(pk__lt=before)
    page = list(rows[: PAGE_SIZE + 1])
    query = request.GET.copy()
    query.pop("before", None)
    overview = read_overview([request.workspace.pk])
    context = {
        "tiles": _tiles(request, overview),
        "charts": overview.charts,
        "lists": [(name, each.title) for name, each in LISTS.items()],
        "key": key,
        "shown": shown,
        "form": form,
        "is_filtered": bool(state or agent),
        "rows": list(shown.cells(request, page[:PAGE_SIZE])),
        "older": page[PAGE_SIZE - 1].pk if len(page) > PAGE_SIZE else None,
        "query": query.urlencode(),
    }
    return render(request, "agents/settings_activity.html", context)


class ActivityFilter(forms.Form):
    """The fields a list can be narrowed by. What is no choice narrows nothing."""

    state = forms.ChoiceField(required=False, label="State")
    agent = forms.ModelChoiceField(Agent.objects.none(), required=False, label="Agent", empty_label="Any agent")

    def __init__(self, request: WorkspaceRequest, shown: ActivityList) -> None:
        super().__init__(request.GET)
        self.fields["state"].choices = [("", "Any state"), *shown.states]  # type: ignore[attr-defined]  # a field of choices
        agents = Agent.objects.filter(workspace=request.workspace).select_related("participant")
        self.fields["agent"].queryset = agents.order_by("participant__name", "pk")  # type: ignore[attr-defined]  # a field of models
        for name in ("state", "agent"):
            if (name == "state" and not shown.states) or (name == "agent" and shown is not LISTS["runs"]):
                del self.fields[name]


def _tiles(request: WorkspaceRequest, overview: Overview) -> list[Tile]:
    slug, to_review = request.workspace.slug, overview.entries_to_review + overview.contradictions
    return [
        *overview.run_tiles(failed="?list=runs&state=failed", waiting="?list=runs&state=queued"),
        Tile("Open thumbs down", f"{count_open_feedback(request.access):,}", "?list=feedback"),
        Tile("Knowledge to review", f"{to_review:,}", reverse("knowledge-review", args=[slug])),
        overview.expiring_tile(reverse("knowledge", args=[slug], query={"freshness": "expiring"})),
        *overview.memory_tiles(
            waiting="?list=compactions&state=queued",
            failed="?list=compactions&state=failed",
            stuck="?list=threads&state=stuck",
            summarised="?list=compactions&state=done",
            prompts="?list=prompts",
        ),
    ]


def _moment(moment: datetime | None) -> Cell:
    return Cell(date_format(timezone.localtime(moment), "j M Y H:i") if moment else "–")


def _number(number: int | None) -> Cell:
    return Cell("–" if number is None else f"{number:,}", is_number=True)


def _run_cells(request: WorkspaceRequest, runs: Sequence[Run]) -> Iterable[Sequence[Cell]]:
    visible_ids = set(
        Run.objects.visible_to(request.access).filter(pk__in=[run.pk for run in runs]).values_list("pk", flat=True)
    )
    slug = request.workspace.slug
    for run in runs:
        took = (run.finished_at - run.started_at).total_seconds() if run.started_at and run.finished_at else None
        state = run.get_state_display() + (
            f": {read_error(run.error).summary or run.error_code}" if run.state == "failed" else ""
        )
        yield (
            _moment(run.queued_at)._replace(link=reverse("run", args=[slug, run.pk]) if run.pk in visible_ids else ""),
            Cell(run.agent.participant.name, reverse("agent", args=[slug, run.agent.handle])),
            Cell(run.get_task_display()),
            Cell(state),
            Cell(run.model or "–"),
            _number(run.input_tokens),
            _number(run.cached_tokens),
            _number(run.output_tokens),
            Cell("–" if took is None else f"{took:.1f} s", is_number=True),
        )


def _prompt_cells(request: WorkspaceRequest, snapshots: Sequence[Snapshot]) -> Iterable[Sequence[Cell]]:
    for snapshot in snapshots:
        yield (
            _moment(snapshot.created_at),
            Cell(snapshot.run.agent.participant.name),
            Cell(snapshot.task),
            Cell(snapshot.model),
            _number(snapshot.tokens),
            _number(snapshot.budget),
            _number(snapshot.prefix_shared),
            _number(snapshot.included_count),
            _number(snapshot.dropped_count),
        )


def _background_cells(request: WorkspaceRequest, calls: Sequence[Any]) -> Iterable[Sequence[Cell]]:
    for call in calls:
        yield (
            _moment(call.created_at),
            Cell(call.get_purpose_display()),
            Cell(call.agent.name if call.agent else "–"),
            Cell(call.model),
            _number(call.input_tokens),
            _number(call.cached_tokens),
            _number(call.output_tokens),
        )


def _thread_links(request: WorkspaceRequest, rows: Sequence[Any]) -> dict[int, str]:
    """The memory map of those threads of the rows that the asker sees, by the thread's id."""
    model = rows[0]._meta.model if rows else None
    if model is None:
        return {}
    visible = model._default_manager.filter(
        visible_threads(request.access, "thread__"), pk__in=[row.pk for row in rows]
    )
    slug = request.workspace.slug
    return {
        pk: reverse("thread-memory", args=[slug, pk]) for pk in visible.order_by().values_list("thread_id", flat=True)
    }


def _compaction_cells(request: WorkspaceRequest, compactions: Sequence[Any]) -> Iterable[Sequence[Cell]]:
    links = _thread_links(request, compactions)
    for each in compactions:
        yield (
            _moment(each.queued_at),
            Cell(f"Thread {each.thread_id}", links.get(each.thread_id, "")),
            Cell(each.get_trigger_display()),
            Cell(each.get_state_display() + (f": {each.error}" if each.error else "")),
            _number(each.tokens_before),
            _number(each.tokens_after),
            _moment(each.finished_at),
        )


def _memory_cells(request: WorkspaceRequest, conversations: Sequence[Any]) -> Iterable[Sequence[Cell]]:
    links = _thread_links(request, conversations)
    for each in conversations:
        yield (
            Cell(f"Thread {each.thread_id}", links.get(each.thread_id, "")),
            _number(each.thread.last_seq),
            Cell("Yes" if each.is_stuck else "No"),
        )


def _feedback_cells(request: WorkspaceRequest, rows: Sequence[Any]) -> Iterable[Sequence[Cell]]:
    slug = request.workspace.slug
    for each in rows:
        episode = getattr(each, "episode", None)
        yield (
            _moment(each.created_at)._replace(link=reverse("message", args=[slug, each.message_id])),
            Cell(each.get_verdict_display()),
            Cell(each.participant.name),
            Cell(each.message.author.name, reverse("agent", args=[slug, each.message.author.handle])),
            Cell(each.text[:200] or "–"),
            Cell(status_label(episode) if episode else "–"),
        )


def _runs(access: Access) -> QuerySet[Run]:
    rows = Run.objects.filter(workspace=access.workspace_id).select_related("agent__participant")
    return rows.defer("steps").order_by("-id")


def _prompts(access: Access) -> QuerySet[Snapshot]:
    rows = Snapshot.objects.filter(run__workspace=access.workspace_id).select_related("run__agent__participant")
    return rows.defer("content", "recall", "run__steps").order_by("-id")


LISTS = {
    "runs": ActivityList(
        "Runs",
        "Every answer of an agent: its state, tokens and errors.",
        ("Asked", "Agent", "Task", "State", "Model", "Read", "From cache", "Written", "Took"),
        _runs,
        _run_cells,
        Run.State.choices,
    ),
    "prompts": ActivityList(
        "Prompts",
        "How large each prompt was, and how many tokens it began with that stood in the one before.",
        ("When", "Agent", "Task", "Model", "Tokens", "Budget", "Same beginning", "Included", "Left out"),
        _prompts,
        _prompt_cells,
    ),
    "background": ActivityList(
        "Background calls",
        "Models that wrote summaries, looked back to learn or compared knowledge entries, while nobody waited.",
        ("When", "What for", "Agent", "Model", "Read", "From cache", "Written"),
        background_calls,
        _background_cells,
    ),
    "compactions": ActivityList(
        "Compactions",
        "What was summarised when, and how it went.",
        ("Asked for", "Thread", "Why", "State", "Tokens before", "Tokens after", "Ended"),
        workspace_compactions,
        _compaction_cells,
        (
            ("queued", "waiting"),
            ("running", "running"),
            ("done", "done"),
            ("nothing", "nothing to do"),
            ("failed", "failed"),
        ),
    ),
    "threads": ActivityList(
        "Threads in memory",
        "How long threads are, and which are over their trigger with nothing left to summarise.",
        ("Thread", "Messages", "Over its trigger"),
        workspace_memories,
        _memory_cells,
        (("stuck", "over its trigger"),),
    ),
    "feedback": ActivityList(
        "Feedback",
        "What people said of agents' answers in threads you see, and what became of it.",
        ("Given", "Verdict", "By", "Agent", "In their words", "What became of it"),
        list_feedback,
        _feedback_cells,
    ),
}
"""The lists, by the word that stands in the address."""

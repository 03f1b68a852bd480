"""Runs at a message: how they are shown there, and the views behind stop, retry and regenerate.

A message shows the run that wrote it, and the runs it caused that have not answered yet."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from agents.models import Run, Snapshot
from agents.runs.lifecycle import regenerate_run, retry_run, stop_run
from agents.tasks import enqueue_run_on_commit
from openvibe.base.problems import Missing
from openvibe.base.query_cache import CompiledQuery, array_literal
from openvibe.chat.models import Message
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@require_POST
@workspace_view
def stop(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    return _render_runs(request, stop_run(run=access_run(request.access, run_id), by=request.access))


@require_POST
@workspace_view
def retry(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    run = retry_run(run=access_run(request.access, run_id), by=request.access)
    enqueue_run_on_commit(run.pk)
    return _render_runs(request, run)


@require_POST
@workspace_view
def regenerate(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    """Another answer to the same message; the page stays at the one that was there."""
    earlier = access_run(request.access, run_id)
    run = regenerate_run(run=earlier, by=request.access)
    enqueue_run_on_commit(run.pk)
    return _render_runs(request, earlier)


def access_run(access: Access, run_id: int) -> Run:
    """A run in a thread the asker sees. Raises Missing."""
    related = ("agent__participant", "thread__channel", "trigger__author", "reply__author")
    run: Run | None = Run.objects.visible_to(access).select_related(*related).filter(pk=run_id).first()
    if run is None:
        raise Missing
    return run


def _render_runs(request: WorkspaceRequest, run: Run) -> HttpResponse:
    """The runs at the message where the button was, or back to the thread."""
    message = run.reply or run.trigger
    if not request.htmx:
        return redirect("message", request.workspace.slug, message.pk)
    extras = runs_by_message([message], request.access).get(message.pk, {})
    return render(request, "agents/_run.html", {"message": message, "extras": extras})


@dataclass(frozen=True)
class RunCard:
    """One run as its message shows it. `label` is its state as a sentence; `tokens` is input and output together."""

    pk: int
    name: str
    state: str
    label: str
    model: str
    tokens: int
    error: str
    has_context: bool
    may_stop: bool
    may_retry: bool
    may_regenerate: bool

    @property
    def is_under_way(self) -> bool:
        """Not over: also while it waits for an approval."""
        return self.state not in Run.ENDED


def runs_by_message(messages: Sequence[Message], access: Access) -> dict[int, dict[str, Any]]:
    """`run` for replies, `waiting` for messages whose runs have no reply yet. One query."""
    runs: list[Run] = _runs_at.objects(array_literal(message.pk for message in messages)) if messages else []
    decorations: dict[int, dict[str, Any]] = defaultdict(dict)
    for run in runs:
        if run.reply_id is not None:
            decorations[run.reply_id]["run"] = _run_card(run, access)
        else:
            extras = decorations[run.trigger_id]
            extras["waiting"] = (*extras.get("waiting", ()), _run_card(run, access))
    return decorations


RUN_CARD_FIELDS = (
    *("state", "model", "input_tokens", "output_tokens", "error", "stop_requested_at", "heard_at", "reply", "trigger"),
    *("agent__deactivated_at", "agent__participant__name", "approval__what"),
)


@CompiledQuery
def _runs_at(ids: int) -> QuerySet[Run]:
    unanswered = Q(trigger__id__any_of=ids, reply=None) & ~Q(state=Run.State.DONE)
    runs = Run.objects.filter(Q(reply__id__any_of=ids) | unanswered)
    runs = runs.select_related("agent__participant", "approval").only(*RUN_CARD_FIELDS)
    return runs.annotate(has_context=Exists(Snapshot.objects.filter(run=OuterRef("pk")))).order_by("id")


def _run_card(run: Run, access: Access) -> RunCard:
    """The run for this asker. Expects `agent__participant` and `approval` loaded and `has_context` annotated."""
    is_person = not access.is_agent
    is_retriable = run.state in (Run.State.FAILED, Run.State.STOPPED)
    return RunCard(
        pk=run.pk,
        name=run.agent.participant.name,
        state=run.state,
        label=_run_state_label(run),
        model=run.model,
        tokens=run.input_tokens + run.output_tokens,
        error=run.error,
        has_context=bool(getattr(run, "has_context", False)),
        may_stop=is_person and not run.is_over and run.stop_requested_at is None,
        may_retry=is_person and is_retriable and run.agent.is_active and not run.is_external,
        may_regenerate=is_person and run.state == Run.State.DONE and run.agent.is_active and not run.is_external,
    )


def _run_state_label(run: Run) -> str:
    """The state as a short sentence with the agent's name."""
    name = run.agent.participant.name
    if not run.is_over and run.stop_requested_at is not None:
        return f"{name} is stopping…"
    return {
        "queued": f"{name} will answer as soon as it can…",
        "reading": f"{name} is reading…",
        "writing": f"{name} is writing…",
        "waiting_approval": f"{name} is waiting for an approval: {run.approval.what if run.approval else 'see above'}",
        "done": f"{name} replied",
        "stopped": f"{name} was stopped; what it wrote so far is kept"
        if run.reply_id
        else f"{name} was stopped before it answered",
        "failed": f"{name} could not answer",
    }[run.state]

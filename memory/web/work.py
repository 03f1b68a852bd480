"""The work of a thread, as a page and as a panel beside it: read, write down, check off, decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memory.handoff import as_markdown, shown
from memory.models import Approval, Handoff, WorkItem
from memory.providers.base import Explorer, Session
from memory.providers.opening import open_session
from memory.providers.registry import provider_for
from memory.services.approvals import decide_approval
from memory.services.progress import log_progress
from memory.services.work import add_work, change_work, close_work, reopen_work
from memory.work import WorkRow, WorkState, open_work
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.web.finding import thread_of
from openvibe.chat.web.numbers import LARGEST_ID, number
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

CLOSED_SHOWN, HANDOFFS_SHOWN, SUMMARIES_SHOWN = 20, 10, 50
DATA = ("done_condition", "budget", "ref", "stage")


@dataclass(frozen=True)
class Section:
    """One kind of work on the page. `is_single`: a new one takes the place of what stands."""

    kind: str
    title: str
    hint: str
    add: str
    rows: tuple[WorkRow, ...]
    is_single: bool = False


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def thread_work(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Everything the thread is working on; `?keep=` offers a message as a constraint. POST writes a row down."""
    thread = thread_of(request, thread_id)
    if request.method == "POST":
        add_work(
            thread=thread,
            by=request.access,
            kind=request.POST.get("kind", ""),
            text=request.POST.get("text", ""),
            data=_data(request),
            message=_message(request, thread, number(request.POST, "message")),
        )
        return _back(request, thread)
    return _answer(request, thread, kept=_message(request, thread, number(request.GET, "keep")))


@in_workspace
@require_POST
def work_item(request: WorkspaceRequest, item_id: int) -> HttpResponse:
    """Say a row anew, close it, or open it again: `do` is save, done, drop or reopen, on the `version` shown."""
    threads = Thread.objects.visible_to(request.access)
    item = WorkItem.objects.filter(pk=min(item_id, LARGEST_ID), thread__in=threads).first()
    if item is None:
        raise Missing
    version = number(request.POST, "version") or 0
    match request.POST.get("do"):
        case "save":
            change_work(item=item, by=request.access, version=version, text=request.POST.get("text"),
                        data=_data(request))  # fmt: skip
        case "done":
            close_work(item=item, by=request.access, version=version)
        case "drop":
            close_work(item=item, by=request.access, state=WorkItem.State.DROPPED, version=version)
        case "reopen":
            reopen_work(item=item, by=request.access, version=version)
        case _:
            raise Problem("Choose save, done, drop or reopen.", code="bad_do", field="do")
    return _back(request, thread_of(request, item.thread_id))


@in_workspace
@require_POST
def approval(request: WorkspaceRequest, approval_id: int) -> HttpResponse:
    """Grant (`granted` yes) or deny (no), with a note if there is one to make."""
    threads = Thread.objects.visible_to(request.access)
    found = Approval.objects.filter(pk=min(approval_id, LARGEST_ID), thread__in=threads).first()
    if found is None:
        raise Missing
    granted = {"yes": True, "no": False}.get(request.POST.get("granted", ""))
    if granted is None:
        raise Problem("Choose Grant or Deny.", code="bad_decision", field="granted")
    decide_approval(approval=found, by=request.access, granted=granted, note=request.POST.get("note", ""))
    return _back(request, thread_of(request, found.thread_id))


@in_workspace
@require_POST
def progress(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Add a line to the progress log."""
    thread = thread_of(request, thread_id)
    names = ("checkpoint", "changed", "evidence", "open_issues", "next_action")
    log_progress(thread=thread, by=request.access, **{name: request.POST.get(name, "") for name in names})
    return _back(request, thread)


@in_workspace
@require_safe
def handoff(request: WorkspaceRequest, thread_id: int, handoff_id: int) -> HttpResponse:
    """What was handed over at one compaction: fourteen sections, or `?as=markdown`."""
    thread = thread_of(request, thread_id)
    found = Handoff.objects.filter(thread=thread, pk=min(handoff_id, LARGEST_ID)).select_related("compaction").first()
    if found is None:
        raise Missing
    sections = shown(found, lambda ids: _summaries(request, thread, ids))
    if request.GET.get("as") == "markdown":
        return HttpResponse(as_markdown(sections), content_type="text/markdown; charset=utf-8")
    name = "memory/_work_handoff.html" if request.htmx else "memory/work_handoff.html"
    return render(request, name, {"thread": thread, "handoff": found, "sections": sections})


# --- what pages show ----------------------------------------------------------------------------------------
def _answer(request: WorkspaceRequest, thread: Thread, kept: Message | None = None) -> HttpResponse:
    state = open_work(thread.pk)
    closed = WorkItem.objects.filter(thread=thread).exclude(state=WorkItem.State.OPEN).select_related("closed_by")
    page = {
        "thread": thread,
        "state": state,
        "sections": _sections(state),
        "decided": [row for row in state.approvals if row.state != Approval.State.REQUESTED],
        "closed": closed.order_by("-closed_at", "-id")[:CLOSED_SHOWN],
        "handoffs": Handoff.objects.filter(thread=thread).defer("sections")[:HANDOFFS_SHOWN],
        "kept": kept,
        "may_write": thread.archived_at is None and thread.channel.archived_at is None,
        "may_decide": not request.access.is_guest,
    }
    return render(request, "memory/_work.html" if request.htmx else "memory/work.html", page)


def _sections(state: WorkState) -> tuple[Section, ...]:
    def one(row: WorkRow | None) -> tuple[WorkRow, ...]:
        return (row,) if row is not None else ()

    return (
        Section("objective", "Objective", "What this thread is for.", "Set the objective", one(state.objective), True),
        Section("constraint", "Constraints", "Stand in every prompt, word for word.", "Add a constraint",
                state.constraints),
        Section("plan", "Plan", "How it is to be done.", "Write a plan", one(state.plan), True),
        Section("goal", "Goals", "What is reached when it is done.", "Add a goal", state.goals),
        Section("todo", "To do", "What is left to do.", "Add a to-do", state.todos),
        Section("open_question", "Open questions", "What nobody has answered yet.", "Add a question",
                state.open_questions),
        Section("do_not_redo", "Do not redo", "What is settled, so that nobody does it again.", "Add something settled",
                state.do_not_redo),
        Section("error_tried", "Errors and what was tried", "What went wrong, and what did not help.", "Add an error",
                state.errors_tried),
        Section("artifact", "Artifacts", "What was made, and where it is.", "Add an artifact", state.artifacts),
    )  # fmt: skip


def _summaries(request: WorkspaceRequest, thread: Thread, ids: Sequence[int]) -> Mapping[int, str]:
    """The words of summaries as the plugin has them now; nothing for those that are gone or not for the asker."""
    provider = provider_for(thread.workspace_id)
    try:
        if not ids or not isinstance(provider, Explorer):
            return {}
        session = open_session(request.access, thread.pk)
        return {found: text for found in ids[:SUMMARIES_SHOWN] if (text := _described(provider, session, found))}
    except Missing:
        return {}
    finally:
        provider.close()


def _described(provider: Explorer, session: Session, summary_id: int) -> str:
    try:
        return provider.describe(session, summary_id).content
    except Missing:
        return ""


def _message(request: WorkspaceRequest, thread: Thread, message_id: int | None) -> Message | None:
    """A message of the thread that the asker sees. Raises Missing for any other."""
    if message_id is None:
        return None
    messages = Message.objects.visible_to(request.access).filter(thread=thread, deleted_at=None)
    found: Message | None = messages.filter(pk=message_id).first()
    if found is None:
        raise Missing
    return found


def _data(request: WorkspaceRequest) -> dict[str, str]:
    """What the form says besides the text; a field it does not have is not touched."""
    return {name: request.POST[name] for name in DATA if name in request.POST}


def _back(request: WorkspaceRequest, thread: Thread) -> HttpResponse:
    return _answer(request, thread) if request.htmx else redirect("thread-work", request.workspace.slug, thread.pk)

"""The work page and panel of a thread: work items, approvals, progress, handoffs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import TypeVar

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memory.plugins.base import Explorer
from memory.plugins.registry import provider_for
from memory.plugins.sessions import open_session
from memory.work.approvals import decide_approval
from memory.work.handoff import render_handoff_markdown, render_sections
from memory.work.models import Approval, Handoff, WorkItem
from memory.work.queries import AGENT_PLANS, approval_calls, get_work_state, visible_approvals, visible_work_items
from memory.work.services import (
    SINGLETON_KINDS,
    close_work_item,
    create_work_item,
    decide_constraint,
    log_progress,
    reopen_work_item,
    update_work_item,
)
from openvibe.base.params import MAX_ID, int_param
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import access_thread
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

CLOSED_ON_A_PAGE, HANDOFFS_ON_A_PAGE, MAX_SUMMARIES = 20, 10, 50
DATA_FIELDS = ("done_condition", "budget", "ref", "stage")


SECTIONS = (
    ("objective", "Objective", "What this thread is for.", "Set the objective"),
    ("constraint", "Constraints", "Bind agents here and in dives from here, word for word.", "Add a constraint"),
    (
        "preference",
        "Preferences",
        "What people asked for once and for all. Agents read it when the same person asks again; it binds nobody.",
        "Add a preference",
    ),
    ("plan", "Plan", "How it is to be done.", "Write a plan"),
    ("goal", "Goals", "What is reached when it is done.", "Add a goal"),
    ("todo", "To do", "What is left to do.", "Add a to-do"),
    ("open_question", "Open questions", "What nobody has answered yet.", "Add a question"),
    ("do_not_redo", "Do not redo", "What is settled, so that nobody does it again.", "Add something settled"),
    ("error_tried", "Errors and what was tried", "What went wrong, and what did not help.", "Add an error"),
    ("artifact", "Artifacts", "What was made, and where it is.", "Add an artifact"),
)
"""What the page shows of each kind of work: its title, a hint while there is none, the words of its button."""

RowT = TypeVar("RowT", WorkItem, Approval, Handoff, Message)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def thread_work(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Everything the thread is working on; of what is closed a `?page=`; `?keep=` offers a message as a constraint.
    POST writes a row down."""
    thread = access_thread(request.access, thread_id)
    if request.method == "POST":
        create_work_item(
            thread=thread,
            by=request.access,
            kind=request.POST.get("kind", ""),
            text=request.POST.get("text", ""),
            data=_posted_data(request),
            message=_access_message(request, thread, int_param(request.POST, "message")),
        )
        return _redirect_to_work(request, thread)
    return _work_response(request, thread, result=_access_message(request, thread, int_param(request.GET, "keep")))


@workspace_view
@require_POST
def work_item(request: WorkspaceRequest, item_id: int) -> HttpResponse:
    """The page that changes a row, closes it, opens it again, or decides on a proposed constraint: `do` is save, done,
    drop, reopen, confirm or decline, on the `version` shown. `from=message`: the answer takes the place of what was
    pressed in the message's menu."""
    item = _access_row(visible_work_items(request.access), item_id)
    version = int_param(request.POST, "version") or 0
    match request.POST.get("do"):
        case "save":
            update_work_item(
                item=item, by=request.access, version=version, text=request.POST.get("text"), data=_posted_data(request)
            )
        case "done":
            close_work_item(item=item, by=request.access, version=version)
        case "drop":
            close_work_item(item=item, by=request.access, state=WorkItem.State.DROPPED, version=version)
        case "reopen":
            reopen_work_item(item=item, by=request.access, version=version)
        case "confirm" | "decline" as decision:
            decide_constraint(item=item, by=request.access, is_confirmed=decision == "confirm", version=version)
        case _:
            raise Problem("Choose save, done, drop, reopen, confirm or decline.", code="bad_do", field="do")
    if request.htmx and request.POST.get("from") == "message":
        return render(request, "memory/_preference_bound.html", {"thread_id": item.thread_id})
    return _redirect_to_work(request, access_thread(request.access, item.thread_id))


@workspace_view
@require_POST
def approval(request: WorkspaceRequest, approval_id: int) -> HttpResponse:
    """The page that grants (`granted` yes) or denies (no), with a note if there is one to make. `from=card`: the answer
    takes the place of the card alone."""
    pending = _access_row(visible_approvals(request.access), approval_id)
    is_granted = {"yes": True, "no": False}.get(request.POST.get("granted", ""))
    if is_granted is None:
        raise Problem("Choose Grant or Deny.", code="bad_decision", field="granted")
    decide_approval(approval=pending, by=request.access, is_granted=is_granted, note=request.POST.get("note", ""))
    if request.htmx and request.POST.get("from") == "card":
        return render(request, "memory/_decided.html", {"words": "You allowed it." if is_granted else "You denied it."})
    return _redirect_to_work(request, access_thread(request.access, pending.thread_id))


@workspace_view
@require_POST
def progress(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """The page that adds a line to the progress log."""
    thread = access_thread(request.access, thread_id)
    names = ("checkpoint", "changed", "evidence", "open_issues", "next_action")
    log_progress(thread=thread, by=request.access, **{name: request.POST.get(name, "") for name in names})
    return _redirect_to_work(request, thread)


@workspace_view
@require_safe
def handoff(request: WorkspaceRequest, thread_id: int, handoff_id: int) -> HttpResponse:
    """What was handed over at one compaction: fourteen sections, or `?as=markdown`."""
    thread = access_thread(request.access, thread_id)
    stored = _access_row(Handoff.objects.filter(thread=thread).select_related("compaction"), handoff_id)
    sections = render_sections(stored, lambda ids: _summary_texts(request, thread, ids))
    if request.GET.get("as") == "markdown":
        return HttpResponse(render_handoff_markdown(sections), content_type="text/markdown; charset=utf-8")
    name = "memory/_work_handoff.html" if request.htmx else "memory/work_handoff.html"
    return render(request, name, {"thread": thread, "handoff": stored, "sections": sections})


def _work_response(request: WorkspaceRequest, thread: Thread, result: Message | None = None) -> HttpResponse:
    state = get_work_state(thread.pk)
    calls = approval_calls(state.approvals, request.access)
    closed = WorkItem.objects.filter(thread=thread).exclude(state=WorkItem.State.OPEN).select_related("closed_by")
    handoffs = Handoff.objects.filter(thread=thread).defer("sections")
    page = {
        "thread": thread,
        "state": state,
        "agent_plans": AGENT_PLANS.only()(thread.pk),
        "sections": [
            {
                "kind": kind,
                "title": title,
                "hint": hint,
                "add": add,
                "rows": state.of_kind(kind),
                "is_single": kind in SINGLETON_KINDS,
            }
            for kind, title, hint, add in SECTIONS
        ],
        "pending": [(row, calls.get(row.pk)) for row in reversed(state.pending)],
        "decided": [(row, calls.get(row.pk)) for row in state.approvals if row.state != Approval.State.REQUESTED],
        "closed": Paginator(closed.order_by("-closed_at", "-id"), CLOSED_ON_A_PAGE).get_page(request.GET.get("page")),
        "handoffs": Paginator(handoffs, HANDOFFS_ON_A_PAGE).get_page(request.GET.get("handoffs")),
        "kept": result,
        "may_write": thread.archived_at is None and thread.channel.archived_at is None,
        "may_decide": not request.access.is_guest,
        "may_rule": request.access.administers,
    }
    return render(request, "memory/_work.html" if request.htmx else "memory/work.html", page)


def _summary_texts(request: WorkspaceRequest, thread: Thread, ids: Sequence[int]) -> Mapping[int, str]:
    """The words of summaries as the plugin has them now; nothing for those that are gone or not for the asker."""
    provider = provider_for(thread.workspace_id)
    texts: dict[int, str] = {}
    with closing(provider), suppress(Missing):
        if ids and isinstance(provider, Explorer):
            session = open_session(request.access, thread.pk)
            for summary_id in ids[:MAX_SUMMARIES]:
                with suppress(Missing):
                    texts[summary_id] = provider.describe(session, summary_id).content
    return {summary_id: text for summary_id, text in texts.items() if text}


def _access_message(request: WorkspaceRequest, thread: Thread, message_id: int | None) -> Message | None:
    """A message of the thread that the asker sees. Raises Missing for any other."""
    if message_id is None:
        return None
    return _access_row(Message.objects.visible_to(request.access).filter(thread=thread, deleted_at=None), message_id)


def _access_row(rows: QuerySet[RowT], pk: int) -> RowT:
    """Raises Missing."""
    row = rows.filter(pk=min(pk, MAX_ID)).first()
    if row is None:
        raise Missing
    return row


def _posted_data(request: WorkspaceRequest) -> dict[str, str]:
    """What the form says besides the text; a field it does not have is not touched."""
    return {name: request.POST[name] for name in DATA_FIELDS if name in request.POST}


def _redirect_to_work(request: WorkspaceRequest, thread: Thread) -> HttpResponse:
    if request.htmx:
        return _work_response(request, thread)
    return redirect("thread-work", request.workspace.slug, thread.pk)

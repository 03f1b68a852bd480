"""How dives end: drafting, the form that publishes with its preview, discarding; and the full text of a result."""

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Dive
from openvibe.chat.services import ask_for_draft, discard_dive, publish_dive
from openvibe.chat.services.dives import may_end
from openvibe.chat.services.results import BadResult
from openvibe.chat.web.drafting import Drafted, newest_draft, typed_draft
from openvibe.chat.web.finding import message_of
from openvibe.chat.web.results import preview_of, results_of, safe_html
from openvibe.chat.web.views.dives import dive_of, retargeted, shown
from openvibe.llm.drafts import FEWEST_BULLETS, HEADLINE_CHARACTERS, MOST_BULLETS
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace, wants_json

LIMITS = {"headline": HEADLINE_CHARACTERS, "fewest": FEWEST_BULLETS, "most": MOST_BULLETS}


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def dive_publish(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The form, filled from the agent's newest draft; POST publishes. Refused, everything typed is kept."""
    found = dive_of(request, dive_id)
    if request.method != "POST":
        if not (found.is_active and may_end(found, request.access)):
            return shown(request, found)
        return _form(request, found, newest_draft(found))
    drafted = typed_draft(request.POST)
    try:
        publish_dive(dive=found, by=request.access, result=drafted.draft)
    except Problem as problem:
        return _form(request, found, drafted, problem=problem)
    return _over(request, found)


def _form(request: WorkspaceRequest, found: Dive, drafted: Drafted, *, problem: Problem | None = None) -> HttpResponse:
    """The form alone when htmx asks for the foot of a dive that is shown already."""
    form = _form_context(drafted, problem)
    if not (request.htmx and (problem or request.htmx.target == "dive-foot")):
        return shown(request, found, **form)
    status = problem.status if problem else 200
    response = render(request, "chat/_dive_publish.html", {"dive": found, **form}, status=status)
    return retargeted(response, "#dive-foot", "innerHTML") if problem else response


def _form_context(drafted: Drafted, problem: Problem | None) -> dict[str, Any]:
    preview = preview_of(drafted.draft)
    problems = problem.problems if isinstance(problem, BadResult) else [problem] if problem else []
    wrong = {one.field: one.message for one in problems if one.field}
    return {"drafted": drafted, "problem": problem, "wrong": wrong, "preview": preview, "typed": drafted.draft,
            "limits": LIMITS}  # fmt: skip


@in_workspace
@require_POST
def dive_preview(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The card as it would look, from what is typed so far."""
    found = dive_of(request, dive_id)
    draft = typed_draft(request.POST).draft
    context = {"dive": found, "preview": preview_of(draft), "typed": draft, "limits": LIMITS}
    return render(request, "chat/_result_preview.html", context)


@in_workspace
@require_POST
def dive_draft(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """Ask the agent for a draft. Without JavaScript the form comes back as it was typed."""
    found = dive_of(request, dive_id)
    try:
        asked = ask_for_draft(dive=found, by=request.access)
    except Missing:
        raise
    except Problem as problem:
        if wants_json(request):
            raise
        return _form(request, found, typed_draft(request.POST), problem=problem)
    if wants_json(request):
        return JsonResponse({"id": asked.pk, "seq": asked.seq}, status=201)
    typed = typed_draft(request.POST)
    return _form(request, found, Drafted(typed.draft, asked=asked.seq, is_typed=True))


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def dive_discard(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """Asks once, then gives the dive up; what was said stays to be read."""
    found = dive_of(request, dive_id)
    if request.method != "POST":
        return render(request, "chat/dive_discard.html", {"dive": found, "parent": found.parent})
    discard_dive(dive=found, by=request.access)
    return _over(request, found)


def _over(request: WorkspaceRequest, found: Dive) -> HttpResponse:
    """After the end: the dive as it stands in its panel; its thread for pages without JavaScript."""
    if request.htmx:
        return shown(request, dive_of(request, found.pk))
    to = redirect("thread", request.workspace.slug, found.parent_id)
    result = Dive.objects.filter(pk=found.pk).values_list("result__seq", flat=True).first()
    to["Location"] += f"?at={result}#m-{result}" if result else ""
    return to


@in_workspace
@require_safe
def result_full(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The full text of a result: inside its card, or as a page with the whole card."""
    message = message_of(request, message_id)
    result = results_of([message]).get(message.pk)
    if result is None or not result.has_full:
        raise Missing
    full = safe_html(message.dive_result.full)
    context = {"message": message, "thread": message.thread, "result": result, "full": full}
    alone = request.htmx and request.htmx.target == f"full-{message.pk}"
    return render(request, "chat/_result_full.html" if alone else "chat/result.html", context)

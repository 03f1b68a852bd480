"""Pages of webhooks, for owners and admins: all of the workspace, one with its deliveries, and what can be done."""

from collections.abc import Mapping

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.webhooks import services
from openvibe.webhooks.models import KINDS, Delivery, Webhook
from openvibe.webhooks.tasks import enqueue_send_on_commit
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Participant

MAX_DELIVERIES = 50
LABELS = {
    "mention": "somebody mentions the agent, or you",
    "message_posted": "a message is posted",
    "message_changed": "a message is edited or deleted, or an answer is finished",
    "thread_changed": "a thread is begun, renamed or archived",
    "run_changed": "an agent begins to answer, or is done",
    "work_changed": "to-dos, plans or approvals change",
    "memory_changed": "a conversation is summarised",
    "knowledge_changed": "an entry of knowledge changes",
    "pins_changed": "something is pinned, or not any more",
    "dive_changed": "a dive begins or ends",
    "channel_changed": "a channel changes, or who is in it",
    "agent_changed": "an agent changes",
    "members_changed": "somebody joins, leaves or is renamed",
    "workspace_changed": "settings of the workspace change",
}
"""What each kind means, in words for people."""
KIND_LABELS = [(kind, LABELS[kind]) for kind in KINDS]


@never_cache
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def webhooks(request: WorkspaceRequest) -> HttpResponse:
    """All of them, and a form for a new one, whose secret stands on the answer once."""
    if not request.access.administers:
        raise Refused("Only owners and admins manage webhooks. Ask one of them.")
    if request.method != "POST":
        return _render_list(request, kept={"kinds": ["mention"]})
    url, kinds, handle = request.POST.get("url", ""), request.POST.getlist("kinds"), request.POST.get("agent", "")
    kept = {"url": url, "kinds": kinds, "agent": handle}
    try:
        participant = _agents(request)[handle] if handle else request.member.participant
        made, secret = services.create_webhook(by=request.access, participant=participant, url=url, kinds=kinds)
    except KeyError:
        problem = Problem("This agent is gone. Choose another one.", code="unknown_agent", field="agent")
        return _render_list(request, kept=kept, problem=problem)
    except Problem as problem:
        return _render_list(request, kept=kept, problem=problem)
    return _render_one(request, made, secret=secret)


@never_cache
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def webhook(request: WorkspaceRequest, webhook_id: int) -> HttpResponse:
    """One with its newest deliveries; a POST says with `act` what to do."""
    one = _access_webhook(request, webhook_id)
    if request.method != "POST":
        return _render_one(request, one)
    act, by = request.POST.get("act", ""), request.access
    try:
        if act == "delete":
            services.delete_webhook(webhook=one, by=by)
            messages.success(request, "The webhook is deleted, with its deliveries.")
            return redirect("webhooks", request.workspace.slug)
        if act == "rotate":
            return _render_one(request, one, secret=services.rotate_secret(webhook=one, by=by), is_rotated=True)
        _carry_out(request, one, act)
    except Problem as problem:
        return _render_one(_access_again(request, one), one, problem=problem)
    enqueue_send_on_commit()
    return redirect("webhook", request.workspace.slug, one.pk)


def _carry_out(request: WorkspaceRequest, one: Webhook, act: str) -> None:
    by = request.access
    if act == "test":
        services.send_test(webhook=one, by=by)
        messages.info(request, "The test is on its way. Load this page again to see what came of it.")
    elif act == "resume":
        services.resume_webhook(webhook=one, by=by)
        messages.info(request, "It tries again now.")
    elif act == "pause":
        services.update_webhook(webhook=one, by=by, paused=True)
    else:
        services.update_webhook(
            webhook=one, by=by, url=request.POST.get("url", ""), kinds=request.POST.getlist("kinds")
        )
        messages.success(request, "Saved.")


def _access_again(request: WorkspaceRequest, one: Webhook) -> WorkspaceRequest:
    """The request, with what was entered shown in place of what is saved."""
    if request.POST.get("act", "") == "save":
        one.url, one.kinds = request.POST.get("url", ""), request.POST.getlist("kinds")
    return request


@workspace_view
@require_POST
def resend(request: WorkspaceRequest, webhook_id: int, delivery_id: int) -> HttpResponse:
    """Send a delivery again, under its own id."""
    one = _access_webhook(request, webhook_id)
    rows = Delivery.objects.visible_to(request.access).filter(webhook=one).select_related("webhook")
    delivery = rows.filter(pk=min(delivery_id, MAX_ID)).first()
    if delivery is None:
        raise Missing("This delivery is not kept any more.")
    services.send_again(delivery=delivery, by=request.access)
    enqueue_send_on_commit()
    messages.info(request, "It is sent again.")
    return redirect("webhook", request.workspace.slug, one.pk)


def _access_webhook(request: WorkspaceRequest, webhook_id: int) -> Webhook:
    rows = Webhook.objects.visible_to(request.access).select_related("participant")
    one = rows.filter(pk=min(webhook_id, MAX_ID)).first()
    if one is None:
        raise Missing
    return one


def _agents(request: WorkspaceRequest) -> dict[str, Participant]:
    agents = request.workspace.participants.filter(kind=Participant.Kind.AGENT, is_active=True)
    return {agent.handle: agent for agent in agents.order_by("handle")}


def _render_list(
    request: WorkspaceRequest, *, kept: Mapping[str, object], problem: Problem | None = None
) -> HttpResponse:
    page = {
        "webhooks": Webhook.objects.visible_to(request.access).select_related("participant"),
        "agents": _agents(request).values(),
        "kinds": KIND_LABELS,
        "kept": kept,
        "problem": problem,
    }
    return render(request, "webhooks/list.html", page, status=problem.status if problem else 200)


def _render_one(
    request: WorkspaceRequest,
    one: Webhook,
    *,
    secret: str = "",
    is_rotated: bool = False,
    problem: Problem | None = None,
) -> HttpResponse:
    page = {
        "webhook": one,
        "kinds": KIND_LABELS,
        "is_directed": one.is_directed_by(request.access),
        "deliveries": Delivery.objects.visible_to(request.access).filter(webhook=one)[:MAX_DELIVERIES],
        "waiting": one.deliveries.filter(state=Delivery.State.PENDING).count(),
        "is_missing_events": services.events_missed(one),
        "secret": secret,
        "is_rotated": is_rotated,
        "problem": problem,
    }
    return render(request, "webhooks/webhook.html", page, status=problem.status if problem else 200)

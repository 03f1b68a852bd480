"""Pages of webhooks, for owners and admins: all of the workspace, one with its deliveries, and what can be done."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.queries import token_owners
from openvibe.webhooks import services
from openvibe.webhooks.models import Delivery, Webhook
from openvibe.webhooks.signatures import is_standard
from openvibe.webhooks.tasks import enqueue_send_on_commit
from openvibe.webhooks.web.forms import KIND_LABELS, NewWebhookForm, WebhookForm
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Participant

MAX_DELIVERIES = 50


@never_cache
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def webhooks(request: WorkspaceRequest) -> HttpResponse:
    """All of them, and a form for a new one, whose secret stands on the answer once."""
    if not request.access.administers:
        raise Refused("Only owners and admins manage webhooks. Ask one of them.")
    agents = token_owners(request.access).filter(kind=Participant.Kind.AGENT).order_by("handle")
    form = NewWebhookForm(request.POST or None, agents=agents, initial={"kinds": ["mention"]})
    if form.is_valid():
        url, kinds = form.cleaned_data["url"], form.cleaned_data["kinds"]
        participant = form.cleaned_data["agent"] or request.member.participant
        try:
            webhook, secret = services.create_webhook(by=request.access, participant=participant, url=url, kinds=kinds)
            return _render_webhook(request, _access_webhook(request, webhook.pk), secret=secret)
        except Problem as problem:
            form.add_problem(problem)
    rows = Webhook.objects.visible_to(request.access).with_backlog().select_related("participant")
    return render(request, "webhooks/list.html", {"webhooks": rows, "form": form}, status=form.status)


@never_cache
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def webhook(request: WorkspaceRequest, webhook_id: int) -> HttpResponse:
    """One with its newest deliveries; a POST says with `act` what to do."""
    row, by, act = _access_webhook(request, webhook_id), request.access, request.POST.get("act", "")
    form = WebhookForm(request.POST if act == "save" else None, initial={"url": row.masked_url, "kinds": row.kinds})
    if request.method != "POST" or (act == "save" and not form.is_valid()):
        return _render_webhook(request, row, form=form)
    try:
        if act == "delete":
            services.delete_webhook(webhook=row, by=by)
            messages.success(request, "The webhook is deleted, with its deliveries.")
            return redirect("webhooks", request.workspace.slug)
        if act == "rotate":
            return _render_webhook(request, row, secret=services.rotate_secret(webhook=row, by=by), is_rotated=True)
        if act == "save":
            if secret := services.update_webhook(webhook=row, by=by, **form.cleaned_data):
                enqueue_send_on_commit()
                return _render_webhook(request, _access_webhook(request, row.pk), secret=secret, is_rotated=True)
            messages.success(request, "Saved.")
        else:
            _perform(request, row, act)
    except Problem as problem:
        if act == "save":
            form.add_problem(problem)
            return _render_webhook(request, row, form=form)
        return _render_webhook(request, row, problem=problem)
    enqueue_send_on_commit()
    return redirect("webhook", request.workspace.slug, row.pk)


def _perform(request: WorkspaceRequest, webhook: Webhook, act: str) -> None:
    """Raises Problem."""
    if act == "test":
        services.send_test(webhook=webhook, by=request.access)
        messages.info(request, "The test is on its way. Load this page again to see what came of it.")
    elif act == "resume":
        services.resume_webhook(webhook=webhook, by=request.access)
        messages.info(request, "It tries again now.")
    elif act == "pause":
        services.update_webhook(webhook=webhook, by=request.access, paused=True)
    else:
        raise Problem("This page has no such button any more. Load it again.", code="invalid")


@workspace_view
@require_POST
def resend(request: WorkspaceRequest, webhook_id: int, delivery_id: int) -> HttpResponse:
    """Sends a delivery again, under its own id."""
    webhook = _access_webhook(request, webhook_id)
    rows = Delivery.objects.visible_to(request.access).filter(webhook=webhook).select_related("webhook")
    delivery = rows.filter(pk=min(delivery_id, MAX_ID)).first()
    if delivery is None:
        raise Missing("This delivery is not kept any more.")
    services.send_again(delivery=delivery, by=request.access)
    enqueue_send_on_commit()
    messages.info(request, "It is sent again.")
    return redirect("webhook", request.workspace.slug, webhook.pk)


def _access_webhook(request: WorkspaceRequest, webhook_id: int) -> Webhook:
    rows = Webhook.objects.visible_to(request.access).with_backlog().select_related("participant", "made_by")
    webhook = rows.filter(pk=min(webhook_id, MAX_ID)).first()
    if webhook is None:
        raise Missing
    return webhook


def _render_webhook(
    request: WorkspaceRequest,
    webhook: Webhook,
    *,
    form: WebhookForm | None = None,
    secret: str = "",
    is_rotated: bool = False,
    problem: Problem | None = None,
) -> HttpResponse:
    form = form or WebhookForm(initial={"url": webhook.masked_url, "kinds": webhook.kinds})
    deliveries = Delivery.objects.visible_to(request.access).filter(webhook=webhook)[:MAX_DELIVERIES]
    page = {
        "webhook": webhook,
        "form": form,
        "is_directed": webhook.is_directed_by(request.access),
        "deliveries": [(delivery, KIND_LABELS.get(delivery.kind, delivery.kind)) for delivery in deliveries],
        "is_signed_as_before": not is_standard(webhook.secret),
        "is_missing_events": services.has_missed_events(webhook),
        "secret": secret,
        "is_rotated": is_rotated,
        "problem": problem,
    }
    return render(request, "webhooks/webhook.html", page, status=problem.status if problem else form.status)

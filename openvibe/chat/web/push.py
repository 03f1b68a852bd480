"""Notifications of browsers in which no page is open: turned on and off by their pages, and what a page says that it
has shown."""

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from openvibe.base.params import int_param
from openvibe.base.problems import Problem
from openvibe.chat import services
from openvibe.chat.models import PushSubscription
from openvibe.engines.network.web_push import encode_base64url, public_point
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.services import describe_browser


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def push(request: WorkspaceRequest) -> HttpResponse:
    """GET: the key that browsers subscribe for, and what is known of the one at `endpoint`. POST: turns pushes on in
    this browser."""
    if request.method == "POST":
        private = request.POST.get("private")
        row = services.subscribe_browser(
            services.NewSubscription(
                endpoint=request.POST.get("endpoint", ""),
                p256dh=request.POST.get("p256dh", ""),
                auth=request.POST.get("auth", ""),
                browser=describe_browser(request.headers.get("User-Agent", "")),
            ),
            user=request.user,
            by=request.access,
            session_key=request.session.session_key or "",
            shows_private=None if private is None else private == "1",
        )
        return JsonResponse({"private": row.shows_private})
    own = PushSubscription.objects.filter(user=request.user, endpoint=request.GET.get("endpoint", "")[:1_000])
    shows_private = own.values_list("shows_private", flat=True).first()
    return JsonResponse({"key": encode_base64url(public_point(services.push_key())), "private": shows_private})


@workspace_view
@require_POST
def push_off(request: WorkspaceRequest) -> HttpResponse:
    """Turns pushes off in the browser at `endpoint`, or in the one listed as `browser`, from the person's page."""
    pk = int_param(request.POST, "browser")
    if "browser" not in request.POST:
        services.unsubscribe_browser(user=request.user, endpoint=request.POST.get("endpoint", ""))
        return HttpResponse(status=204)
    if pk is not None and services.unsubscribe_browser(user=request.user, pk=pk):
        messages.success(request, "That browser is notified no more while no page is open in it.")
    return redirect("notifications", request.workspace.slug)


@workspace_view
@require_POST
def push_shown(request: WorkspaceRequest) -> HttpResponse:
    """A page has shown `message`: it is sent to no other browser of somebody who is at that page; with `endpoint`, not
    to that one."""
    message_id = int_param(request.POST, "message")
    if message_id is None:
        raise Problem("Say which message was shown, by its number.", code="bad_message", field="message")
    services.note_shown(
        by=request.access, user=request.user, message_id=message_id, endpoint=request.POST.get("endpoint", "")
    )
    return HttpResponse(status=204)

"""The views behind *Always* on a card, and the whole diff of a call that waits."""

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from agents.agent.models import Permission
from agents.runs.permissions.answers import allow_always
from memory.queries import access_approval
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_POST
def approval_always(request: WorkspaceRequest, approval_id: int) -> HttpResponse:
    """Allows a call and those that the `pattern` is about, in this channel. `from=card`: the answer takes the place of
    the card alone."""
    approval = access_approval(request.access, approval_id)
    permission = allow_always(approval_id=approval.pk, by=request.access, pattern=request.POST.get("pattern"))
    if request.htmx and request.POST.get("from") == "card":
        return render(request, "memory/_decided.html", {"words": "You allowed it, from now on without asking."})
    return redirect("thread-work", request.workspace.slug, permission.run.thread_id)


@workspace_view
@require_safe
def permission_diff(request: WorkspaceRequest, approval_id: int) -> HttpResponse:
    """All that is kept of the diff, as a file of plain text."""
    approval = access_approval(request.access, approval_id)
    permission = get_object_or_404(Permission.objects.exclude(diff=""), approval=approval)
    response = HttpResponse(permission.diff, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="call-{approval.pk}.diff"'
    return response

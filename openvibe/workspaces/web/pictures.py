"""Pictures: one's own set and removed on one's profile, all shown to members of the workspace."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from openvibe.base.params import MAX_ID
from openvibe.base.problems import Problem
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Picture
from openvibe.workspaces.services import remove_picture, upload_picture
from openvibe.workspaces.web.views import render_profile


@login_required
@require_safe
def picture(request: HttpRequest, participant_id: int, picture_version: str) -> HttpResponse:
    """The picture with this hash, for members of its workspace; it never changes, so browsers keep it."""
    rows = Picture.objects.filter(
        participant=min(participant_id, MAX_ID),
        participant__picture_version=picture_version,
        participant__workspace__members__user=request.user.pk,
        participant__workspace__members__removed_at=None,
    )
    content = rows.values_list("content", flat=True).first()
    if content is None:
        return HttpResponse(status=404, headers={"Cache-Control": "no-store"})
    headers = {
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Disposition": "inline",
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(bytes(content), content_type="image/webp", headers=headers)


@workspace_view
@require_POST
def picture_change(request: WorkspaceRequest) -> HttpResponse:
    """The page that sets one's own `picture`, or with `remove` removes it."""
    if "remove" in request.POST:
        remove_picture(participant=request.member.participant)
        messages.success(request, "Your picture is gone. Your initial is shown instead.")
        return redirect("profile", request.workspace.slug)
    try:
        upload_picture(participant=request.member.participant, upload=request.FILES.get("picture"))
    except Problem as problem:
        return render_profile(request, picture_problem=problem)
    messages.success(request, "Your picture is saved.")
    return redirect("profile", request.workspace.slug)

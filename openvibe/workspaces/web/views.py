"""Pages of people and workspaces: coming in, who is here, how it is set up."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from openvibe.base.problems import Missing, Problem, Refused
from openvibe.workspaces.accounts import INVITATION_IN_SESSION
from openvibe.workspaces.models import Invitation, Member, User, Workspace
from openvibe.workspaces.services import (
    accept_invitation,
    change_role,
    create_workspace,
    edit_profile,
    edit_workspace,
    invite,
    open_invitation,
    remove_member,
    revoke_invitation,
)
from openvibe.workspaces.web.doors import LAST_WORKSPACE, WorkspaceRequest, in_workspace, refuse

SMALLEST, LARGEST_ID = 0, 2**63 - 1


# --- coming in ----------------------------------------------------------------------------------------------
@login_required
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """The workspace visited last, else the first one, else the page that makes one."""
    mine = Workspace.objects.filter(members__user=request.user.pk, members__removed_at=None)
    last = request.session.get(LAST_WORKSPACE)
    workspace = mine.filter(slug=last).first() or mine.order_by("members__joined_at").first()
    return redirect("inbox", workspace.slug) if workspace else redirect("workspace-create")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def workspace_create(request: HttpRequest) -> HttpResponse:
    problem = None
    if request.method == "POST" and isinstance(request.user, User):
        try:
            member = create_workspace(name=request.POST.get("name", ""), owner=request.user)
            return redirect("inbox", member.workspace.slug)
        except Problem as raised:
            problem = raised
    context = {"problem": problem, "kept": request.POST}
    return render(request, "workspaces/create.html", context, status=problem.status if problem else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    """What an invitation leads to. Whoever has no account yet makes one first and comes back."""
    try:
        invitation = open_invitation(token)
        if request.method == "POST" and isinstance(request.user, User):
            member = accept_invitation(token=token, user=request.user)
            request.session.pop(INVITATION_IN_SESSION, None)
            return redirect("inbox", member.workspace.slug)
    except Problem as problem:
        request.session.pop(INVITATION_IN_SESSION, None)
        return refuse(request, problem)
    request.session[INVITATION_IN_SESSION] = token
    return render(request, "workspaces/join.html", {"invitation": invitation})


@require_POST
@login_required
def theme(request: HttpRequest) -> HttpResponse:
    """Save `theme`, then back to the page it was chosen on."""
    chosen = request.POST.get("theme", "")
    if chosen in ("system", "light", "dark"):
        User.objects.filter(email=request.user.get_username()).update(theme=chosen)
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204)
    back = request.headers.get("Referer", "")
    is_ours = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    return redirect(back if is_ours else "/")


# --- who is here --------------------------------------------------------------------------------------------
@in_workspace
@require_safe
def members(request: WorkspaceRequest) -> HttpResponse:
    return members_page(request)


def members_page(request: WorkspaceRequest, *, problem: Problem | None = None, link: str = "") -> HttpResponse:
    """Everybody and, for admins, the open invitations. `link` is shown this once."""
    here = Member.objects.filter(workspace=request.workspace, removed_at=None)
    invitations = Invitation.objects.filter(workspace=request.workspace, revoked_at=None)
    if request.access.is_guest:
        here = here.filter(pk=request.member.pk)
    context = {
        "members": here.select_related("participant", "user").order_by("participant__name", "id"),
        "roles": [choice for choice in Member.Role.choices if choice[0] != "owner" or request.access.role == "owner"],
        "invitable": [choice for choice in Member.Role.choices if choice[0] != "owner"],
        "invitations": [
            one
            for one in invitations.select_related("created_by").prefetch_related("channels").order_by("-id")
            if one.is_open
        ]
        if request.access.administers
        else [],
        "problem": problem,
        "link": link,
        "kept": request.POST,
    }
    return render(request, "workspaces/members.html", context, status=problem.status if problem else 200)


@in_workspace
@require_POST
def member_change(request: WorkspaceRequest, member_id: int) -> HttpResponse:
    """Give the member another `role`, or with `remove` end their access."""
    found = (
        Member.objects.select_related("participant", "user")
        .filter(workspace=request.workspace, removed_at=None, pk=min(member_id, LARGEST_ID))
        .first()
    )
    if found is None or (request.access.is_guest and found.pk != request.member.pk):
        raise Missing
    try:
        if "remove" in request.POST:
            remove_member(member=found, by=request.access)
            messages.info(request, f"{found.participant.name} has no access any more. What they said stays.")
        else:
            change_role(member=found, role=request.POST.get("role", ""), by=request.access)
    except Problem as problem:
        return members_page(request, problem=problem)
    return redirect("home") if found.pk == request.member.pk else redirect("members", request.workspace.slug)


@in_workspace
@require_POST
def invitation_create(request: WorkspaceRequest) -> HttpResponse:
    """Make a link; it is shown once, on this answer."""
    try:
        _, token = invite(
            workspace=request.workspace,
            by=request.access,
            role=request.POST.get("role", "member"),
            days=_whole(request.POST.get("days", "7")),
            uses=_whole(request.POST.get("uses", "1")),
            channel_ids=[_whole(one) for one in request.POST.getlist("channels")],
        )
    except Problem as problem:
        return members_page(request, problem=problem)
    return members_page(request, link=request.build_absolute_uri(f"/join/{token}/"))


def _whole(given: str) -> int:
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else SMALLEST


@in_workspace
@require_POST
def invitation_revoke(request: WorkspaceRequest, invitation_id: int) -> HttpResponse:
    found = Invitation.objects.filter(workspace=request.workspace, pk=min(invitation_id, LARGEST_ID)).first()
    if found is None or not request.access.administers:
        raise Missing
    revoke_invitation(invitation=found, by=request.access)
    return redirect("members", request.workspace.slug)


# --- how it is set up ---------------------------------------------------------------------------------------
@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def workspace_settings(request: WorkspaceRequest) -> HttpResponse:
    """Name, description and organisation instructions; owners and admins."""
    if not request.access.administers:
        raise Refused("Only owners and admins change the workspace. Ask one of them.")
    problem = None
    fields = ("name", "description", "instructions")
    kept = {name: str(getattr(request.workspace, name)) for name in fields}
    if request.method == "POST":
        kept = {name: request.POST.get(name, "").replace("\r\n", "\n") for name in fields}
        try:
            edit_workspace(workspace=request.workspace, by=request.access, **kept)
            messages.success(request, "Saved. Agents read it from their next prompt on.")
            return redirect("workspace-settings", request.workspace.slug)
        except Problem as raised:
            problem = raised
    context = {"problem": problem, "kept": kept}
    return render(request, "workspaces/settings.html", context, status=problem.status if problem else 200)


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: WorkspaceRequest) -> HttpResponse:
    """One's own name, theme and habits."""
    problem = None
    if request.method == "POST":
        try:
            edit_profile(
                member=request.member,
                name=request.POST.get("name", ""),
                theme=request.POST.get("theme", ""),
                enter_sends="enter_sends" in request.POST,
                shortcuts="shortcuts" in request.POST,
            )
            messages.success(request, "Saved.")
            return redirect("profile", request.workspace.slug)
        except Problem as raised:
            problem = raised
    context = {"problem": problem, "themes": User._meta.get_field("theme").choices}
    return render(request, "workspaces/profile.html", context, status=problem.status if problem else 200)

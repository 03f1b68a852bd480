"""Pages of people and workspaces: coming in, who is here, and how it is set up."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from openvibe.base.params import MAX_ID, int_param, words_param
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.base.rate_limits import check_rate
from openvibe.engines.database.time_zones import common_time_zones
from openvibe.workspaces import services
from openvibe.workspaces.decorators import (
    LAST_WORKSPACE_SESSION_KEY,
    WorkspaceRequest,
    page_before,
    problem_response,
    workspace_view,
)
from openvibe.workspaces.models import Invitation, Member, Snippet, User, Workspace
from openvibe.workspaces.queries import is_here, name_like
from openvibe.workspaces.web.adapters import INVITATION_SESSION_KEY

PEOPLE_ON_A_PAGE, INVITATIONS_ON_A_PAGE = 50, 25
TOO_MANY_LINKS = "You made many links within an hour. Wait a little, or make one for more people."


@login_required
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """The workspace visited last, else the first one, else the page that makes one."""
    workspaces = Workspace.objects.filter(members__user=request.user.pk, members__removed_at=None)
    last = request.session.get(LAST_WORKSPACE_SESSION_KEY)
    workspace = workspaces.filter(slug=last).first() or workspaces.order_by("members__joined_at").first()
    return redirect("inbox", workspace.slug) if workspace else redirect("workspace-create")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def workspace_create(request: HttpRequest) -> HttpResponse:
    problem = None
    if request.method == "POST" and isinstance(request.user, User):
        try:
            member = services.create_workspace(name=request.POST.get("name", ""), owner=request.user)
            return redirect("inbox", member.workspace.slug)
        except Problem as error:
            problem = error
    return _render_form(request, "workspaces/create.html", problem, kept=request.POST)


def _render_form(request: HttpRequest, template: str, problem: Problem | None, **context: Any) -> HttpResponse:
    """The page of a form, with the problem that its input had."""
    return render(request, template, {"problem": problem, **context}, status=problem.status if problem else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Page that an invitation leads to. Whoever has no account yet makes one first and comes back."""
    try:
        if request.method == "POST" and isinstance(request.user, User):
            member = services.accept_invitation(token=token, user=request.user)
            request.session.pop(INVITATION_SESSION_KEY, None)
            return redirect("inbox", member.workspace.slug)
        invitation = services.access_invitation(token)
    except Problem as problem:
        request.session.pop(INVITATION_SESSION_KEY, None)
        return problem_response(request, problem)
    request.session[INVITATION_SESSION_KEY] = token
    return render(request, "workspaces/join.html", {"invitation": invitation})


@require_POST
@login_required
def save_theme(request: HttpRequest) -> HttpResponse:
    """Saves `theme`, then back to the page it was chosen on."""
    theme = request.POST.get("theme", "")
    if theme in ("system", "light", "dark"):
        User.objects.filter(email=request.user.get_username()).update(theme=theme)
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204)
    return redirect(page_before(request, otherwise="/"))


@workspace_view
@require_safe
def members(request: WorkspaceRequest) -> HttpResponse:
    return render_members(request)


def render_members(request: WorkspaceRequest, *, problem: Problem | None = None, link: str = "") -> HttpResponse:
    """Everybody, or those whose name holds `?q=`, and, for admins, the open invitations. `link` is shown this once.

    Of several pages the one that `page` says, in the address or in a form of this page, or where the participant of
    `?person=` stands; of invitations the one that `invitations` says.
    """
    shown = request.POST or request.GET
    words = words_param(shown)
    active_members = Member.objects.filter(workspace=request.workspace, removed_at=None)
    invitations = Invitation.objects.filter(workspace=request.workspace, revoked_at=None, uses_left__gt=0)
    invitations = invitations.filter(expires_at__gt=timezone.now()).order_by("-id")
    invitations = invitations.select_related("created_by").prefetch_related("channels")
    if not request.access.administers:
        invitations = invitations.none()
    if request.access.is_guest:
        active_members = active_members.filter(pk=request.member.pk)
    active_members = active_members.filter(name_like(words, "participant__")).annotate(is_here=is_here("participant"))
    active_members = active_members.select_related("participant", "user").order_by("participant__name", "id")
    number = shown.get("page") or _page_of(int_param(request.GET, "person"), active_members)
    page = Paginator(active_members, PEOPLE_ON_A_PAGE).get_page(number)
    context = {
        "members": page,
        "page": page,
        "words": words,
        "words_query": urlencode({"q": words}) if words else "",
        "roles": [choice for choice in Member.Role.choices if choice[0] != "owner" or request.access.role == "owner"],
        "invitable": [choice for choice in Member.Role.choices if choice[0] != "owner"],
        "invitations": Paginator(invitations, INVITATIONS_ON_A_PAGE).get_page(shown.get("invitations")),
        "link": link,
        "kept": request.POST,
    }
    return _render_form(request, "workspaces/members.html", problem, **context)


def _page_of(participant_id: int | None, members: QuerySet[Member]) -> int:
    """The page of members, by name, on which the participant is; the first for nobody of them."""
    member = members.filter(participant=participant_id).first() if participant_id else None
    if member is None:
        return 1
    name = member.participant.name
    before = members.filter(Q(participant__name__lt=name) | Q(participant__name=name, pk__lt=member.pk))
    return before.count() // PEOPLE_ON_A_PAGE + 1


@workspace_view
@require_POST
def member_change(request: WorkspaceRequest, member_id: int) -> HttpResponse:
    """The page that gives the member another `role`, or with `remove` ends their access."""
    active_members = Member.objects.filter(workspace=request.workspace, removed_at=None)
    member = active_members.select_related("participant", "user").filter(pk=min(member_id, MAX_ID)).first()
    if member is None or (request.access.is_guest and member.pk != request.member.pk):
        raise Missing
    try:
        if "remove" in request.POST:
            services.remove_member(member=member, by=request.access)
            messages.info(request, f"{member.participant.name} has no access any more. What they said stays.")
        else:
            services.update_member_role(member=member, role=request.POST.get("role", ""), by=request.access)
    except Problem as problem:
        return render_members(request, problem=problem)
    if member.pk == request.member.pk:
        return redirect("home")
    place = "" if "remove" in request.POST else f"#p-{member.participant_id}"
    return redirect(f"{_list_url(request, 'q', 'page')}{place}")


def _list_url(request: WorkspaceRequest, *names: str) -> str:
    """The list as it was when the form was sent that names these parameters."""
    params = {name: request.POST[name] for name in names if request.POST.get(name)}
    query = f"?{urlencode(params)}" if params else ""
    return f"{reverse('members', args=[request.workspace.slug])}{query}"


@workspace_view
@require_POST
def invitation_create(request: WorkspaceRequest) -> HttpResponse:
    """Makes a link; it is shown once, on this answer."""
    try:
        check_rate(request, "invitation", TOO_MANY_LINKS)
        _, token = services.create_invitation(
            workspace=request.workspace,
            by=request.access,
            role=request.POST.get("role", "member"),
            days=_parse_number(request.POST.get("days", "7")),
            uses=_parse_number(request.POST.get("uses", "1")),
            channel_ids=[_parse_number(one) for one in request.POST.getlist("channels")],
        )
    except Problem as problem:
        return render_members(request, problem=problem)
    return render_members(request, link=request.build_absolute_uri(f"/join/{token}/"))


def _parse_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


@workspace_view
@require_POST
def invitation_revoke(request: WorkspaceRequest, invitation_id: int) -> HttpResponse:
    invitation = Invitation.objects.filter(workspace=request.workspace, pk=min(invitation_id, MAX_ID)).first()
    if invitation is None or not request.access.administers:
        raise Missing
    services.revoke_invitation(invitation=invitation, by=request.access)
    return redirect(f"{_list_url(request, 'invitations')}#invite")


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def workspace_settings(request: WorkspaceRequest, is_index: bool = False) -> HttpResponse:
    """The page of name and description, for owners and admins; on a phone, where `is_index`, the list of all settings
    instead."""
    if not request.access.administers:
        raise Refused("Only owners and admins change the workspace. Ask one of them.")
    problem = None
    fields = ("name", "description")
    draft = {name: str(getattr(request.workspace, name)) for name in fields}
    if request.method == "POST":
        draft = {name: request.POST.get(name, "").replace("\r\n", "\n") for name in fields}
        try:
            services.update_workspace(workspace=request.workspace, by=request.access, **draft)
            messages.success(request, "Saved. Agents read it from their next prompt on.")
            return redirect("settings-general", request.workspace.slug)
        except Problem as error:
            problem = error
    return _render_form(request, "workspaces/settings.html", problem, kept=draft, is_index=is_index and problem is None)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def snippets(request: WorkspaceRequest) -> HttpResponse:
    """Texts that instructions include, and a form for a new one; owners and admins."""
    if not request.access.administers:
        raise Refused("Only owners and admins write snippets: they are trusted. Ask one of them.")
    if request.method != "POST":
        return _render_snippets(request)
    name, text = request.POST.get("name", ""), request.POST.get("text", "")
    try:
        created = services.create_snippet(workspace=request.workspace, by=request.access, name=name, text=text)
    except Problem as problem:
        return _render_snippets(request, problem, draft={"name": name, "text": text})
    messages.success(request, f"Saved. A line “@include {created.name}” in any instructions puts it in.")
    return redirect("snippets", request.workspace.slug)


@workspace_view
@require_POST
def snippet_change(request: WorkspaceRequest, snippet_id: int) -> HttpResponse:
    """Another `text`, on the `version` that was shown; or `delete`. What cannot be saved stays in the form, where
    the snippet is gone in that of a new one."""
    if not request.access.administers:
        raise Missing
    rows = Snippet.objects.select_related("workspace").filter(workspace=request.workspace, pk=min(snippet_id, MAX_ID))
    snippet, text, is_deletion = rows.first(), request.POST.get("text", ""), "delete" in request.POST
    try:
        if snippet is None:
            raise Missing("This snippet was deleted meanwhile.")
        if is_deletion:
            services.delete_snippet(snippet=snippet, by=request.access)
            messages.success(request, f"“{snippet.name}” is deleted.")
        else:
            version = _parse_number(request.POST.get("version", ""))
            services.update_snippet(snippet=snippet, by=request.access, text=text, version=version)
            messages.success(request, "Saved. Agents read it from their next prompt on.")
    except Missing as problem:
        if is_deletion or not text:
            raise
        problem.message += " Nothing was saved: your text stands here, for a new one."
        return _render_snippets(request, problem, draft={"text": text})
    except Problem as problem:
        draft = {"id": snippet_id, "text": snippet.text if snippet is not None and is_deletion else text}
        return _render_snippets(request, problem, draft=draft)
    return redirect("snippets", request.workspace.slug)


def _render_snippets(
    request: WorkspaceRequest, problem: Problem | None = None, draft: Mapping[str, object] | None = None
) -> HttpResponse:
    rows = Snippet.objects.filter(workspace=request.workspace).select_related("changed_by")
    return _render_form(request, "workspaces/snippets.html", problem, snippets=rows, kept=draft or {})


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: WorkspaceRequest) -> HttpResponse:
    problem = None
    if request.method == "POST":
        try:
            services.update_profile(
                member=request.member,
                name=request.POST.get("name", ""),
                theme=request.POST.get("theme", ""),
                enter_sends="enter_sends" in request.POST,
                shortcuts="shortcuts" in request.POST,
                is_invisible="is_invisible" in request.POST,
                time_zone=request.POST.get("time_zone", request.user.time_zone),
            )
            messages.success(request, "Saved.")
            return redirect("profile", request.workspace.slug)
        except Problem as error:
            problem = error
    return render_profile(request, problem)


def render_profile(
    request: WorkspaceRequest, problem: Problem | None = None, *, picture_problem: Problem | None = None
) -> HttpResponse:
    """The page of one's own settings, with what was wrong with them or with the picture."""
    context = {
        "problem": problem,
        "picture_problem": picture_problem,
        "themes": User._meta.get_field("theme").choices,
        "zones": common_time_zones(),
        "browser_zone": request.COOKIES.get("zone", ""),
    }
    failure = problem or picture_problem
    return render(request, "workspaces/profile.html", context, status=failure.status if failure else 200)

"""Pages of people and workspaces: signing up (allauth), who is here, how it is set up, and what went wrong."""

import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import ratelimit
from allauth.core.internal.ratelimit import get_ip
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ImproperlyConfigured, RequestDataTooBig
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.defaults import server_error as django_server_error

from openvibe.api.problems import INTERNAL_PROBLEM, MEDIA_TYPE, problem_body
from openvibe.base.outages import unavailable_from
from openvibe.base.params import MAX_ID, words_param
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.base.rate_limits import check_rate
from openvibe.base.time_zones import common_time_zones
from openvibe.workspaces import services
from openvibe.workspaces.decorators import (
    LAST_WORKSPACE_SESSION_KEY,
    WorkspaceRequest,
    problem_response,
    unsaved_texts,
    wants_json,
    workspace_view,
)
from openvibe.workspaces.known_browsers import browser_key, is_known_browser, remember_browser
from openvibe.workspaces.models import Invitation, Member, Snippet, User, Workspace
from openvibe.workspaces.queries import is_here, named_like

INVITATION_SESSION_KEY = "invitation"
PEOPLE_ON_A_PAGE = 50
TOO_MANY_LINKS = "You made many links within an hour. Wait a little, or make one for more people."
STALE_PAGE = (
    "This page was open for too long: you signed in or out somewhere else since. Nothing was changed, and what you "
    "typed is still here. Copy it, reload the page and send it again."
)
log = structlog.get_logger(__name__)


class SignupForm(forms.Form):
    """What sign-up asks beside e-mail and password."""

    name = forms.CharField(label="Your name", max_length=80, min_length=1)

    field_order = ("name", "email", "password1")

    def signup(self, request: HttpRequest, user: User) -> None:
        user.name = self.cleaned_data["name"].strip()
        user.save(update_fields=["name"])


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """Sign-up is open to whoever holds a valid invitation link."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        if settings.OPEN_SIGNUP:
            return True
        try:
            services.access_invitation(request.session.get(INVITATION_SESSION_KEY, ""))
        except Missing:
            return False
        return True

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        return self.get_login_redirect_url(request)

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        token = request.session.get(INVITATION_SESSION_KEY, "")
        return f"/join/{token}/" if token else str(settings.LOGIN_REDIRECT_URL)

    def clean_email(self, email: str) -> str:
        return str(super().clean_email(email)).lower()

    def get_client_ip(self, request: HttpRequest) -> str:
        """A request that names fewer addresses than there are trusted proxies came past one: its own sender counts."""
        try:
            return str(super().get_client_ip(request))
        except ImproperlyConfigured:
            return str(request.META["REMOTE_ADDR"])

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Wrong guesses are counted by address and account together, so that nobody locks another out. Many addresses
        guessing at one account wait, too; a browser that has signed in to it before does not wait for either."""
        email = str(credentials.get("email", "")).lower()
        if is_known_browser(request, email):
            allowed = ratelimit.consume(request, action="login_known_browser", key=browser_key(request))
        else:
            super().pre_authenticate(request, **credentials)
            allowed = ratelimit.consume(request, action="login_account", key=email)
        if not allowed:
            raise self.validation_error("too_many_login_attempts")

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        return f"{super()._get_login_attempts_cache_key(request, **credentials)}:{get_ip(request)}"

    def _delete_login_attempts_cached_email(self, request: HttpRequest, **credentials: Any) -> None:
        super()._delete_login_attempts_cached_email(request, **credentials)
        ratelimit.clear(request, action="login_account", key=str(credentials.get("email", "")).lower())

    def post_login(self, request: HttpRequest, user: User, **values: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **values)
        remember_browser(request, response, user)
        return response

    def reauthenticate(self, user: User, password: str) -> bool:
        """By the account's address, also where allauth keeps none of its own."""
        return bool(self.authenticate(self.request, email=user.email, password=password) == user)


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
        except Problem as raised:
            problem = raised
    return _render_form(request, "workspaces/create.html", problem, kept=request.POST)


def _render_form(request: HttpRequest, template: str, problem: Problem | None, **context: Any) -> HttpResponse:
    """The page of a form, with the problem that its input had."""
    return render(request, template, {"problem": problem, **context}, status=problem.status if problem else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    """What an invitation leads to. Whoever has no account yet makes one first and comes back."""
    try:
        invitation = services.access_invitation(token)
        if request.method == "POST" and isinstance(request.user, User):
            member = services.accept_invitation(token=token, user=request.user)
            request.session.pop(INVITATION_SESSION_KEY, None)
            return redirect("inbox", member.workspace.slug)
    except Problem as problem:
        request.session.pop(INVITATION_SESSION_KEY, None)
        return problem_response(request, problem)
    request.session[INVITATION_SESSION_KEY] = token
    return render(request, "workspaces/join.html", {"invitation": invitation})


@require_POST
@login_required
def save_theme(request: HttpRequest) -> HttpResponse:
    """Save `theme`, then back to the page it was chosen on."""
    theme = request.POST.get("theme", "")
    if theme in ("system", "light", "dark"):
        User.objects.filter(email=request.user.get_username()).update(theme=theme)
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204)
    referrer = request.headers.get("Referer", "")
    is_own_page = url_has_allowed_host_and_scheme(referrer, {request.get_host()}, require_https=request.is_secure())
    return redirect(referrer if is_own_page else "/")


@workspace_view
@require_safe
def members(request: WorkspaceRequest) -> HttpResponse:
    return render_members(request)


def render_members(request: WorkspaceRequest, *, problem: Problem | None = None, link: str = "") -> HttpResponse:
    """Everybody, or those whose name holds `?q=`, and, for admins, the open invitations. `link` is shown this once."""
    words = words_param(request.GET)
    active_members = Member.objects.filter(workspace=request.workspace, removed_at=None)
    invitations = Invitation.objects.filter(workspace=request.workspace, revoked_at=None).order_by("-id")
    invitations = invitations.select_related("created_by").prefetch_related("channels")
    if not request.access.administers:
        invitations = invitations.none()
    if request.access.is_guest:
        active_members = active_members.filter(pk=request.member.pk)
    active_members = active_members.filter(named_like(words, "participant__")).annotate(is_here=is_here("participant"))
    active_members = active_members.select_related("participant", "user").order_by("participant__name", "id")
    page = Paginator(active_members, PEOPLE_ON_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "members": page,
        "page": page,
        "words": words,
        "words_query": urlencode({"q": words}) if words else "",
        "roles": [choice for choice in Member.Role.choices if choice[0] != "owner" or request.access.role == "owner"],
        "invitable": [choice for choice in Member.Role.choices if choice[0] != "owner"],
        "invitations": [each for each in invitations if each.is_open],
        "link": link,
        "kept": request.POST,
    }
    return _render_form(request, "workspaces/members.html", problem, **context)


@workspace_view
@require_POST
def member_change(request: WorkspaceRequest, member_id: int) -> HttpResponse:
    """Give the member another `role`, or with `remove` end their access."""
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
    return redirect("home") if member.pk == request.member.pk else redirect("members", request.workspace.slug)


@workspace_view
@require_POST
def invitation_create(request: WorkspaceRequest) -> HttpResponse:
    """Make a link; it is shown once, on this answer."""
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
    return redirect("members", request.workspace.slug)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def workspace_settings(request: WorkspaceRequest, is_index: bool = False) -> HttpResponse:
    """Name and description, for owners and admins; on a phone, where `is_index`, the list of all settings instead."""
    if not request.access.administers:
        raise Refused("Only owners and admins change the workspace. Ask one of them.")
    problem = None
    fields = ("name", "description")
    kept = {name: str(getattr(request.workspace, name)) for name in fields}
    if request.method == "POST":
        kept = {name: request.POST.get(name, "").replace("\r\n", "\n") for name in fields}
        try:
            services.update_workspace(workspace=request.workspace, by=request.access, **kept)
            messages.success(request, "Saved. Agents read it from their next prompt on.")
            return redirect("settings-general", request.workspace.slug)
        except Problem as raised:
            problem = raised
    return _render_form(request, "workspaces/settings.html", problem, kept=kept, is_index=is_index and problem is None)


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
        return _render_snippets(request, problem, kept={"name": name, "text": text})
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
        return _render_snippets(request, problem, kept={"text": text})
    except Problem as problem:
        kept = {"id": snippet_id, "text": snippet.text if snippet is not None and is_deletion else text}
        return _render_snippets(request, problem, kept=kept)
    return redirect("snippets", request.workspace.slug)


def _render_snippets(
    request: WorkspaceRequest, problem: Problem | None = None, kept: Mapping[str, object] | None = None
) -> HttpResponse:
    rows = Snippet.objects.filter(workspace=request.workspace).select_related("changed_by")
    return _render_form(request, "workspaces/snippets.html", problem, snippets=rows, kept=kept or {})


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
        except Problem as raised:
            problem = raised
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


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form's key is missing or old: a sign-in elsewhere, or a page kept open for long."""
    if wants_json(request) or request.headers.get("HX-Request"):
        return problem_response(request, Refused(STALE_PAGE, code="stale_page"))
    is_our_form = request.headers.get("Sec-Fetch-Site") == "same-origin"
    return render(request, "errors/csrf.html", {"kept": unsaved_texts(request) if is_our_form else []}, status=403)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that cannot be read, or is larger than any form here. Reads nothing of it: that is what failed."""
    is_large = isinstance(exception, RequestDataTooBig)
    return render(request, "errors/bad_request.html", {"is_large": is_large}, status=413 if is_large else 400)


def server_error(request: HttpRequest) -> HttpResponse:
    """Whatever nothing else answered: a fault of ours, or 503 with a sentence when it is the database's."""
    error = sys.exc_info()[1]
    outage = unavailable_from(error)
    if request.path.startswith("/api/"):
        body = problem_body(outage) if outage else INTERNAL_PROBLEM
        response: HttpResponse = JsonResponse(body, status=body["status"], content_type=MEDIA_TYPE)
    else:
        response = problem_response(request, outage) if outage else django_server_error(request)
    if outage:
        log.error("database_unavailable", error=str(error), path=request.path)
        vars(response)["_has_been_logged"] = True  # no traceback for every call of an outage
        response.headers["Retry-After"] = str(outage.retry_after)
    return response

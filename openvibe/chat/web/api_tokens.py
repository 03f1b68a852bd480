"""Tokens for the API in the app: an admin makes her own and those of agents, and takes back any of the workspace's."""

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from openvibe.api.models import SCOPE_WORDS, SCOPES, Token
from openvibe.api.services import MAX_TOKEN_DAYS, issue_token, revoke_token
from openvibe.base.forms import ServiceForm
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Problem, Refused
from openvibe.chat.queries import token_owners
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Participant


class TokenForm(ServiceForm):
    owner = forms.ModelChoiceField(
        Participant.objects.none(),
        label="Whose",
        empty_label=None,
        error_messages={"invalid_choice": "Choose whose token it is to be."},
    )
    name = forms.CharField(
        required=False,
        label="What for",
        widget=forms.TextInput(attrs={"maxlength": 80, "required": True}),
        help_text="Such as the machine or the script that holds it.",
    )
    scopes = forms.MultipleChoiceField(
        required=False,
        label="It may",
        initial=("read", "write", "memory"),
        choices=[
            (scope, format_html('<span><b>{}</b> <span class="quiet-note">{}</span></span>', scope, SCOPE_WORDS[scope]))
            for scope in SCOPES
        ],
        widget=forms.CheckboxSelectMultiple,
    )
    days = forms.IntegerField(
        required=False,
        initial=90,
        min_value=1,
        max_value=MAX_TOKEN_DAYS,
        label="Days until it expires",
        help_text="Empty: it does not expire.",
    )

    def __init__(self, access: Access, *args: Any) -> None:
        super().__init__(*args)
        owners = token_owners(access).order_by("kind", "name", "id")
        self.fields["owner"].queryset = owners  # type: ignore[attr-defined]  # a field of models


@never_cache
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: WorkspaceRequest) -> HttpResponse:
    """Those that open something still, and a form for a new one, whose secret is shown in this answer only."""
    _check_administers(request.access)
    form, new_token = TokenForm(request.access, request.POST or None), None
    if form.is_valid():
        owner = form.cleaned_data.pop("owner")
        try:
            token, secret = issue_token(
                participant=owner, by=request.access, made_by_id=request.access.participant_id, **form.cleaned_data
            )
            form, new_token = TokenForm(request.access), {"token": token, "secret": secret, "owner": owner}
        except Problem as problem:
            form.add_problem(problem)
    rows = _tokens(request).filter(revoked_at=None).select_related("participant", "made_by").order_by("-id")
    page = {"form": form, "made": new_token, "tokens": rows}
    return render(request, "workspaces/tokens.html", page, status=form.status)


@workspace_view
@require_POST
def token_revoke(request: WorkspaceRequest, token_id: int) -> HttpResponse:
    """Revokes the token, which opens nothing any more."""
    _check_administers(request.access)
    revoke_token(token=get_object_or_404(_tokens(request), pk=min(token_id, MAX_ID)), by=request.access)
    return redirect("tokens", request.workspace.slug)


def _tokens(request: WorkspaceRequest) -> QuerySet[Token]:
    """Every token of the workspace: whoever administers it shuts out what leaked, whose ever it is."""
    return Token.objects.filter(participant__workspace=request.workspace)


def _check_administers(access: Access) -> None:
    if not access.administers:
        raise Refused("Only owners and admins manage tokens. Ask one of them.")

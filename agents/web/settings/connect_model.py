"""The page *Connect a model*, for owners and admins: a key in one field, and agents answer with what it is for."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect

from agents.agent.models import Agent
from agents.connect.model_connection import ConnectionFailed, ModelConnection, ModelRequest, connect_model
from agents.connect.presets import LOCAL_PRESETS, PRESETS, Preset, find_local_servers, recognize_preset
from openvibe.base.forms import ServiceForm
from openvibe.base.params import int_param
from openvibe.base.problems import Missing, Problem
from openvibe.base.rate_limits import check_rate
from openvibe.chat.models import Channel
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.decorators import LAST_WORKSPACE_SESSION_KEY, WorkspaceRequest, workspace_view
from openvibe.workspaces.models import User
from openvibe.workspaces.queries import list_memberships

OTHER = "other"
MAX_MODEL_CHARACTERS = 200
MAX_CHOICES = 100
"""Models to choose from; any other can be typed."""
PROVIDERS = {preset.name: preset for preset in PRESETS if not preset.is_local}


class ConnectForm(ServiceForm):
    """The key, and what is asked besides it only where the key does not say."""

    api_key = forms.CharField(
        label="Key",
        required=False,
        strip=True,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text="Stored encrypted, shown to nobody again, sent to its provider alone.",
    )
    base_url = forms.CharField(
        label="Address of the server",
        required=False,
        max_length=500,
        strip=True,
        widget=forms.TextInput(
            attrs={"inputmode": "url", "placeholder": "http://gpu-box:11434", "spellcheck": "false"}
        ),
        help_text="Only for a model server of your own or an unlisted provider: any that speaks OpenAI's protocol.",
    )
    provider = forms.ChoiceField(
        label="Provider",
        required=False,
        choices=[("", "Recognised by the key"), *((name, name) for name in PROVIDERS), (OTHER, "Another address")],
    )
    model = forms.CharField(
        label="Model",
        required=False,
        max_length=MAX_MODEL_CHARACTERS,
        help_text="Empty: a sensible one of those that the key may use.",
    )
    agent = forms.ModelChoiceField(
        Agent.objects.none(),
        required=False,
        label="Who answers with it",
        empty_label="Every agent without a model of its own",
        error_messages={"invalid_choice": "This agent does not answer any more. Choose another."},
    )

    def __init__(self, request: WorkspaceRequest) -> None:
        super().__init__(request.POST if request.method == "POST" else None)
        agents = Agent.objects.filter(workspace=request.workspace, deactivated_at=None).select_related("participant")
        self.fields["agent"].queryset = agents  # type: ignore[attr-defined]  # a field of models

    @property
    def server(self) -> str:
        """The server that a valid form names: models that another one offered are not this one's."""
        recognised = recognize_preset(self.cleaned_data["api_key"])
        named = self.cleaned_data["base_url"] or self.cleaned_data["provider"]
        return named or (recognised.name if recognised else "")

    def preset(self) -> Preset | None:
        """None: recognised by the key, or at the address. Raises Problem for an address that is missing or too many."""
        provider, base_url = self.cleaned_data["provider"], self.cleaned_data["base_url"]
        if provider == OTHER and not base_url:
            raise Problem("Enter the address of its API.", field="base_url")
        if provider in PROVIDERS and base_url:
            raise Problem(
                f"Both {provider} and an address are given. Leave the address empty, or choose “Another address”. "
                "Nothing was saved.",
                field="base_url",
            )
        return PROVIDERS.get(provider)


@login_required
@require_safe
def connect_model_home(request: HttpRequest) -> HttpResponse:
    """The page of the workspace visited last: where links lead that know no workspace."""
    assert isinstance(request.user, User)
    slugs = [member.participant.workspace.slug for member in list_memberships(request.user)]
    last = request.session.get(LAST_WORKSPACE_SESSION_KEY)
    if not slugs:
        return redirect("workspace-create")
    return redirect("connect-model", last if last in slugs else slugs[0])


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters("api_key")
def connect_model_page(request: WorkspaceRequest) -> HttpResponse:
    """A POST connects what the key is for, or with `local` the server of this machine that has that name."""
    form = ConnectForm(request)
    if request.method != "POST" or not request.access.administers:
        return _render_page(request, form, status=403 if request.method == "POST" else 200)
    try:
        if form.is_valid():
            return _finish(request, _connect(request, form))
        failure = _first_problem(form)
    except Problem as problem:
        failure = problem
    return _render_page(request, form, failure=failure, status=failure.status)


def _first_problem(form: ConnectForm) -> Problem:
    """What cannot be read, and why: the one sentence that is shown while the form stays as it is."""
    name, sentences = next(iter(form.errors.items()))
    return Problem(f"{form.fields[name].label}: {sentences[0]} Nothing was saved.", field=name)


def _chosen_model(request: WorkspaceRequest, name: str) -> str:
    """A model chosen from a list. Raises Problem for what no list offers."""
    model = request.POST.get(name, "")
    if len(model) > MAX_MODEL_CHARACTERS:
        raise Problem("That is longer than any model's name. Nothing was saved.", field="model")
    return model


def _connect(request: WorkspaceRequest, form: ConnectForm) -> ModelConnection:
    check_rate(request, "connect_model", "You tried many within an hour. Wait a little; nothing was saved.")
    local = request.POST.get("local", "")
    if local:
        preset = next((each for each in LOCAL_PRESETS if each.name == local), None)
        if preset is None:
            raise Problem("There is no such server. Nothing was saved.")
        model_request = ModelRequest(preset=preset, model=_chosen_model(request, "local_model"))
    else:
        values = form.cleaned_data
        is_same_server = request.POST.get("offered_by", form.server) == form.server
        model = (_chosen_model(request, "other_model") if is_same_server else "") or values["model"]
        model_request = ModelRequest(values["api_key"], form.preset(), model, values["agent"], values["base_url"])
    return connect_model(
        workspace=request.workspace, by=request.access, request=model_request, is_superuser=request.user.is_superuser
    )


def _finish(request: WorkspaceRequest, connection: ModelConnection) -> HttpResponse:
    messages.success(request, connection.summary)
    address = f"{reverse('connect-model', args=[request.workspace.slug])}?connected={connection.endpoint.pk}"
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)


def _render_page(
    request: WorkspaceRequest, form: ConnectForm, *, failure: Problem | None = None, status: int = 200
) -> HttpResponse:
    """The page; for htmx only what came of the attempt, so that the key stays in its field."""
    context: dict[str, Any] = {"form": form, "failure": failure}
    if isinstance(failure, ConnectionFailed):
        context |= {"models": failure.models[:MAX_CHOICES], "more_models": _more_models(failure.models)}
        context["offered_by"] = form.server if form.is_bound and form.is_valid() else ""
    if request.htmx:
        return render(request, "agents/_connect_result.html", context)
    if request.access.administers:
        models = Endpoint.objects.filter(workspace=request.workspace).exclude(kind=Endpoint.Kind.OFFLINE)
        context["connected"] = models.filter(pk=int_param(request.GET, "connected") or 0).first()
        context["has_models"] = models.exists()
        context["ask_in"] = Channel.objects.visible_to(request.access).filter(archived_at=None, first_participant=None)
        context["ask_in"] = context["ask_in"].order_by("pk").first()
        context["allowed_hosts"] = settings.ALLOWED_ENDPOINT_HOSTS if request.user.is_superuser else ()
    return render(request, "agents/connect_model.html", context, status=status)


def _more_models(names: Sequence[str]) -> str:
    """A note that there are more than can be chosen from; empty where there are not."""
    if len(names) <= MAX_CHOICES:
        return ""
    return f"It offers {len(names):,} models; these are the first {MAX_CHOICES}. Any other can be typed under Model."


@workspace_view
@require_safe
def local_servers(request: WorkspaceRequest) -> HttpResponse:
    """Model servers of the machine OpenVibe runs on, for superusers who administer the workspace: looked for now."""
    if not (request.user.is_superuser and request.access.administers):
        raise Missing
    servers = find_local_servers(own_port=request.get_port())
    template = "agents/_local_servers.html" if request.htmx else "agents/local_servers.html"
    return render(request, template, {"servers": servers, "places": LOCAL_PRESETS})

"""Settings pages of the models behind agents, for owners and admins."""

from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from agents.agent.models import Agent
from agents.connect.endpoint_forms import EndpointForm
from agents.connect.endpoints import delete_endpoint, forget_adaptations, forget_learned, save_endpoint
from agents.connect.presets import PRESETS
from agents.connect.window_checks import offered_facts, try_and_measure
from openvibe.base.forms import field_changes
from openvibe.base.params import MAX_ID, int_param
from openvibe.base.problems import Missing, Refused
from openvibe.base.rate_limits import check_rate
from openvibe.engines.llm.endpoints.endpoints import TOO_MANY_LISTS, TOO_MANY_TESTS, fetch_models
from openvibe.engines.llm.endpoints.windows import window_notes
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_http_methods(["GET", "HEAD"])
def endpoints(request: WorkspaceRequest) -> HttpResponse:
    """The models of this workspace and, of each, who answers with it."""
    _check_administers(request.access)
    rows = _endpoints(request).order_by("-is_default", "name", "pk").prefetch_related("agents__participant")
    answering = Agent.objects.filter(workspace=request.workspace, deactivated_at=None, answers_itself=False)
    undecided_agents = answering.filter(endpoint=None).select_related("participant").order_by("participant__name", "pk")
    return render(request, "agents/settings_models.html", {"endpoints": rows, "undecided": undecided_agents})


@never_cache
@sensitive_post_parameters("api_key")
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def endpoint_create(request: WorkspaceRequest) -> HttpResponse:
    """A form for a new one; the address of a preset fills in kind and base URL."""
    _check_administers(request.access)
    return _save_form(request, Endpoint(workspace=request.workspace))


@never_cache
@sensitive_post_parameters("api_key")
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def endpoint_change(request: WorkspaceRequest, endpoint_id: int) -> HttpResponse:
    """The form of one; with `act` = `test` it is asked a tiny question, with `forget` it is asked again without what it
    wanted otherwise (`adaptation`: one of it), with `forget-window` what was learned of its window is forgotten, with
    `delete` it goes."""
    endpoint, act = _access_endpoint(request, endpoint_id), request.POST.get("act", "")
    if act == "test":
        try:
            check_rate(request, "test_model", TOO_MANY_TESTS)
            result = try_and_measure(endpoint=endpoint)
            note = f"{result.summary} It said: {result.message}" if result.ok else f"{endpoint}: {result.message}"
            (messages.success if result.ok else messages.error)(request, note)
        except Refused as problem:
            messages.error(request, problem.message)
        return redirect("settings-models", request.workspace.slug)
    if act == "forget":
        count = forget_adaptations(
            endpoint=endpoint, by=request.access, adaptation_id=int_param(request.POST, "adaptation")
        )
        if count:
            messages.success(request, f"Forgotten. {endpoint} is asked without it again.")
        return redirect("settings-model", request.workspace.slug, endpoint.pk)
    if act == "forget-window":
        forget_learned(endpoint=endpoint, by=request.access)
        messages.success(request, f"Prompts for {endpoint} are made for {endpoint.context_window:,} tokens again.")
        return redirect("settings-model", request.workspace.slug, endpoint.pk)
    if act == "delete":
        delete_endpoint(endpoint=endpoint, by=request.access)
        messages.success(request, f"{endpoint} is deleted. Its agents answer with the workspace's default model.")
        return redirect("settings-models", request.workspace.slug)
    return _save_form(request, endpoint)


@sensitive_post_parameters("api_key")
@workspace_view
@require_POST
def endpoint_models(request: WorkspaceRequest) -> HttpResponse:
    """The names of the models that the endpoint of the form offers, as JSON, saved or not. The stored key goes only to
    the address that it was entered for, and a superuser's leave holds for that one alone."""
    _check_administers(request.access)
    try:
        check_rate(request, "list_models", TOO_MANY_LISTS)
    except Refused as error:
        return JsonResponse({"models": [], "message": error.message})
    form = request.POST
    draft = Endpoint(kind=form.get("kind", ""), base_url=form.get("base_url", "").strip())
    draft.api_key = form.get("api_key", "").strip()
    stored = _endpoints(request).filter(pk=int_param(form, "endpoint") or 0).first()
    if stored and stored.base_url == draft.base_url:
        draft.api_key = draft.api_key or stored.api_key
        draft.allowed_address = stored.allowed_address
    models = fetch_models(endpoint=draft)
    facts = offered_facts(models, draft.base_url)
    return JsonResponse({"models": models.models, "facts": facts, "message": models.message})


@transaction.atomic
def _save_form(request: WorkspaceRequest, endpoint: Endpoint) -> HttpResponse:
    initial = request.GET.dict() if endpoint.pk is None else None
    form = EndpointForm(request.POST or None, instance=endpoint, initial=initial)
    if request.method == "POST" and form.is_valid():
        save_endpoint(endpoint=form.instance, by=request.access, changes=field_changes(form))
        messages.success(request, f"{form.instance} is saved. Test it to see that it answers.")
        return redirect("settings-models", request.workspace.slug)
    page = {
        "form": form,
        "endpoint": endpoint,
        "presets": PRESETS,
        "adaptations": endpoint.adaptations.all() if endpoint.pk else (),
        "window_notes": window_notes(endpoint),
    }
    return render(request, "agents/settings_model.html", page, status=400 if form.errors else 200)


def _endpoints(request: WorkspaceRequest) -> QuerySet[Endpoint]:
    return Endpoint.objects.filter(workspace=request.workspace)


def _access_endpoint(request: WorkspaceRequest, endpoint_id: int) -> Endpoint:
    _check_administers(request.access)
    endpoint = _endpoints(request).select_related("workspace").filter(pk=min(endpoint_id, MAX_ID)).first()
    if endpoint is None:
        raise Missing
    return endpoint


def _check_administers(access: Access) -> None:
    if not access.administers:
        raise Refused("Only owners and admins see and change agents and their models here. Ask one of them.")

"""Services: connect a model with nothing but its key, or with the address of its server as people write it.

The provider is asked first, for its models and for a word of each that is chosen; rows are written only once it has
answered, so nothing is ever half connected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from django.core.exceptions import ValidationError
from django.db import transaction

from agents.agent.models import Agent
from agents.agent.services import update_agent
from agents.connect.presets import Preset, choose_model, recognize_preset
from agents.connect.window_checks import take_known_prices, take_window, try_and_measure
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Channel
from openvibe.engines.llm.endpoints.endpoints import (
    ENDPOINT_CHECK,
    TRY_SECONDS_LIMIT,
    EndpointTryResult,
    ModelList,
    endpoint_answered,
    fetch_models,
    try_endpoint,
)
from openvibe.engines.llm.endpoints.server_models import ServerModel
from openvibe.engines.llm.endpoints.windows import copy_window
from openvibe.engines.llm.errors import BadAnswer
from openvibe.engines.llm.model_names import ModelKind
from openvibe.engines.llm.models import MIN_WINDOW, Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace

_BARE = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?(?:/[!-~]*)?\Z")
_VISIBLE = re.compile(r"[!-~]+\Z")
_OPERATIONS = re.compile(
    r"/(?:chat/completions|completions|responses|messages|embeddings|models|api|api/(?:chat|generate|tags|show|v0/models))"
    r"/*\Z"
)
_OWN_NETWORK = (".local", ".lan", ".internal", ".localdomain", ".home.arpa", ".intranet", ".corp")


def base_urls(text: str) -> tuple[str, ...]:
    """The base URLs at which the API may stand, the likeliest first: `gpu-box:8080` is `http://gpu-box:8080/v1`, or
    without its end.

    An operation at the end (`/chat/completions`) is no part of it. What cannot be read is returned as it is.
    """
    text = text.strip()
    if bare := _BARE.match(text):
        text = f"{_scheme(bare[1])}://{text}"
    try:
        if not _VISIBLE.match(text):  # which reading it would mend in silence
            return (text,)
        parts = urlsplit(text)
    except ValueError:
        return (text,)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        return (text,)
    path = _OPERATIONS.sub("", parts.path).rstrip("/")
    as_written = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    if not path:
        return (f"{as_written}/v1", as_written)
    return (as_written,) if re.search(r"/v\d[a-z0-9]*(?:/|\Z)", path) else (as_written, f"{as_written}/v1")


def _scheme(host: str) -> str:
    """Servers of one's own network rarely speak HTTPS; to others no key goes in the clear unless somebody says so."""
    name = host.strip("[]").lower()
    try:
        is_own = ip_address(name).is_private
    except ValueError:
        is_own = "." not in name or name.endswith(_OWN_NETWORK)
    return "http" if is_own else "https"


MAX_KEY_CHARACTERS = 1_000
NAME_CHARACTERS = 70
"""The longest part of the host that an endpoint is named after, so that a number fits behind."""
NOTHING_SAVED = "Nothing was saved."


class ConnectionFailed(Problem):
    """The provider was asked, and it does not work. `models`: what it offers, where it said so."""

    code = "model_not_connected"

    def __init__(self, message: str, *, field: str | None = None, models: Sequence[str] = ()) -> None:
        super().__init__(f"{message} {NOTHING_SAVED}", field=field)
        self.models = tuple(models)


@dataclass(frozen=True)
class ModelConnection:
    """A model that answered when it was connected. `agents` answer with it from now on."""

    endpoint: Endpoint
    agents: tuple[Agent, ...]
    trial: EndpointTryResult

    @property
    def summary(self) -> str:
        """What happened, in a sentence or two."""
        names = [agent.participant.name for agent in self.agents]
        who = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
        verb = "answers" if len(names) == 1 else "answer"
        first = f"{who} {verb} with {self.endpoint.model} from now on." if who else f"{self.endpoint} is connected."
        asked = f"It was asked to say hello, as agents ask it, and answered in {self.trial.seconds:.1f} seconds."
        return " ".join((first, asked, *self.trial.notices))


@dataclass(frozen=True)
class ModelRequest:
    """What somebody wants connected. `preset`: the provider, None to recognise it by the key; `address`: in its place,
    that of a server as a person writes it; `model` empty: a sensible one. `agent`: who answers with it; None: every
    agent without a model of its own."""

    api_key: str = field(default="", repr=False)
    preset: Preset | None = None
    model: str = ""
    agent: Agent | None = None
    address: str = ""


def connect_model(*, workspace: Workspace, by: Access, request: ModelRequest, is_superuser: bool) -> ModelConnection:
    """Finds out what the key is for, tries it, and lets agents answer with it. Takes up to a minute: outside
    transactions.

    A local preset lets OpenVibe call that one address of its own machine, and is for superusers alone. Raises Problem
    (`field`: api_key, provider, base_url, model), ConnectionFailed, and Refused. What an address leaves out (`http://`,
    `/v1`) is found by asking.
    """
    _check_administers(by, workspace.pk)
    preset, addresses = _preset_and_addresses(request)
    if preset.is_local and not is_superuser:
        raise Refused("Only superusers may let OpenVibe call the machine it runs on. Ask who installed it.")
    endpoint = _draft_endpoint(workspace, preset, request.api_key.strip())
    models = _list_models(endpoint, addresses, request.model)
    endpoint.model = request.model or _choose_model(endpoint, models, preset)
    trial = _try(endpoint, models)
    with transaction.atomic():
        endpoint = _store(endpoint, by)
        agents = _hand_over(endpoint, by, request.agent)
    endpoint_answered.send(sender=Endpoint, endpoint=endpoint)
    return ModelConnection(endpoint, agents, trial)


def _check_administers(by: Access, workspace_id: int) -> None:
    if not by.administers or by.workspace_id != workspace_id:
        raise Refused("Only owners and admins may connect a model.")


def _preset_and_addresses(request: ModelRequest) -> tuple[Preset, tuple[str, ...]]:
    """The provider, or what stands at the address that was typed, and where its API may stand, the likeliest first."""
    if request.address:
        addresses = base_urls(request.address)
        return Preset(_host(addresses[0])[:NAME_CHARACTERS] or "Model", addresses[0]), addresses
    preset = request.preset or recognize_preset(request.api_key.strip())
    if preset is None:
        raise Problem(
            "Nobody's keys that OpenVibe knows look like this one. Choose the provider below, or enter the address of "
            f"a server. {NOTHING_SAVED}",
            field="provider",
        )
    return preset, (preset.base_url,)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # what is no address is refused where it is checked
        return ""


def _draft_endpoint(workspace: Workspace, preset: Preset, key: str) -> Endpoint:
    """An endpoint that is not saved, with every field but the model in order."""
    if not key and preset.key_pattern:
        raise Problem("Paste the key, as its provider shows it.", field="api_key")
    if len(key) > MAX_KEY_CHARACTERS:
        raise Problem(f"That is longer than any key is. {NOTHING_SAVED}", field="api_key")
    free = {"price_in": 0, "price_out": 0} if preset.is_local else {}
    allowed_address = preset.base_url if preset.is_local else ""
    endpoint = Endpoint(
        workspace=workspace,
        name=preset.name,
        kind=preset.kind,
        base_url=preset.base_url,
        api_key=key,
        allowed_address=allowed_address,
        model="any",
        timeout_seconds=TRY_SECONDS_LIMIT,
        **free,
    )
    _check_fields(endpoint)
    return endpoint


def _check_fields(endpoint: Endpoint) -> None:
    """Raises Problem with the first sentence of what the fields themselves refuse."""
    try:
        endpoint.full_clean(exclude=["workspace", "name"], validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        name, sentences = next(iter(error.message_dict.items()))
        raise Problem(f"{sentences[0]} {NOTHING_SAVED}", field=name) from None


def _list_models(endpoint: Endpoint, addresses: Sequence[str], model: str) -> tuple[ServerModel, ...]:
    """What it offers, at the first of the addresses that lists models, which becomes that of the endpoint; nothing
    where none does and the model's name was typed. A server that cannot be reached is asked at no other."""
    result, base_url = ModelList((), ""), ""
    for address in addresses:
        endpoint.base_url = address
        attempt = fetch_models(endpoint=endpoint)
        if not base_url or attempt.is_list:
            result, base_url = attempt, address
        if attempt.is_list or not isinstance(attempt.error, BadAnswer):
            break
    endpoint.base_url = base_url
    if not result.server_models and not model:
        if result.is_list:
            raise ConnectionFailed(f"{endpoint.name} answered, but offers no model. Load one there first.")
        raise ConnectionFailed(_no_list_words(result, addresses))
    return result.server_models


def _no_list_words(result: ModelList, addresses: Sequence[str]) -> str:
    """The reason why no models came, and what to do: where an address was typed, perhaps another one."""
    if result.error is None:
        return result.message
    if len(addresses) == 1 or not isinstance(result.error, BadAnswer):
        return f"{result.error} {result.error.advice}"
    return (
        f"Neither {addresses[0]} nor {addresses[1]} lists models. {result.error} Check host and port: the address is "
        "that of the API, which often ends in /v1. Where it keeps no list, type the model's name under Model."
    )


def _choose_model(endpoint: Endpoint, models: Sequence[ServerModel], preset: Preset) -> str:
    """A sensible one. Raises ConnectionFailed where all of them are for something else than conversations."""
    if not any(model.kind is ModelKind.CHAT for model in models):
        names = ", ".join(model.name for model in models[:3])
        raise ConnectionFailed(
            f"{endpoint.name} answered, but none of its models looks made for conversations ({names}"
            f"{', …' if len(models) > 3 else ''}). Load one there first, or choose one all the same.",
            models=[model.name for model in models],
        )
    return choose_model(models, preset.families)


def _try(endpoint: Endpoint, models: Sequence[ServerModel]) -> EndpointTryResult:
    """Tries the endpoint and returns its answer, with window and prices set to what is told and known of the model. A
    server on this machine is asked again once it has loaded the model: only then it tells how much it gives it."""
    names = [model.name for model in models]
    if endpoint.allowed_address:
        trial = try_and_measure(endpoint=endpoint)
    else:
        trial = try_endpoint(endpoint=endpoint)
        sentence = take_window(endpoint, models) if trial.ok else ""
        trial = replace(trial, notices=(*trial.notices, *filter(None, [sentence])))
    if not trial.ok:
        raise ConnectionFailed(f"{endpoint.model} does not answer: {trial.message}", models=names)
    if endpoint.context_window < MIN_WINDOW:
        raise ConnectionFailed(f"{endpoint.model} answers. {' '.join(trial.notices)}", models=names)
    take_known_prices(endpoint)
    return trial


def _store(endpoint: Endpoint, by: Access) -> Endpoint:
    """Stores the endpoint in a transaction; returns it, saved under a free name, or the one that has its address and
    key already."""
    workspace = Workspace.objects.select_for_update(no_key=True).get(pk=endpoint.workspace_id)
    endpoint.timeout_seconds = Endpoint._meta.get_field("timeout_seconds").default
    others = list(Endpoint.objects.filter(workspace=workspace))
    for other in others:
        same = (other.kind, other.base_url) == (endpoint.kind, endpoint.base_url)
        if same and str(other.api_key) == endpoint.api_key:
            other.model, other.allowed_address = endpoint.model, endpoint.allowed_address
            other.save()
            copy_window(endpoint, other)
            _audit(other, by, subject=f"model of {other}", after=other.model)
            return other
    names, number = {other.name for other in others}, 1
    name = endpoint.name
    while endpoint.name in names:
        number += 1
        endpoint.name = f"{name} {number}"
    endpoint.save()
    _audit(endpoint, by, after=f"made, with {endpoint.model} at {endpoint.base_url}")
    if endpoint.allowed_address:
        _audit(endpoint, by, subject=f"calls to {endpoint.allowed_address}", after="allowed for this endpoint")
    return endpoint


def _hand_over(endpoint: Endpoint, by: Access, agent: Agent | None) -> tuple[Agent, ...]:
    """Lets the agent, or else all that have no model of their own, answer with it."""
    if agent is None:
        _make_default(endpoint, by)
        emit("agent_changed", workspace_id=endpoint.workspace_id)
        return tuple(_agents_of(endpoint))
    channels = Channel.objects.visible_to(by).filter(archived_at=None, memberships__participant=agent.participant_id)
    agent_with_model = update_agent(
        agent=agent,
        by=by,
        endpoint=endpoint,
        daily_token_budget=agent.daily_token_budget,
        answers_itself=False,
        channels=channels,
        is_active=agent.is_active,
    )
    return (agent_with_model,)


def _make_default(endpoint: Endpoint, by: Access) -> None:
    previous = Endpoint.objects.filter(workspace=endpoint.workspace_id, is_default=True).exclude(pk=endpoint.pk)
    before = ", ".join(map(str, previous))
    endpoint.is_default, endpoint.is_fallback = True, False
    ENDPOINT_CHECK.only()(endpoint)
    previous.update(is_default=False)
    endpoint.save()
    _audit(endpoint, by, subject="the default model", before=before or "offline", after=str(endpoint))


def _agents_of(endpoint: Endpoint) -> list[Agent]:
    """Active agents that answer with it, by name."""
    agents = Agent.objects.filter(workspace=endpoint.workspace_id, deactivated_at=None, answers_itself=False)
    own = agents.filter(endpoint=endpoint)
    endpoint_agents = own | agents.filter(endpoint=None) if endpoint.is_default else own
    return list(endpoint_agents.select_related("participant").order_by("participant__name", "pk"))


def _audit(endpoint: Endpoint, by: Access, *, subject: str = "", before: str = "", after: str) -> None:
    record_audit(
        AuditAction.ENDPOINT,
        workspace_id=endpoint.workspace_id,
        by=by,
        subject=subject or str(endpoint),
        before=before,
        after=after,
    )

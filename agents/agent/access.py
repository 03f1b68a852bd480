"""Access of agents: what an agent may see, and which models answer for it. The one place every path asks.

`visible_to(agent)` is the access that every queryset's own `visible_to` takes, so prompts, tools, API, search and
"View as this agent" cannot differ. The table behind it is `agents.agent.trust`. Whether it may answer somewhere says
`agents.agent.permissions`."""

from collections.abc import Collection, Iterable

from django.db.models import QuerySet

from agents.agent.models import Agent
from agents.agent.trust import trust_level
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.llm.endpoints.adaptation_store import StoredAdaptations
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


def visible_to(agent: Agent) -> Access:
    """What the agent may see at this moment, by its trust level and memberships."""
    level = trust_level(agent.level)
    return Access(
        workspace_id=agent.workspace_id,
        participant_id=agent.participant_id,
        is_agent=True,
        level=agent.level,
        reads_public_channels=level.reads_public_channels,
        reads_dive_results=level.dive_results,
        knowledge=level.knowledge,
    )


@CompiledQuery
def _active_agents(participant_id: int) -> QuerySet[Agent]:
    return Agent.objects.filter(participant=participant_id, deactivated_at=None)


def agent_access(participant: Participant) -> Access | None:
    """The access of a participant that is an agent; None once it is deactivated."""
    agents: list[Agent] = _active_agents.objects(participant.pk)
    return visible_to(agents[0]) if agents else None


def agent_accesses(participants: Iterable[Participant]) -> dict[int, Access]:
    """The access of each of these agents that is active, by participant id. No query where `agent` is loaded."""
    agents = [participant.agent for participant in participants]
    return {agent.participant_id: visible_to(agent) for agent in agents if agent.is_active}


def endpoint_for(agent: Agent) -> Endpoint | None:
    """The endpoint that answers for the agent: its own, the workspace's default, or None for the offline model."""
    return agent.endpoint or next(iter(_default_endpoint.objects(agent.workspace_id)), None)


def online_endpoint(agent: Agent) -> Endpoint | None:
    """The same; None also where that endpoint is the offline model, which quotes and judges nothing."""
    endpoint = endpoint_for(agent)
    return None if endpoint is None or endpoint.kind == Endpoint.Kind.OFFLINE else endpoint


def fallback_for(agent: Agent, endpoint: Endpoint | None) -> Endpoint | None:
    """The endpoint that answers where `endpoint` fails: the agent's own fallback, or the workspace's; None where that
    asks the same model at the same address, or nobody chose one."""
    if endpoint is None:
        return None
    fallback = agent.fallback or next(iter(_workspace_fallback.objects(agent.workspace_id)), None)
    return None if fallback is None or fallback.is_same_model(endpoint) else fallback


@CompiledQuery
def _workspace_fallback(workspace_id: int) -> QuerySet[Endpoint]:
    return Endpoint.objects.filter(workspace=workspace_id, is_fallback=True)


@CompiledQuery
def _default_endpoint(workspace_id: int) -> QuerySet[Endpoint]:
    return Endpoint.objects.filter(workspace=workspace_id, is_default=True)


def answers_for_free(agent: Agent) -> bool:
    """Whether its model costs nothing: budgets do not stop it. Where no price is known it is metered, so an agent that
    answers itself always is."""
    if agent.answers_itself:
        return False
    endpoint = endpoint_for(agent)
    return endpoint is None or endpoint.is_free


def free_answerers(agents: Collection[Agent]) -> set[int]:
    """Those of these agents of one workspace whose model costs nothing, by participant id. One query at most, where
    their endpoints are loaded."""
    asked = [agent for agent in agents if not agent.answers_itself]
    default = None
    if any(agent.endpoint_id is None for agent in asked):
        default = next(iter(_default_endpoint.objects(asked[0].workspace_id)), None)
    endpoints = {agent.participant_id: agent.endpoint or default for agent in asked}
    return {pk for pk, endpoint in endpoints.items() if endpoint is None or endpoint.is_free}


def model_takes_tools(agent: Agent) -> bool:
    """Whether its prompts offer tools: not where its model is known to refuse them."""
    endpoint = None if agent.answers_itself else endpoint_for(agent)
    return endpoint is None or "no_tools" not in StoredAdaptations(endpoint).values()

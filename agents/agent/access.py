"""Access of agents: what an agent may see, and whether it may reply. The one place every path asks.

`visible_to(agent)` is the access that every queryset's own `visible_to` takes, so prompts, tools, API, search and
"View as this agent" cannot differ. The table behind it is `agents.agent.trust`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from django.db.models import F, QuerySet, Sum

from agents.agent.models import Agent, Run
from agents.agent.trust import Occasion, may_respond, trust_level
from openvibe.chat.models import Dive, Thread
from openvibe.chat.queries import load_visibility, sees_thread, visibility_of
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.llm.endpoints.adaptation_store import StoredAdaptations
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Spending

TOTAL_TOKENS = F("input_tokens") + F("output_tokens")


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


def tokens_used_today(*, agent: Agent | None = None, workspace_id: int = 0) -> int:
    """Tokens (input and output) used since midnight UTC, by one agent or in a whole workspace: of runs, and of what
    models were asked in the background."""
    tokens_by_agent = tokens_used_by_agent(agent.workspace_id if agent else workspace_id)
    return tokens_by_agent.get(agent.participant_id, 0) if agent else sum(tokens_by_agent.values())


def tokens_used_by_agent(workspace_id: int) -> dict[int, int]:
    """The same of each agent of a workspace, by participant id; under 0 what counts against no agent. One query."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    tokens_by_agent: dict[int, int] = defaultdict(int)
    for participant_id, tokens in _agent_tokens_since.rows(workspace_id, now=midnight):
        tokens_by_agent[participant_id or 0] += int(tokens)
    return tokens_by_agent


@CompiledQuery
def _agent_tokens_since(workspace_id: int) -> QuerySet[Any, Any]:
    runs, background = token_rows(None, [workspace_id])
    total, now = Sum(TOTAL_TOKENS), datetime.now(UTC)
    of_runs = runs.filter(queued_at__gte=now).order_by().values_list("agent__participant_id").annotate(total=total)
    of_calls = background.filter(created_at__gte=now).order_by().values_list("agent_id").annotate(total=total)
    return of_runs.union(of_calls, all=True)


def token_rows(agent: Agent | None, workspace_ids: list[int]) -> tuple[QuerySet[Run], QuerySet[Spending]]:
    """The rows that say which tokens an agent, or without one these workspaces, used: runs, and background calls.

    What costs nothing is not among them.
    """
    runs = Run.objects.filter(is_free=False)
    if agent is not None:
        return runs.filter(agent=agent), Spending.objects.filter(agent=agent.participant_id)
    return runs.filter(workspace__in=workspace_ids), Spending.objects.filter(workspace__in=workspace_ids)


@dataclass(frozen=True)
class ReplyDenial:
    """The reason why an agent may not answer, as the end of a sentence. Not `is_notified`: it does not even hear of the
    thread."""

    reason: str
    is_notified: bool = True


def reply_denied_reason(agent: Agent, thread: Thread, task: str, *, access: Access | None = None) -> str | None:
    """The reason why the agent may not answer in this thread, as a sentence for people; None when it may. `access`: the
    agent's, where the caller has it."""
    known_accesses = {} if access is None else {agent.participant_id: access}
    denial = reply_denials([agent], thread, task, known_accesses).get(agent.participant_id)
    if denial is None:
        return None
    return f"@{agent.participant.handle} {'did not answer' if denial.is_notified else 'was not told'}: {denial.reason}"


def schedule_denied_reasons(agent: Agent, threads: Sequence[Thread]) -> list[str | None]:
    """The reasons why the agent may not speak on schedule in each of these threads, none of which is a dive; None where
    it may. As many queries for many as for one."""
    access = visible_to(agent)
    load_visibility([access])
    everywhere = _agent_denial(agent) or _occasion_denial(agent, None, "scheduled")
    everywhere = everywhere or _paid_denial(agent, tokens_used_by_agent(agent.workspace_id))
    denials = (everywhere or _thread_denial(agent, thread, access) for thread in threads)
    return [f"@{agent.participant.handle} does not speak there: {each.reason}" if each else None for each in denials]


def reply_denials(
    agents: Sequence[Agent], thread: Thread, task: str, known_accesses: Mapping[int, Access] | None = None
) -> dict[int, ReplyDenial]:
    """What keeps which of these agents of the thread's workspace from answering there on this occasion, by participant
    id; so is `known`, accesses that the caller has. As many queries for many as for one.

    For a thread that is no dive and the tasks `dive` and `publish`: whether they may take part in dives from there.
    """
    known_accesses = known_accesses or {}
    accesses = {agent.participant_id: known_accesses.get(agent.participant_id) or visible_to(agent) for agent in agents}
    load_visibility(accesses.values())
    denials = {
        agent.participant_id: denial
        for agent in agents
        if (denial := _agent_denial(agent) or _thread_denial(agent, thread, accesses[agent.participant_id]))
    }
    others = [agent for agent in agents if agent.participant_id not in denials]
    if others:
        dive = _dive_of(thread)
        tokens_by_agent = tokens_used_by_agent(thread.workspace_id)
        for agent in others:
            if denial := _occasion_denial(agent, dive, task) or _paid_denial(agent, tokens_by_agent):
                denials[agent.participant_id] = denial
    return denials


def _paid_denial(agent: Agent, tokens_by_agent: Mapping[int, int]) -> ReplyDenial | None:
    denial = budget_denial(agent, tokens_by_agent)
    return None if denial is None or answers_for_free(agent) else denial


def _agent_denial(agent: Agent) -> ReplyDenial | None:
    if agent.deactivated_at is not None:
        return ReplyDenial("it is deactivated.")
    return ReplyDenial("it has no SOUL yet. An admin can write one.") if agent.soul_id is None else None


def _thread_denial(agent: Agent, thread: Thread, access: Access) -> ReplyDenial | None:
    if thread.access == Thread.Access.HUMAN_ONLY:
        return ReplyDenial("this thread is for people only.", is_notified=False)
    if sees_thread(access, thread):
        return None
    if thread.parent_id is not None and not access.reads_dive_results:
        return ReplyDenial(f"at L{agent.level} it takes no part in dives.", is_notified=False)
    is_listed = (thread.parent_id or thread.pk) in visibility_of(access).thread_ids
    if thread.access == Thread.Access.AGENT_RESTRICTED and not is_listed:
        return ReplyDenial("this thread is open only to the agents it lists.", is_notified=False)
    return ReplyDenial("it is not in this channel. Somebody who runs the channel can add it.", is_notified=False)


def _dive_of(thread: Thread) -> Dive | None:
    if thread.parent_id is None:
        return None
    return Dive.objects.select_related("agent").filter(thread=thread).first()


def _occasion_denial(agent: Agent, dive: Dive | None, task: str) -> ReplyDenial | None:
    if dive is not None and dive.agent_id != agent.participant_id:
        return ReplyDenial(f"in this dive only @{dive.agent.handle} answers.")
    if dive is not None and not dive.is_active:
        return ReplyDenial(f"this dive is {dive.state}.")
    if may_respond(agent.level, cast(Occasion, task)):
        return None
    if task == "scheduled":
        return ReplyDenial(f"at L{agent.level} it does not speak on schedule; agents do from L3 on.")
    dives = " and takes no part in dives" if task in ("dive", "publish") else ""
    return ReplyDenial(f"at L{agent.level} it answers mentions only{dives}.")


def endpoint_for(agent: Agent) -> Endpoint | None:
    """The endpoint that answers for the agent: its own, the workspace's default, or None for the offline model."""
    return agent.endpoint or next(iter(_default_endpoint.objects(agent.workspace_id)), None)


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


def model_takes_tools(agent: Agent) -> bool:
    """Whether its prompts offer tools: not where its model is known to refuse them."""
    endpoint = None if agent.answers_itself else endpoint_for(agent)
    return endpoint is None or "no_tools" not in StoredAdaptations(endpoint).values()


def budget_denial(agent: Agent, tokens_by_agent: Mapping[int, int]) -> ReplyDenial | None:
    """What keeps an agent whose model costs something from using more tokens today. `used`: `tokens_used_by_agent`."""
    if tokens_by_agent.get(agent.participant_id, 0) >= agent.daily_token_budget:
        return ReplyDenial("its token budget for today is used up. It starts afresh at midnight UTC.")
    if sum(tokens_by_agent.values()) >= agent.workspace.daily_token_budget:
        return ReplyDenial("the workspace's token budget for today is used up, until midnight UTC.")
    return None

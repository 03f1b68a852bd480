"""Whether an agent may answer in a thread, or speak there unasked, and why not."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, cast

from agents.agent.access import free_answerers, visible_to
from agents.agent.models import Agent
from agents.agent.token_budgets import ReplyDenial, budget_denial, read_tokens_used
from agents.agent.trust import Occasion, may_respond
from openvibe.chat.models import Dive, Thread
from openvibe.chat.queries import added_where_limited, budget_of_place, load_visibility, sees_thread, visibility_of
from openvibe.workspaces.access import Access


def reply_denied_reason(agent: Agent, thread: Thread, task: str, *, access: Access | None = None) -> str | None:
    """The reason why the agent may not answer in this thread, as a sentence for people; None when it may. `access`: the
    agent's, where the caller has it."""
    known_accesses = {} if access is None else {agent.participant_id: access}
    denial = reply_denials([agent], thread, task, known_accesses).get(agent.participant_id)
    if denial is None:
        return None
    return f"@{agent.participant.handle} {'did not answer' if denial.is_notified else 'was not told'}: {denial.reason}"


def unasked_denied_reasons(
    agent: Agent, threads: Sequence[Thread], occasion: Literal["scheduled", "proactive"]
) -> list[str | None]:
    """The reasons why the agent may not speak unasked in each of these threads, none of which is a dive; None where it
    may. As many queries for many as for one."""
    access = visible_to(agent)
    load_visibility([access])
    everywhere = _agent_denial(agent) or _occasion_denial(agent, None, occasion)
    added = added_where_limited(threads, [agent.participant_id])
    used = read_tokens_used(agent.workspace_id)
    unpaid = [budget_denial(agent, used, budget_of_place(thread)) for thread in threads]
    if any(unpaid) and free_answerers([agent]):
        unpaid = [None] * len(threads)
    denials = (
        everywhere or _thread_denial(agent, thread, access, added) or no_tokens
        for thread, no_tokens in zip(threads, unpaid, strict=True)
    )
    return [f"@{agent.participant.handle} does not speak there: {each.reason}" if each else None for each in denials]


def reply_denials(
    agents: Sequence[Agent], thread: Thread, task: str, known_accesses: Mapping[int, Access] | None = None
) -> dict[int, ReplyDenial]:
    """What keeps which of these agents of the thread's workspace from answering there on this occasion, by participant
    id; so are `known_accesses`, those that the caller has. As many queries for many as for one.

    For a thread that is no dive and the tasks `dive` and `publish`: whether they may take part in dives from there.
    """
    known_accesses = known_accesses or {}
    accesses = {agent.participant_id: known_accesses.get(agent.participant_id) or visible_to(agent) for agent in agents}
    load_visibility(accesses.values())
    added = added_where_limited([thread], [agent.participant_id for agent in agents])
    denials = {
        agent.participant_id: denial
        for agent in agents
        if (denial := _agent_denial(agent) or _thread_denial(agent, thread, accesses[agent.participant_id], added))
    }
    others = [agent for agent in agents if agent.participant_id not in denials]
    if others:
        dive = _dive_of(thread)
        unpaid = _paid_denials(others, thread)
        for agent in others:
            if denial := _occasion_denial(agent, dive, task) or unpaid.get(agent.participant_id):
                denials[agent.participant_id] = denial
    return denials


def _paid_denials(agents: Sequence[Agent], thread: Thread) -> dict[int, ReplyDenial]:
    """What keeps those whose model costs something from using more tokens there today, by participant id."""
    used, budget = read_tokens_used(thread.workspace_id), budget_of_place(thread)
    denied = {agent: denial for agent in agents if (denial := budget_denial(agent, used, budget))}
    free = free_answerers(denied) if denied else set()
    return {agent.participant_id: denial for agent, denial in denied.items() if agent.participant_id not in free}


def _agent_denial(agent: Agent) -> ReplyDenial | None:
    if agent.deactivated_at is not None:
        return ReplyDenial("it is deactivated.")
    return ReplyDenial("it has no SOUL yet. An admin can write one.") if agent.soul_id is None else None


def _thread_denial(
    agent: Agent, thread: Thread, access: Access, added: Collection[tuple[int, int]]
) -> ReplyDenial | None:
    if thread.access == Thread.Access.HUMAN_ONLY:
        return ReplyDenial("this thread is for people only.", is_notified=False)
    if sees_thread(access, thread):
        return _channel_denial(agent, thread, added)
    if thread.parent_id is not None and not access.reads_dive_results:
        return ReplyDenial(f"at L{agent.level} it takes no part in dives.", is_notified=False)
    is_listed = (thread.parent_id or thread.pk) in visibility_of(access).thread_ids
    if thread.access == Thread.Access.AGENT_RESTRICTED and not is_listed:
        return ReplyDenial("this thread is open only to the agents it lists.", is_notified=False)
    return ReplyDenial("it is not in this channel. Somebody who runs the channel can add it.", is_notified=False)


def _channel_denial(agent: Agent, thread: Thread, added: Collection[tuple[int, int]]) -> ReplyDenial | None:
    """What keeps an agent that reads the channel from answering there."""
    channel = thread.channel
    if not channel.added_agents_only or (channel.pk, agent.participant_id) in added:
        return None
    return ReplyDenial(f"in {channel} only agents answer that were added. Somebody who runs the channel can add it.")


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
    if task == "proactive":
        return ReplyDenial(f"at L{agent.level} it does not speak up by itself; agents do from L3 on.")
    dives = " and takes no part in dives" if task in ("dive", "publish") else ""
    return ReplyDenial(f"at L{agent.level} it answers mentions only{dives}.")

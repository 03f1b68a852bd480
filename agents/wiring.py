"""Wiring: what agents plug into lower floors (clients, access, budgets, denials, uses of knowledge, handoff lines)."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from agents.agent.access import agent_access, agent_accesses, answers_for_free, endpoint_for, visible_to
from agents.agent.audience import shown_messages, shown_while_answering
from agents.agent.models import Agent, LoadedSkill, Permission, ToolCall
from agents.agent.permissions import reply_denials
from agents.agent.services import PROMPT_CHECK
from agents.agent.token_budgets import tokens_left
from agents.connect.first_steps import list_first_steps, sample_questions
from agents.prompts.assembler.stack import check_budgets
from agents.prompts.assembler.validation import check_agent, check_endpoint, check_workspace
from agents.prompts.citations.queries import read_citations
from agents.prompts.citations.store import erase_citations_quoting
from agents.prompts.history import PromptSteps
from agents.prompts.snapshots.store import (
    erase_calls_quoting,
    erase_from_snapshots,
    erase_looks_quoting,
    erase_steps_quoting,
)
from agents.quotes import AGENT_QUOTES
from agents.runs.external.plans import agent_plans
from agents.runs.external.presence import notify_heard
from agents.runs.permissions.presenters import permission_calls, tool_calls
from agents.statistics.admin_dashboard import dashboard
from agents.statistics.knowledge_uses import recent_entry_uses
from agents.tools.channel_tools import answered_channels, list_tool_choices
from agents.tools.mcp_servers.tools import allowed_tools
from agents.tools.results import tool_result
from agents.tools.toolbox import EXTRA_TOOLS
from agents.web.person_card import agent_facts
from agents.web.run_cards import runs_by_message
from knowledge.queries import ENTRY_USES
from memory.wiring import (
    ACTIONS,
    AGENT_CLIENT,
    AGENT_PLANS,
    APPROVAL_CALLS,
    HANDOFF_SOURCES,
    INSTRUCTIONS,
    PROMPT_HISTORY,
    RESOURCES,
    REVIEWER_AGENTS,
    SHOWN_MESSAGES,
    TOOL_RESULTS,
    ApprovalCall,
    HandoffLine,
)
from openvibe.api.auth import PROGRAM_HEARD
from openvibe.base.admin_site import DASHBOARD
from openvibe.chat.models import Thread
from openvibe.chat.wiring import (
    ANSWERED_CHANNELS,
    CITATIONS,
    FIRST_STEPS,
    MESSAGE_DECORATORS,
    PERSON_EXTRAS,
    QUESTION_IDEAS,
    QUOTE_KINDS,
    REPLY_DENIED_REASONS,
    TEXT_ERASERS,
    TOOL_CHOICES,
    TextEraser,
)
from openvibe.engines.llm.endpoints.endpoints import ENDPOINT_CHECK, client_for
from openvibe.engines.llm.protocol import ModelClient
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import AGENT_ACCESS, AGENT_ACCESSES
from openvibe.workspaces.services import BUDGET_CHECK, TOKENS_LEFT, WORKSPACE_CHECK


def wire() -> None:
    DASHBOARD.add(dashboard)
    AGENT_ACCESS.add(agent_access_now)
    AGENT_ACCESSES.add(agent_accesses)
    PROGRAM_HEARD.add(notify_heard)
    BUDGET_CHECK.add(check_budgets)
    WORKSPACE_CHECK.add(check_workspace)
    ENDPOINT_CHECK.add(check_endpoint)
    PROMPT_CHECK.add(check_agent)
    TOKENS_LEFT.add(tokens_left)
    MESSAGE_DECORATORS.add(runs_by_message)
    PERSON_EXTRAS.add(agent_facts)
    CITATIONS.add(read_citations)
    FIRST_STEPS.add(list_first_steps)
    QUESTION_IDEAS.add(sample_questions)
    REPLY_DENIED_REASONS.add(dive_denied_reasons)
    for kind in AGENT_QUOTES:
        QUOTE_KINDS.add(kind)
    ENTRY_USES.add(recent_entry_uses)
    PROMPT_HISTORY.add(PromptSteps())
    HANDOFF_SOURCES.add(handoff_lines)
    APPROVAL_CALLS.add(approval_calls)
    AGENT_PLANS.add(agent_plans)
    REVIEWER_AGENTS.add(iter_reviewer_agents)
    AGENT_CLIENT.add(agent_client)
    SHOWN_MESSAGES.add(shown_messages)
    TOOL_RESULTS.add(tool_result)
    EXTRA_TOOLS.add(allowed_tools)
    TOOL_CHOICES.add(list_tool_choices)
    ANSWERED_CHANNELS.add(answered_channels)
    TEXT_ERASERS.add(TextEraser("stored prompts", erase_from_snapshots))
    TEXT_ERASERS.add(TextEraser("looks of watching agents", erase_looks_quoting))
    TEXT_ERASERS.add(TextEraser("tool calls", erase_calls_quoting))
    TEXT_ERASERS.add(TextEraser("thoughts and steps", erase_steps_quoting))
    TEXT_ERASERS.add(TextEraser("citations", erase_citations_quoting))


def agent_access_now(participant: Participant) -> Access | None:
    """What an agent may see at this moment; None once it is deactivated. While it answers through the API, no more than
    the readers of its answers may see."""
    access = agent_access(participant)
    return shown_while_answering(access) if access is not None else None


def agent_client(participant: Participant) -> ModelClient:
    """The model an agent answers with; the offline one where it has none."""
    agent = Agent.objects.select_related("endpoint", "workspace").get(participant=participant)
    return client_for(endpoint_for(agent))


NO_AGENT_MESSAGE = "There is no such agent any more."


def dive_denied_reasons(participants: Sequence[Participant], thread: Thread, task: str) -> dict[int, str]:
    """The sentences that say why these agents may not take part in a dive (`task` dive or publish), by participant."""
    agents = Agent.objects.select_related("workspace").filter(participant__in=participants)
    by_participant = {agent.participant_id: agent for agent in agents}
    denials = reply_denials(list(by_participant.values()), thread, task)
    reasons = {pk: denial.reason for pk, denial in denials.items()}
    return {
        each.pk: f"@{each.handle} cannot do this: {reasons[each.pk]}" if each.pk in reasons else NO_AGENT_MESSAGE
        for each in participants
        if each.pk in reasons or each.pk not in by_participant
    }


def iter_reviewer_agents() -> Iterator[tuple[Participant, Access]]:
    """Agents that may look back at their conversations now, with their access, in another order each time.

    Active, with a SOUL, answering through OpenVibe, and with room left in their own token budget of the day and in the
    workspace's, unless their model costs nothing.
    """
    agents = Agent.objects.filter(deactivated_at=None, answers_itself=False, soul__isnull=False)
    for agent in agents.select_related("participant", "workspace", "endpoint").order_by("?"):
        if answers_for_free(agent) or tokens_left(agent.workspace_id, agent.participant_id) > 0:
            yield agent.participant, visible_to(agent)


def approval_calls(approval_ids: Collection[int], access: Access) -> dict[int, ApprovalCall]:
    """The calls that wait, or waited, for these approvals. Two queries."""
    asked = permission_calls(Permission.objects.filter(approval__in=approval_ids))
    permissions = {call.approval_id: ApprovalCall(call.kind, "", call.hidden, call) for call in asked}
    return tool_calls(approval_ids, access) | permissions


MAX_HANDOFF_CALLS = 20
"""Tool calls named in one handoff, the newest."""

LOOKUP_TOOLS = ("memory", "knowledge_search", "read_file")
"""Tools of ours that look things up besides those whose effect is `reads`; all others change something."""


def handoff_lines(thread_id: int) -> Mapping[str, Sequence[HandoffLine]]:
    """Lines for the sections they belong to. Two queries."""
    skills = LoadedSkill.objects.filter(thread=thread_id).order_by("id").values_list("name", "agent__participant__name")
    calls = ToolCall.objects.filter(run__thread=thread_id, decision=ToolCall.Decision.ALLOWED).order_by("-id")
    columns = ("pk", "name", "effect", "run__agent__participant__name", "result_tokens", "created_at")
    lines = [
        (
            name in LOOKUP_TOOLS or effect == "reads",
            {"ref": f"call:{pk}", "text": f"{agent} called {name} ({at:%Y-%m-%d %H:%M} UTC, {tokens:,} tokens)"},
        )
        for pk, name, effect, agent, tokens, at in calls.values_list(*columns)[:MAX_HANDOFF_CALLS]
    ]
    return {
        INSTRUCTIONS: [
            {"ref": f"skill:{name}", "text": f"{agent} has taken up the skill {name}"} for name, agent in skills
        ],
        RESOURCES: [line for is_lookup, line in lines if is_lookup],
        ACTIONS: [line for is_lookup, line in lines if not is_lookup],
    }

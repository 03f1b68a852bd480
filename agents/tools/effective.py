"""What holds for agents in a channel or a thread, and why: instructions, agents with their levels and tools, budgets,
knowledge and memory, each with where it comes from and, for those who may change it, where.

What the asker may not see is not in it: guests meet agents by face and level, an agent is told of itself alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django.db.models import Count, Q
from django.urls import reverse

from agents.agent.models import Agent, CallRule, McpTool
from agents.agent.permissions import reply_denials
from agents.agent.token_budgets import ReplyDenial, TokensUsed, read_tokens_used
from agents.agent.trust import (
    CALL_LABELS,
    EFFECT_LABELS,
    CallKind,
    GateRule,
    KnowledgeScope,
    call_refusal,
    call_rule,
    gate,
    trust_level,
)
from agents.tools.channel_tools import TOOL_LABELS, list_tool_choices
from agents.tools.mcp_servers.tools import registration_of
from agents.tools.toolbox import TOOLS, tools_named_by_soul, withholding_rule
from agents.tools.values import ToolRegistration
from knowledge.queries import count_current_entries
from memory.queries import MemoryMode, active_plugin, memory_mode
from openvibe.chat.queries import Place, ScopedInstructions, agents_with_access, scoped_instructions
from openvibe.chat.services import call_name
from openvibe.engines.text.cleaning import pluralize
from openvibe.workspaces.access import Access

WORKSPACE_WIDE = "everywhere in the workspace"
POLICY_ORIGIN = "OpenVibe itself"
KNOWLEDGE_WORDS: Mapping[KnowledgeScope, str] = {
    "none": "no entries",
    "shared": "shared entries",
    "restricted": "shared entries, and restricted ones where everybody who reads the answer may see them",
}
MEMORY_WORDS = {
    MemoryMode.FULL: "It remembers what is said here.",
    MemoryMode.READ_ONLY: "Agents look things up here, and nothing of it is summarised or learned.",
    MemoryMode.IGNORED: "It leaves this place alone: prompts hold the newest messages, and nothing is recalled.",
}
CALL_STATES: Mapping[GateRule, str] = {
    "allowed": "allowed",
    "most": "allowed",
    "approved": "asks",
    "ask": "asks",
    "refused": "refused",
}


@dataclass(frozen=True)
class EffectiveInstructions:
    """Instructions that every agent is given here, in the order of its prompts. `change_url`: only for who may."""

    origin: str
    text: str
    change_url: str | None = None


@dataclass(frozen=True)
class EffectiveTool:
    """`state`: allowed, asks (people, before each call) or refused; `why` is a sentence."""

    name: str
    label: str
    state: str
    why: str


@dataclass(frozen=True)
class EffectiveBudget:
    """Tokens of one UTC day. `limit` None: there is none."""

    origin: str
    limit: int | None
    used: int
    change_url: str | None = None


@dataclass(frozen=True)
class EffectiveAgent:
    """An agent that reads here. `why_not` says why it does not answer, empty where it does. What follows `level` is
    None or empty for those who may not know it."""

    handle: str
    name: str
    answers: bool
    why_not: str
    level: int
    level_label: str
    level_origin: str
    level_url: str
    runs_elsewhere: bool = False
    soul: int | None = None
    soul_url: str | None = None
    tools: tuple[EffectiveTool, ...] = ()
    calls: tuple[EffectiveTool, ...] = ()
    tools_url: str | None = None
    budget: EffectiveBudget | None = None
    knowledge: str = ""


@dataclass(frozen=True)
class EffectiveTools:
    """What the channel itself says of tools: names and labels, None for all."""

    origin: str
    names: tuple[str, ...] | None
    labels: tuple[str, ...] | None
    change_url: str | None


@dataclass(frozen=True)
class EffectiveKnowledge:
    """How many entries hold now, as far as the asker may read them, and where they are listed."""

    origin: str
    shared: int
    restricted: int
    url: str


@dataclass(frozen=True)
class EffectiveMemory:
    plugin: str
    mode: str
    words: str
    origin: str
    change_url: str | None


@dataclass(frozen=True)
class Effective:
    """All that holds in a place. `agents_origin`: who may answer, and who says so."""

    channel: int | None
    thread: int | None
    place: str
    instructions: tuple[EffectiveInstructions, ...]
    added_agents_only: bool
    agents_origin: str
    agents_url: str | None
    agents: tuple[EffectiveAgent, ...]
    tools: EffectiveTools
    budgets: tuple[EffectiveBudget, ...]
    knowledge: EffectiveKnowledge | None
    memory: EffectiveMemory


@dataclass(frozen=True)
class _View:
    """The place, who asks, and the addresses that she may follow."""

    access: Access
    place: Place

    @property
    def workspace_id(self) -> int:
        return self.place.channel.workspace_id

    def url(self, name: str, *args: object) -> str:
        return reverse(name, args=[self.place.channel.workspace.slug, *args])

    def admin_url(self, name: str, *args: object) -> str | None:
        return self.url(name, *args) if self.access.administers else None

    @property
    def channel_url(self) -> str | None:
        """The address where the channel's limits are changed."""
        channel = self.place.channel
        return None if channel.is_direct else self.admin_url("channel-edit", channel.pk)

    def sees_inside(self, agent: Agent) -> bool:
        """Whether the asker may know more of the agent than its face and level."""
        if self.access.is_agent:
            return agent.participant_id == self.access.participant_id
        return not self.access.is_guest


def effective_in(place: Place, access: Access) -> Effective:
    """What holds in a place that the asker sees. As many queries for many agents and tools as for one."""
    view, channel, thread = _View(access, place), place.channel, place.thread
    used = read_tokens_used(view.workspace_id)
    agents = _agents(place)
    denials = reply_denials(agents, place.any_thread, "dive" if place.is_dive else "mention")
    inside = [agent for agent in agents if view.sees_inside(agent)]
    connected, rules = _connected_tools(inside), _rule_counts(place, inside)
    return Effective(
        channel=None if channel.is_direct else channel.pk,
        thread=thread.pk if thread is not None else None,
        place=place.name,
        instructions=_instructions(view),
        added_agents_only=channel.added_agents_only,
        agents_origin=_agents_origin(place),
        agents_url=None if channel.is_direct else view.url("channel-members", channel.pk),
        agents=tuple(_effective_agent(view, agent, denials, connected[agent.pk], rules, used) for agent in agents),
        tools=_channel_tools(view),
        budgets=_budgets(view, used),
        knowledge=_knowledge(view),
        memory=_memory(view),
    )


def _agents(place: Place) -> list[Agent]:
    """Those that read here, by name."""
    participants = agents_with_access(place.row)
    agents = Agent.objects.filter(participant__in=participants, deactivated_at=None)
    related = agents.select_related("participant", "workspace", "soul", "endpoint")
    return list(related.order_by("participant__name", "pk"))


def _agents_origin(place: Place) -> str:
    channel = place.channel
    if place.is_for_people_only:
        return "This thread is for people only, as whoever runs it chose."
    if place.lists_agents:
        return "This thread is open to the agents it lists, as whoever runs it chose."
    if channel.is_direct:
        return "These are direct messages: the two who write them, and nobody else."
    if channel.added_agents_only:
        return f"Only agents that were added answer, by the settings of {channel}."
    if channel.is_private:
        return f"{channel} is private: agents that were added read it and answer."
    return f"{channel} is public: agents that were added answer, and those whose level reads every public channel."


def _instructions(view: _View) -> tuple[EffectiveInstructions, ...]:
    """Instructions in the order of prompts: OpenVibe's policy, each agent's SOUL (named with the agents), then scope by
    scope."""
    scopes = scoped_instructions(view.access, view.place.channel.workspace, view.place.channel, view.place.thread)
    policy = EffectiveInstructions(POLICY_ORIGIN, "The built-in policy: what agents are, and whose words bind them.")
    soul = EffectiveInstructions("each agent", "Its SOUL: who it is, its principles and constraints.")
    return (policy, soul, *(_scope(view, scope) for scope in scopes))


def _scope(view: _View, scope: ScopedInstructions) -> EffectiveInstructions:
    kind, _, number = scope.ref.partition("@")[0].partition(":")
    if kind == "workspace":
        url = view.admin_url("settings-instructions")
    elif kind == "channel":
        url = view.channel_url
    else:
        url = view.admin_url("thread", int(number))
    return EffectiveInstructions(scope.place, scope.expanded.text, url)


def _effective_agent(
    view: _View,
    agent: Agent,
    denials: Mapping[int, ReplyDenial],
    connected: Sequence[ToolRegistration],
    rules: Mapping[tuple[int, str], int],
    used: TokensUsed,
) -> EffectiveAgent:
    level, denial = trust_level(agent.level), denials.get(agent.participant_id)
    face = {
        "handle": agent.handle,
        "name": agent.participant.name,
        "answers": denial is None,
        "why_not": _sentence(denial.reason) if denial else "",
        "level": agent.level,
        "level_label": level.label,
        "level_origin": WORKSPACE_WIDE,
        "level_url": view.url("agent-level", agent.handle),
    }
    if not view.sees_inside(agent):
        return EffectiveAgent(**cast(Any, face))
    return EffectiveAgent(
        **cast(Any, face),
        runs_elsewhere=agent.answers_itself,
        soul=agent.soul.number if agent.soul else None,
        soul_url=view.url("agent-soul" if view.access.administers else "agent", agent.handle),
        tools=_tools_of(view, agent, connected),
        calls=_calls_of(view, agent, rules) if agent.answers_itself else (),
        tools_url=view.admin_url("agent-tools", agent.handle),
        budget=EffectiveBudget(
            f"the settings of @{agent.handle}",
            agent.daily_token_budget,
            used.by_agent.get(agent.participant_id, 0),
            view.admin_url("agent-settings", agent.handle),
        ),
        knowledge=KNOWLEDGE_WORDS[level.knowledge],
    )


def _sentence(reason: str) -> str:
    return reason[:1].upper() + reason[1:]


def _tools_of(view: _View, agent: Agent, connected: Iterable[ToolRegistration]) -> tuple[EffectiveTool, ...]:
    """OpenVibe's own tools, then those of connected servers that an admin allowed the agent."""
    named = tools_named_by_soul(agent)
    own = [_effective_tool(view, agent, each, TOOL_LABELS[each.name], named) for each in TOOLS]
    others = [_effective_tool(view, agent, each, each.name, frozenset()) for each in connected]
    return (*own, *others)


def _effective_tool(
    view: _View, agent: Agent, tool: ToolRegistration, label: str, named: frozenset[str]
) -> EffectiveTool:
    if rule := withholding_rule(tool, agent, view.place.any_thread, named):
        return EffectiveTool(tool.name, label, "refused", f"A tool {rule}.")
    what = gate(agent.level, tool.effect, is_approved=tool.is_approved, asks_first=tool.asks_first)
    if what == "ask":
        return EffectiveTool(tool.name, label, "asks", "People approve each call of it.")
    if tool.place_names:
        return EffectiveTool(tool.name, label, "allowed", f"An admin allowed it, which {EFFECT_LABELS[tool.effect]}.")
    why = f"Agents have it from L{tool.min_level} on." if tool.min_level > 1 else "Every agent has it."
    return EffectiveTool(tool.name, label, "allowed", f"{why} {_by_soul(named)}".strip())


def _by_soul(named: frozenset[str]) -> str:
    return "Its SOUL lists it." if named else ""


def _calls_of(view: _View, agent: Agent, rules: Mapping[tuple[int, str], int]) -> tuple[EffectiveTool, ...]:
    return tuple(_call(view, agent, kind, rules.get((agent.pk, kind), 0)) for kind in CALL_LABELS)


def _call(view: _View, agent: Agent, kind: CallKind, rules: int) -> EffectiveTool:
    """What becomes of its calls of one kind, and whether rules of admins say otherwise of some."""
    label, rule = CALL_LABELS[kind], call_rule(agent.level, kind)
    if not view.place.channel.allows_tool(call_name(kind)):
        return EffectiveTool(kind, label, "refused", f"By the settings of {view.place.channel}.")
    if rule == "refused":
        return EffectiveTool(kind, label, "refused", call_refusal(agent.level, kind))
    why = f"By its level, L{agent.level}."
    if rules:
        why += f" {pluralize(rules, 'rule')} that admins made {'says' if rules == 1 else 'say'} otherwise of some."
    return EffectiveTool(kind, label, CALL_STATES[rule], why)


def _connected_tools(agents: Sequence[Agent]) -> Mapping[int, list[ToolRegistration]]:
    """The tools of connected servers that admins allowed each agent, by its id, by name. One query."""
    by_agent: defaultdict[int, list[ToolRegistration]] = defaultdict(list)
    through = McpTool.agents.through._default_manager.filter(agent__in=agents, mcptool__is_listed=True)
    rows = through.filter(mcptool__server__is_active=True).select_related("mcptool__server")
    for row in cast(Any, rows.order_by("mcptool__server__name", "mcptool__name")):
        by_agent[row.agent_id].append(registration_of(row.mcptool))
    return by_agent


def _rule_counts(place: Place, agents: Sequence[Agent]) -> Mapping[tuple[int, str], int]:
    """How many rules of each agent hold here, by its id and the kind of call. One query."""
    here = Q(channel=None, thread=None) | Q(channel=place.channel)
    if place.thread is not None:
        here |= Q(thread=place.thread)
    rows = CallRule.objects.filter(here, agent__in=agents).order_by().values_list("agent_id", "kind")
    return {(agent_id, kind): number for agent_id, kind, number in rows.annotate(number=Count("pk"))}


def _channel_tools(view: _View) -> EffectiveTools:
    names = view.place.channel.agent_tools
    if names is None:
        origin = "Nothing is taken away here: each agent uses what its level and its own settings let it."
        return EffectiveTools(origin, None, None, view.channel_url)
    labels = {choice.name: choice.label for choice in list_tool_choices(view.workspace_id)}
    shown = tuple(labels.get(name, name) for name in names)
    origin = f"By the settings of {view.place.channel}, as far as an agent's level and its own settings let it."
    return EffectiveTools(origin, tuple(names), shown, view.channel_url)


def _budgets(view: _View, used: TokensUsed) -> tuple[EffectiveBudget, ...]:
    """The channel's, then for members the workspace's."""
    channel, budgets = view.place.channel, []
    if not channel.is_direct:
        spent = used.by_channel.get(channel.pk, 0)
        budgets.append(
            EffectiveBudget(f"the settings of {channel}", channel.daily_token_budget, spent, view.channel_url)
        )
    if not (view.access.is_guest or view.access.is_agent):
        limit = channel.workspace.daily_token_budget
        budgets.append(EffectiveBudget("the whole workspace", limit, used.total, view.admin_url("budgets")))
    return tuple(budgets)


def _knowledge(view: _View) -> EffectiveKnowledge | None:
    """None in a thread for people only: no agent uses any there."""
    if view.place.is_for_people_only:
        return None
    shared, restricted = count_current_entries(view.access)
    return EffectiveKnowledge(
        origin="Knowledge is the whole workspace's; what bears on a request stands in the prompt.",
        shared=shared,
        restricted=restricted,
        url=view.url("knowledge"),
    )


def _memory(view: _View) -> EffectiveMemory:
    plugin = active_plugin(view.workspace_id)
    mode = memory_mode(view.place.any_thread, plugin.config)
    url = view.admin_url("settings-memory")
    return EffectiveMemory(plugin.name, mode.value, MEMORY_WORDS[mode], "the memory of the whole workspace", url)

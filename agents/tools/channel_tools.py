"""What channels may name as allowed to agents, in words: OpenVibe's own tools, connected servers and their tools, and
calls that agents elsewhere make with tools of their own."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django.db.models import QuerySet

from agents.agent.models import EXTERNAL_RUNS, McpTool, Run
from agents.agent.trust import CALL_LABELS
from agents.tools.toolbox import TOOLS
from openvibe.chat.services import call_name, mcp_name
from openvibe.chat.wiring import ToolChoice
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.workspaces.access import Access

OWN_GROUP, CALLS_GROUP = "OpenVibe's own tools", "With tools of their own, on the machines they run on"

TOOL_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "memory": "Look things up in conversations, and keep notes about people",
        "read_file": "Read attached files in pieces",
        "update_context_block": "Change the blocks that stand in all of its prompts",
        "log_progress": "Note how far the work is",
        "work_update": "Keep objective, plan and to-dos of a thread",
        "request_approval": "Ask people for an approval",
        "knowledge_search": "Search the workspace's knowledge",
        "knowledge_suggest": "Suggest entries of knowledge",
        "load_skill": "Take up a skill",
        "unload_skill": "Put a skill down",
    }
)
"""What each tool of OpenVibe's own does, for people."""


def list_tool_choices(workspace_id: int) -> Sequence[ToolChoice]:
    """All that a channel of the workspace may name, in the order in which people are shown it. One query."""
    own = [ToolChoice(tool.name, TOOL_LABELS[tool.name], OWN_GROUP) for tool in TOOLS]
    tools = McpTool.objects.filter(server__workspace=workspace_id, is_listed=True).select_related("server")
    connected: dict[str, ToolChoice] = {}
    for tool in tools.order_by("server__name", "name"):
        server, group = tool.server.name, f"The MCP server {tool.server.name}"
        whole = mcp_name(server)
        connected.setdefault(whole, ToolChoice(whole, f"Everything of {server}, also what it offers later", group))
        name = mcp_name(server, tool.name)
        connected[name] = ToolChoice(name, tool.name, group)
    calls = [ToolChoice(call_name(kind), label, CALLS_GROUP) for kind, label in CALL_LABELS.items()]
    return [*own, *connected.values(), *calls]


def answered_channels(access: Access) -> set[int]:
    """The ids of the channels in which an agent that answers through the API was asked and is not done. One query."""
    return {channel_id for (channel_id,) in _answered_channels.rows(access.participant_id)}


@CompiledQuery
def _answered_channels(participant_id: int) -> QuerySet[Any, Any]:
    runs = Run.objects.filter(
        EXTERNAL_RUNS.condition, agent__participant=participant_id, state__in=EXTERNAL_RUNS.unfinished
    )
    return runs.order_by().values_list("thread__channel_id")

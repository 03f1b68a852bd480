"""Models of agents: who answers, their runs and schedules, what chat clients ask, and the tools of MCP servers."""

from agents.agent.models.agent import Agent, Effort, LoadedSkill, SoulVersion, TrustChange
from agents.agent.models.archive_export import EXPORTS, WorkspaceExport
from agents.agent.models.client_turn import ClientConversation, ClientTurn
from agents.agent.models.entry_erasure import EntryErasure
from agents.agent.models.join_code import JoinCode
from agents.agent.models.mcp import McpServer, McpTool
from agents.agent.models.run import EXTERNAL_RUNS, RUNS, KnowledgeUse, Run, RunStep, Snapshot, ToolCall, ToolSource
from agents.agent.models.schedule import Schedule

__all__ = [
    "EXPORTS",
    "EXTERNAL_RUNS",
    "RUNS",
    "Agent",
    "ClientConversation",
    "ClientTurn",
    "Effort",
    "EntryErasure",
    "JoinCode",
    "KnowledgeUse",
    "LoadedSkill",
    "McpServer",
    "McpTool",
    "Run",
    "RunStep",
    "Schedule",
    "Snapshot",
    "SoulVersion",
    "ToolCall",
    "ToolSource",
    "TrustChange",
    "WorkspaceExport",
]

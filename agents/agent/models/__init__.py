"""Models of agents: who answers, their runs, schedules and watches, what chat clients ask, and tools of MCP servers."""

from agents.agent.models.agent import (
    MAX_PERMISSION_MINUTES,
    MAX_RUN_MINUTES,
    Agent,
    Effort,
    LoadedSkill,
    SoulVersion,
    TrustChange,
)
from agents.agent.models.archive_export import EXPORTS, WorkspaceExport
from agents.agent.models.citation import Citation
from agents.agent.models.client_turn import ClientConversation, ClientTurn
from agents.agent.models.entry_erasure import EntryErasure
from agents.agent.models.join_code import JoinCode
from agents.agent.models.mcp import McpServer, McpTool
from agents.agent.models.permission import AgentPlan, CallRule, Permission
from agents.agent.models.run import (
    EXTERNAL_RUNS,
    RUNS,
    HeardMessage,
    KnowledgeUse,
    Run,
    RunStep,
    Snapshot,
    ToolCall,
    ToolSource,
)
from agents.agent.models.schedule import Schedule
from agents.agent.models.watch import MAX_REST_MINUTES, Watch, WatchedThread, WatchLook

__all__ = [
    "EXPORTS",
    "EXTERNAL_RUNS",
    "MAX_PERMISSION_MINUTES",
    "MAX_REST_MINUTES",
    "MAX_RUN_MINUTES",
    "RUNS",
    "Agent",
    "AgentPlan",
    "CallRule",
    "Citation",
    "ClientConversation",
    "ClientTurn",
    "Effort",
    "EntryErasure",
    "HeardMessage",
    "JoinCode",
    "KnowledgeUse",
    "LoadedSkill",
    "McpServer",
    "McpTool",
    "Permission",
    "Run",
    "RunStep",
    "Schedule",
    "Snapshot",
    "SoulVersion",
    "ToolCall",
    "ToolSource",
    "TrustChange",
    "Watch",
    "WatchLook",
    "WatchedThread",
    "WorkspaceExport",
]

"""Tools of MCP servers for agents: what is kept of them, who may call which, and one call.

A tool is offered to the agents that an admin allowed it to, under the gate table: `external` unless the admin said
otherwise. Its answers are untrusted data, for those who see the thread."""

import hashlib
import re
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple, cast

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.agent.models import Agent, McpServer, McpTool
from agents.agent.trust import Effect
from agents.tools.mcp_servers.values import McpError, ToolChanged, ToolDefinition, ToolList
from agents.tools.toolbox import UNKNOWN_OUTCOME
from agents.tools.values import Tool, ToolContext, ToolOutcome, ToolRegistration, thread_source
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.problems import Problem, Refused, Unavailable
from openvibe.chat.models import Thread
from openvibe.chat.services import mcp_name
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.jobs.circuit_breaker import CircuitBreaker
from openvibe.engines.llm.values import ToolSpec
from openvibe.engines.text.cleaning import pluralize
from openvibe.workspaces.access import Access

MAX_NAME_CHARS = 64
"""The longest name of a tool, as models are given it: the shortest limit of the providers."""

MAX_DESCRIPTION_CHARS = 2_000
"""Characters of a description that models are given and admins are shown."""


class ServerBreaker(CircuitBreaker):
    def is_failure(self, error: BaseException) -> bool:
        return isinstance(error, McpError) and not isinstance(error, ToolChanged)

    def rest_error(self, row: Any, failures: int, seconds: int) -> Unavailable:
        again = f"It is called again in {pluralize(seconds, 'second')}."
        return Unavailable(f"{row.name} failed several times in a row. {again}")


BREAKER = ServerBreaker(failures_in_a_row=3, always_read=True)  # each tool of a run has a row of its server
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class FetchResult(NamedTuple):
    """The names of tools that are new, that say something else than before, that were removed, and that no model
    could be given; and whether there are further ones past MAX_TOOLS."""

    new: list[str]
    changed: list[str]
    removed: list[str]
    unusable: list[str]
    has_more: bool


def refresh_tools(*, server: McpServer) -> FetchResult:
    """Fetches the server's tools and stores them as they are now. Raises Problem with what is wrong.

    A tool that changed acts outside again, asks nobody first, and is no agent's until an admin allows it anew.
    """
    from agents.tools.mcp_servers.client import fetch_tools  # its SDK takes a second to import: only when it is used

    try:
        tool_list = fetch_tools(server)
    except McpError as error:
        raise Problem(str(error), code="mcp_failed") from None
    with transaction.atomic():
        McpServer.objects.select_for_update().get(pk=server.pk)
        result = _store_tools(server, tool_list)
        McpServer.objects.filter(pk=server.pk).update(fetched_at=timezone.now(), failures=0, rests_until=None)
    return result


def _store_tools(server: McpServer, tool_list: ToolList) -> FetchResult:
    definitions = {tool.name: tool for tool in tool_list.tools}
    now, tools_by_name = timezone.now(), {tool.name: tool for tool in server.tools.all()}
    changed_names = [
        name for name, tool in tools_by_name.items() if name in definitions and _differs(tool, definitions[name])
    ]
    for name, definition in definitions.items():
        tool = tools_by_name.get(name) or McpTool(server=server, name=name)
        if name in changed_names:
            tool.effect, tool.asks_first = McpTool.Effect.EXTERNAL, False
            tool.agents.clear()
        tool.description = definition.description[:MAX_DESCRIPTION_CHARS]
        tool.input_schema, tool.fingerprint = definition.input_schema, definition.fingerprint
        tool.is_listed, tool.fetched_at = True, now
        tool.save()
    removed_names = [name for name, tool in tools_by_name.items() if tool.is_listed and name not in definitions]
    server.tools.filter(name__in=removed_names).update(is_listed=False)
    new = [name for name in definitions if name not in tools_by_name]
    return FetchResult(new, changed_names, removed_names, tool_list.unusable, tool_list.has_more)


def _differs(tool: McpTool, definition: ToolDefinition) -> bool:
    return tool.fingerprint != definition.fingerprint


def allow_tools(*, agent: Agent, tools: Iterable[McpTool], by: Access) -> None:
    """Allows the agent these tools, of servers of its workspace, and no others. For owners and admins."""
    if not by.administers or by.workspace_id != agent.workspace_id:
        raise Refused("Only owners and admins choose what an agent may use.")
    before = sorted(map(offered_name, agent.mcp_tools.select_related("server")))
    own_tools = [tool for tool in tools if tool.server.workspace_id == agent.workspace_id]
    after = sorted(map(offered_name, own_tools))
    with transaction.atomic():
        agent.mcp_tools.set(own_tools)
        if before != after:
            record_audit(
                AuditAction.TOOLS,
                workspace_id=agent.workspace_id,
                by=by,
                subject=f"@{agent.handle}",
                before=", ".join(before) or "none",
                after=", ".join(after) or "none",
            )


def allowed_tools(agent: Agent, thread: Thread) -> Iterable[ToolRegistration]:
    """The tools that admins allowed the agent, as far as their servers are in use. One query."""
    return [registration_of(tool) for tool in _tools_in_use.objects(agent.pk, agent.workspace_id)]


@CompiledQuery
def _tools_in_use(agent_id: int, workspace_id: int) -> QuerySet[McpTool]:
    tools = McpTool.objects.filter(agents=agent_id, is_listed=True, server__is_active=True)
    return tools.filter(server__workspace=workspace_id).select_related("server")


def registration_of(tool: McpTool) -> ToolRegistration:
    return ToolRegistration(
        offered_name(tool),
        partial(_make_tool, tool),
        cast(Effect, tool.effect),
        is_approved=True,
        asks_first=tool.asks_first,
        place_names=(mcp_name(tool.server.name), mcp_name(tool.server.name, tool.name)),
    )


def offered_name(tool: McpTool) -> str:
    """`server__tool`, in the letters that every provider takes. One that had to be changed ends with a digest of what
    it was: no two tools share a name, so what people approve is what is called."""
    name = f"{tool.server.name}__{tool.name}"
    plain = _NOT_IN_NAMES.sub("_", name)[:MAX_NAME_CHARS]
    if plain == name:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: MAX_NAME_CHARS - 9]}_{digest}"


def _make_tool(tool: McpTool, context: ToolContext) -> Tool:
    parameters = {"properties": {}, **tool.input_schema, "type": "object"}
    spec = ToolSpec(offered_name(tool), tool.description, parameters)
    run = partial(_call, tool)
    sources = thread_source(context.thread)
    return Tool(spec, run, validates_arguments=True, sources=sources, is_remote=True)


def _call(tool: McpTool, arguments: dict[str, Any]) -> str | ToolOutcome:
    """What the tool answers. Raises Problem when it was not called."""
    from agents.tools.mcp_servers.client import call_tool  # its SDK takes a second to import: only when it is used

    server = tool.server
    try:
        with BREAKER.guard(server):
            result = call_tool(server, tool.name, arguments, fingerprint=tool.fingerprint)
    except ToolChanged as error:
        raise Problem(str(error), code="tool_changed") from None
    except McpError as error:
        if not error.was_sent:
            raise Problem(str(error), code="mcp_failed") from None
        if tool.effect == McpTool.Effect.READS:
            return str(error)
        return f"{error} {UNKNOWN_OUTCOME}"
    return result.replace(server.token, "…") if server.token else result

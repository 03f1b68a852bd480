"""MCP servers of a workspace: saving and deleting one, what its tools may do, and what is said of them to people."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from django.db import transaction

from agents.agent.models import McpServer, McpTool
from agents.tools.mcp_servers.tools import FetchResult
from agents.tools.mcp_servers.values import MAX_TOOLS
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.forms import FieldChange
from openvibe.base.problems import Conflict, Refused
from openvibe.workspaces.access import Access

MAX_UNUSABLE_NAMED = 10
"""Tools that were left out, by name."""

MAX_SHOWN_DEPTH = 4
"""The deepest level of arguments inside of arguments that are named one by one."""


class ToolUse(NamedTuple):
    """What a tool may do. `fingerprint` is that of the description on which this was decided."""

    effect: str
    asks_first: bool
    fingerprint: str


@transaction.atomic
def save_server(*, server: McpServer, by: Access, changes: Iterable[FieldChange]) -> McpServer:
    """Saves what a form checked; what was changed begins without failures. Raises Refused for non-admins."""
    _check_administers(server, by)
    is_new = server.pk is None
    server.failures, server.rests_until = 0, None
    server.save()
    if is_new:
        _audit(server, by, after="made")
        return server
    for change in changes:
        _audit(server, by, what=f"{change.label} of ", before=change.before, after=change.after)
    return server


@transaction.atomic
def delete_server(*, server: McpServer, by: Access) -> None:
    """Deletes the server with its tools, which no agent has any more. Raises Refused for non-admins."""
    _check_administers(server, by)
    _audit(server, by, after="deleted")
    server.delete()


@transaction.atomic
def set_tool_uses(*, server: McpServer, by: Access, uses: Mapping[int, ToolUse]) -> int:
    """Says of tools of this server, by id, what they may do; returns how many changed.

    Raises Refused for non-admins, and Conflict, with nothing changed, where the server says something else of a tool by
    now than what was read.
    """
    _check_administers(server, by)
    McpServer.objects.select_for_update(no_key=True).get(pk=server.pk)  # as `refresh_tools` does
    count = 0
    for tool in server.tools.filter(pk__in=uses):
        use, before = uses[tool.pk], _use_in_words(tool)
        if use.fingerprint != tool.fingerprint:
            raise Conflict(
                f"{server} says something else of {tool.name} than when this page was opened. Read it again.",
                code="tool_changed",
            )
        tool.effect, tool.asks_first = use.effect, use.asks_first
        if (after := _use_in_words(tool)) != before:
            tool.save(update_fields=["effect", "asks_first"])
            _audit(server, by, what=f"{tool.name} of ", before=before, after=after)
            count += 1
    return count


def describe_arguments(schema: object, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Each argument of a tool, those inside of others by their path, with its description."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield f"{path}{name}", str(inner.get("description", "")) if isinstance(inner, dict) else ""
        if depth < MAX_SHOWN_DEPTH:
            yield from describe_arguments(inner, f"{path}{name}.", depth + 1)


def describe_fetch(server: McpServer, result: FetchResult) -> str:
    """What came of fetching a server's tools, in sentences."""
    count = server.tools.filter(is_listed=True).count()
    parts = [f"{server.name} answered: {count} tools."]
    if result.new:
        parts.append(f"New: {', '.join(result.new)}.")
    if result.changed:
        parts.append(f"Changed, so no agent has them until you allow it anew: {', '.join(result.changed)}.")
    if result.removed:
        parts.append(f"Gone: {', '.join(result.removed)}.")
    if result.unusable:
        names = ", ".join(result.unusable[:MAX_UNUSABLE_NAMED])
        parts.append(f"Left out, for no model can be given what the server says of them: {names}.")
    if result.has_more:
        parts.append(f"It has more; the first {MAX_TOOLS} are kept.")
    return " ".join(parts)


def _use_in_words(tool: McpTool) -> str:
    return f"{tool.get_effect_display()}{', asks first' if tool.asks_first else ''}"


def _check_administers(server: McpServer, by: Access) -> None:
    if not by.administers or by.workspace_id != server.workspace_id:
        raise Refused("Only owners and admins choose which MCP servers agents may use.")


def _audit(server: McpServer, by: Access, *, after: str, before: str = "", what: str = "") -> None:
    record_audit(
        AuditAction.MCP_SERVER,
        workspace_id=server.workspace_id,
        by=by,
        subject=f"{what}{server}",
        before=before,
        after=after,
    )

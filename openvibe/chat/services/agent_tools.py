"""What a channel lets agents use, by name, and the check of it at the doors of the API.

A channel's list only narrows: what an agent's level, SOUL and admins give it is asked besides. Names: a tool of
OpenVibe itself by its own; `mcp:SERVER` for all tools of a connected server, `mcp:SERVER/TOOL` for one; `call:KIND` for
calls that an agent elsewhere makes with tools of its own."""

from openvibe.base.problems import Refused
from openvibe.chat.models import Channel, Thread
from openvibe.chat.wiring import ANSWERED_CHANNELS
from openvibe.workspaces.access import Access


def mcp_name(server: str, tool: str = "") -> str:
    """The name of a connected server's tool, or of all its tools."""
    return f"mcp:{server}/{tool}" if tool else f"mcp:{server}"


def call_name(kind: str) -> str:
    return f"call:{kind}"


def tool_refusal(channel: Channel) -> str:
    """The reason why a tool may not be used there, after the tool's name."""
    return f"which agents may not use in #{channel.name}"


def check_agent_tool(access: Access, name: str, thread_id: int | None = None) -> None:
    """Raises Refused `tool_not_allowed_here` where an agent would use, through the API, a tool that the thread's
    channel does not allow. Of what is tied to no thread: where a channel does not in which it is answering at this
    moment. One or two queries, for agents."""
    if not access.is_agent:
        return
    if thread_id is None:
        channel_ids = ANSWERED_CHANNELS.only()(access)
        channels = Channel.objects.filter(pk__in=channel_ids) if channel_ids else Channel.objects.none()
    else:
        channels = Channel.objects.filter(pk__in=Thread.objects.filter(pk=thread_id).values("channel"))
    for channel in channels.order_by("pk"):
        if not channel.allows_tool(name):
            raise Refused(f"Not allowed: {name}, {tool_refusal(channel)}.", code="tool_not_allowed_here")

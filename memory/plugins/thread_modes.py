"""Threads that memory leaves alone: *ignored* ones, and those that are *read-only* for it.

Of neither is anything summarised, reviewed or written into what an agent carries everywhere. In a read-only thread
agents still look things up in it and in what they know; in an ignored one they have no memory tool and nothing is
recalled: prompts hold its newest messages alone, no summary made before, and no search from another thread finds it.
Which threads these are stands in the settings of the workspace's memory, one a line: `#channel` for all threads of a
channel, or a thread's number."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from django.db.models import Q, QuerySet

from memory.plugins.registry import active_plugin
from openvibe.base.params import MAX_ID
from openvibe.chat.models import Thread


class MemoryMode(Enum):
    """What memory does with a thread."""

    FULL = "full"
    READ_ONLY = "read-only"
    IGNORED = "ignored"


def memory_mode(thread: Thread, config: Mapping[str, Any] | None = None) -> MemoryMode:
    """What memory does with the thread; a dive is treated as the thread it started in, too. `config`: the settings of
    the workspace's memory, where they were read already."""
    config = active_plugin(thread.workspace_id).config if config is None else config
    return _mode_in(config, thread.pk, thread.parent_id, thread.channel.name)


def is_ignored(config: Mapping[str, Any], thread_id: int, parent_id: int | None, channel_name: str) -> bool:
    """Whether memory ignores a thread of which this was read already, by the settings of the workspace's memory."""
    return _mode_in(config, thread_id, parent_id, channel_name) is MemoryMode.IGNORED


def _mode_in(config: Mapping[str, Any], thread_id: int, parent_id: int | None, channel_name: str) -> MemoryMode:
    names = {str(thread_id), str(parent_id)}
    for setting, mode in (("ignored_threads", MemoryMode.IGNORED), ("read_only_threads", MemoryMode.READ_ONLY)):
        listed = set(str(config.get(setting) or "").split())
        if listed and (names & listed or f"#{channel_name}".lower() in listed):
            return mode
    return MemoryMode.FULL


def unremembered_threads(workspace_id: int) -> QuerySet[Thread, Any]:
    """The ids of threads of which no other thread is told: those that memory ignores, and those for people only."""
    listed = set(str(active_plugin(workspace_id).config.get("ignored_threads") or "").split())
    ids = [int(each) for each in listed if each.isascii() and each.isdigit() and len(each) < len(str(MAX_ID))]
    condition = Q(access=Thread.Access.HUMAN_ONLY) | Q(pk__in=ids) | Q(parent__in=ids)
    for each in sorted(listed):
        if each.startswith("#"):
            condition |= Q(channel__name__iexact=each[1:])
    return Thread.objects.filter(condition, workspace=workspace_id).order_by().values("pk")


def memory_mode_of(thread_id: int) -> MemoryMode:
    """The same of a thread by its id."""
    thread = Thread.objects.select_related("channel").only("workspace", "parent", "channel__name").get(pk=thread_id)
    return memory_mode(thread)

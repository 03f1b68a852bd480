"""The settings that say which threads memory leaves alone (`thread_modes`), and how their lists are read."""

import re
from typing import Any, Final

from memory.plugins.base import PluginSetting
from openvibe.chat.queries import has_channel, has_thread
from openvibe.workspaces.access import Access

MAX_LISTED_THREADS: Final = 200
_LINE = re.compile(r"#[\w-]{1,80}|\d{1,12}")
_ADDRESS = re.compile(r"(?:https?://[^\s/]+)?/w/[^\s/]+/t/(\d{1,12})(?:[/?#]\S*)?")


def parse_thread_list(value: Any) -> str:
    """The list as it is stored, one thread or channel a line: of a thread's address its number."""
    parts = [_ADDRESS.sub(r"\1", part) for part in re.split(r"[\s,]+", str(value)) if part]
    if len(parts) > MAX_LISTED_THREADS or not all(_LINE.fullmatch(part) for part in parts):
        raise ValueError(f"at most {MAX_LISTED_THREADS} lines, each a #channel or the address of a thread")
    return "\n".join(dict.fromkeys(part.lower() for part in parts))


def check_listed(line: str, workspace_id: int, by: Access | None) -> None:
    """Raises ValueError where the line names no channel and no thread that `by` sees."""
    if line.startswith("#"):
        if not has_channel(workspace_id, line[1:], by):
            raise ValueError(f"There is no channel {line} that you see. Write its name as the sidebar has it.")
        return
    if not has_thread(workspace_id, int(line), by):
        raise ValueError(f"There is no thread {line} that you see. Open the thread and copy its address.")


THREAD_SETTINGS = (
    PluginSetting(
        "read_only_threads",
        "One a line: a #channel, or the address of a thread. Agents look things up there as everywhere, but nothing "
        "said there is summarised, reviewed, or kept in blocks and notes.",
        "none",
        parse_thread_list,
        title="Read-only threads",
        is_long=True,
        check=check_listed,
    ),
    PluginSetting(
        "ignored_threads",
        "One a line: a #channel, or the address of a thread. Nothing said there is summarised or reviewed, nothing is "
        "recalled, no search from another thread finds it, and agents have no memory tool there: they read the newest "
        "messages alone.",
        "none",
        parse_thread_list,
        title="Ignored threads",
        is_long=True,
        check=check_listed,
    ),
)

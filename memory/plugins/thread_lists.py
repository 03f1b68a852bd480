"""The settings that say which threads memory leaves alone (`thread_modes`), and how their lists are read. Pure."""

import re
from typing import Any, Final

from memory.plugins.base import PluginSetting

MAX_LISTED_THREADS: Final = 200
_LINE = re.compile(r"#[\w-]{1,80}|\d{1,12}")


def parse_thread_list(value: Any) -> str:
    """The list as it is stored, one thread or channel a line."""
    parts = [part for part in re.split(r"[\s,]+", str(value)) if part]
    if len(parts) > MAX_LISTED_THREADS or not all(_LINE.fullmatch(part) for part in parts):
        raise ValueError(f"at most {MAX_LISTED_THREADS} lines, each a #channel or the number of a thread")
    return "\n".join(dict.fromkeys(part.lower() for part in parts))


THREAD_SETTINGS = (
    PluginSetting(
        "read_only_threads",
        "One a line: a #channel, or a thread's number (it stands in its address). Agents look things up there as "
        "everywhere, but nothing said there is summarised, reviewed, or kept in blocks and notes.",
        "none",
        parse_thread_list,
        title="Read-only threads",
        is_long=True,
    ),
    PluginSetting(
        "ignored_threads",
        "One a line, likewise. Nothing said there is summarised or reviewed, nothing is recalled, no search from "
        "another thread finds it, and agents have no memory tool there: they read the newest messages alone.",
        "none",
        parse_thread_list,
        title="Ignored threads",
        is_long=True,
    ),
)

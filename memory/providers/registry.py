"""The memory plugins there are, and which one a workspace uses.

Built-ins are the tuple below. Others install themselves through the entry-point group `openvibe.memory`: the entry's
name is the plugin's, its object the provider's class, called with the config. It may declare `settings`, a tuple of
Setting. Nothing is imported before it is used: a plugin that is disabled or unknown is never loaded.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from django.db.models import Q
from django.utils.module_loading import import_string

from memory.models import DEFAULT_PLUGIN, MemoryPlugin
from memory.providers.base import MemoryProvider
from memory.providers.settings import Setting, choice, number

logger = logging.getLogger(__name__)

GROUP = "openvibe.memory"
METHODS = ("bootstrap", "append", "assemble", "stats", "close")

Factory = Callable[[Mapping[str, Any]], MemoryProvider]
"""Makes a provider from its config: the provider's class."""


class CannotLoad(Exception):
    """A plugin that is unknown, fails to import or is no memory plugin. The text is a sentence for people."""


@dataclass(frozen=True)
class Plugin:
    """What is known of a plugin without loading it. `load` imports it; it may raise whatever an import raises."""

    name: str
    title: str
    description: str
    load: Callable[[], Factory]
    settings: tuple[Setting, ...] = ()
    is_built_in: bool = False


class InUse(NamedTuple):
    """The plugin a workspace uses now. `wanted` differs from `name` when the enabled one cannot be loaded: then
    `problem` says why, and the default stands in."""

    name: str
    config: dict[str, Any]
    wanted: str
    problem: str = ""


BUILT_IN: tuple[Plugin, ...] = (
    Plugin(
        "memory/lcm",
        "Lossless memory",
        "Old messages are summarised, and every one of them can still be found and read word for word.",
        lambda: import_string("memory.providers.lcm.provider.LcmProvider"),
        (
            Setting(
                "fresh_tail_tokens",
                "How many tokens the newest messages, which are never summarised, may take; none for no such limit.",
                "a quarter of the prompt's budget",
                number(1, 1_000_000, or_word="none"),
            ),
            Setting("summaries", "Who writes summaries: a model, or a plain cut of the text.", "model",
                    choice("model", "deterministic")),
        ),
        is_built_in=True,
    ),
    Plugin(
        "memory/simple",
        "Simple memory",
        "The newest messages that fit. No summaries, nothing to search; older messages stay in the thread.",
        lambda: import_string("memory.providers.simple.SimpleProvider"),
        (Setting("messages", "How many messages at most a prompt shows.", "as many as fit", number(1, 4_000)),),
        is_built_in=True,
    ),
)  # fmt: skip


@cache
def installed() -> dict[str, Plugin]:
    """Every plugin by name, built-ins first. Reads the installed packages once; loads nothing."""
    found = {plugin.name: plugin for plugin in BUILT_IN}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        if entry.name in found:
            logger.warning("The memory plugin %s of %s is left out: the name is taken.", entry.name, entry.value)
            continue
        found[entry.name] = _foreign(entry)
    return found


def _foreign(entry: EntryPoint) -> Plugin:
    package = entry.dist.name if entry.dist else entry.module
    return Plugin(entry.name, entry.name, f"Installed with the package {package}.", entry.load)


def enabled_name(workspace_id: int) -> str:
    """The name of the plugin a workspace uses."""
    return in_use(workspace_id).name


def provider_for(workspace_id: int) -> MemoryProvider:
    """The workspace's memory."""
    use = in_use(workspace_id)
    return provider_named(use.name, use.config)


def provider_named(name: str, config: Mapping[str, Any]) -> MemoryProvider:
    """The plugin made with this config; the default one, with its own defaults, when that cannot be loaded."""
    try:
        return _made(name, json.dumps(config, sort_keys=True))
    except CannotLoad as problem:
        logger.error("%s %s is used instead.", problem, DEFAULT_PLUGIN)
        return _made(DEFAULT_PLUGIN, "{}")


def in_use(workspace_id: int) -> InUse:
    """Which plugin recalls in this workspace, and why it is not the enabled one when it is not."""
    rows = MemoryPlugin.objects.filter(Q(enabled=True) | Q(name=DEFAULT_PLUGIN), workspace_id=workspace_id)
    found = {name: (enabled, config) for name, enabled, config in rows.values_list("name", "enabled", "config")}
    name = next((name for name, (enabled, _) in found.items() if enabled), DEFAULT_PLUGIN)
    config = found[name][1] if name in found else {}
    problem = problem_with(name, config)
    return InUse(DEFAULT_PLUGIN, {}, name, problem) if problem else InUse(name, config, name)


def problem_with(name: str, config: Mapping[str, Any] | None = None) -> str:
    """Why a plugin cannot be used, as a sentence; "" when it can. Loads it."""
    try:
        _made(name, json.dumps(config or {}, sort_keys=True))
    except CannotLoad as problem:
        return str(problem)
    return ""


def settings_of(plugin: Plugin) -> tuple[Setting, ...]:
    """What may be set. Loads a plugin that is not built in; raises CannotLoad."""
    if plugin.is_built_in:
        return plugin.settings
    return tuple(getattr(_factory(plugin.name), "settings", ()))


def forget() -> None:
    """Look at the installed packages anew."""
    for known in (installed, _made):
        known.cache_clear()


def _factory(name: str) -> Factory:
    plugin = installed().get(name)
    if plugin is None:
        raise CannotLoad(f"The memory plugin {name} is not installed.")
    try:
        return plugin.load()
    except Exception as error:  # whatever somebody else's module does when it is imported
        raise CannotLoad(f"The memory plugin {name} cannot be loaded ({type(error).__name__}: {error}).") from error


@lru_cache(maxsize=64)
def _made(name: str, config: str) -> MemoryProvider:
    factory = _factory(name)
    try:
        provider = factory(json.loads(config))
    except Exception as error:
        raise CannotLoad(f"The memory plugin {name} cannot start ({type(error).__name__}: {error}).") from error
    missing = [method for method in METHODS if not callable(getattr(provider, method, None))]
    if missing:
        raise CannotLoad(f"The memory plugin {name} lacks {', '.join(missing)}.")
    return provider

"""The memory plugins there are, which one a workspace uses, and what switching to another would change.

Built-ins are the tuple below. Others install themselves through the entry-point group `openvibe.memory`: the entry's
name is the plugin's, its object the provider's class, called with the config. It may declare `settings`, a tuple of
PluginSetting. Nothing is imported before it is used: a plugin that is disabled or unknown is never loaded."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet
from django.utils.module_loading import import_string

from memory.plugins.base import (
    MemoryProvider,
    PluginSetting,
    capabilities_of,
    choice_parser,
    integer_parser,
    text_parser,
)
from memory.plugins.models import DEFAULT_PLUGIN, MemoryPlugin
from memory.plugins.summary_instructions import MAX_INSTRUCTION_CHARACTERS, check_instruction
from memory.plugins.thread_lists import THREAD_SETTINGS
from openvibe.engines.database.compiled_queries import CompiledQuery

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "openvibe.memory"
REQUIRED_METHODS = ("bootstrap", "append", "assemble", "stats", "close")

CAPABILITY_LABELS = {
    "Compactor": "old messages are summarised",
    "Searcher": "agents can search what was said",
    "MessageReader": "agents can search other threads, and read long messages piece by piece",
    "Explorer": "agents can go from a summary down to the messages behind it",
    "ProfileStore": "agents keep notes about people",
    "SessionManager": "outside agents lead conversations of their own",
    "ReviewSource": "agents look back at conversations and propose what to learn",
}
"""What a plugin's capabilities mean to people."""

ProviderFactory = Callable[[Mapping[str, Any]], MemoryProvider]
"""Makes a provider from its config: the provider's class."""


class PluginLoadError(Exception):
    """A plugin that is unknown, fails to import or is no memory plugin. The text is a sentence for people."""


@dataclass(frozen=True)
class Plugin:
    """What is known of a plugin without loading it. `load` imports it; it may raise whatever an import raises."""

    name: str
    title: str
    description: str
    load: Callable[[], ProviderFactory]
    settings: tuple[PluginSetting, ...] = ()
    is_built_in: bool = False


class ActivePlugin(NamedTuple):
    """The plugin a workspace uses now. `enabled_name` differs from `name` when the enabled one cannot be
    loaded: then `problem` says why, and the default stands in."""

    name: str
    config: dict[str, Any]
    enabled_name: str
    problem: str = ""


class PluginStatus(NamedTuple):
    """A plugin in one workspace. `problem` says why the enabled one cannot be used; the default stands in then."""

    name: str
    title: str
    description: str
    enabled: bool
    config: dict[str, Any]
    settings: tuple[PluginSetting, ...]
    problem: str = ""


class CapabilityDiff(NamedTuple):
    """What switching changes, as clauses for people: what agents lose, what they gain, what stays."""

    lost: tuple[str, ...]
    gained: tuple[str, ...]
    kept: tuple[str, ...]
    is_known: bool = True


BUILT_IN_PLUGINS: tuple[Plugin, ...] = (
    Plugin(
        "memory/lcm",
        "Lossless memory",
        "Old messages are summarised, and every one of them can still be found and read word for word.",
        lambda: import_string("memory.plugins.lcm.provider.LcmProvider"),
        (
            PluginSetting(
                "fresh_tail_tokens",
                "How many tokens the newest messages, which are never summarised, may take; “none” for no such limit.",
                "a quarter of the prompt's budget",
                integer_parser(1, 1_000_000, keyword="none"),
                title="Recent messages, in tokens",
            ),
            PluginSetting(
                "summaries",
                "Who writes summaries: a model, or a plain cut of the text.",
                "model",
                choice_parser("model", "deterministic"),
                choices=("model", "deterministic"),
            ),
            PluginSetting(
                "summary_instructions",
                "What every summary is to keep, for example “Keep prices with their currency”. A line that begins with "
                "@handle: holds only in threads that this agent speaks in.",
                "none",
                text_parser(MAX_INSTRUCTION_CHARACTERS),
                title="Instructions for summaries",
                is_long=True,
                check=check_instruction,
            ),
            *THREAD_SETTINGS,
        ),
        is_built_in=True,
    ),
    Plugin(
        "memory/simple",
        "Simple memory",
        "The newest messages that fit. No summaries, nothing is recalled; agents can search older messages.",
        lambda: import_string("memory.plugins.simple.SimpleProvider"),
        (
            PluginSetting(
                "messages", "How many messages at most a prompt shows.", "as many as fit", integer_parser(1, 4_000)
            ),
            *THREAD_SETTINGS,
        ),
        is_built_in=True,
    ),
)


@cache
def installed_plugins() -> dict[str, Plugin]:
    """Every plugin by name, built-ins first. Reads the installed packages once; loads nothing."""
    plugins = {plugin.name: plugin for plugin in BUILT_IN_PLUGINS}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        if entry.name in plugins:
            logger.warning("The memory plugin %s of %s is left out: the name is taken.", entry.name, entry.value)
            continue
        package = entry.dist.name if entry.dist else entry.module
        plugins[entry.name] = Plugin(entry.name, entry.name, f"Installed with the package {package}.", entry.load)
    return plugins


def active_plugin_name(workspace_id: int) -> str:
    """The name of the plugin a workspace uses."""
    return active_plugin(workspace_id).name


def provider_for(workspace_id: int) -> MemoryProvider:
    """The workspace's memory; the default one, with its own defaults, when the enabled one cannot be loaded."""
    return provider_of(active_plugin(workspace_id))


def provider_of(active: ActivePlugin) -> MemoryProvider:
    """The same, where it was read already which plugin recalls."""
    if active.problem:
        logger.error("%s %s is used instead.", active.problem, active.name)
    return provider_by_name(active.name, active.config)


def provider_by_name(name: str, config: Mapping[str, Any]) -> MemoryProvider:
    """The plugin made with this config; the default one, with its own defaults, when that cannot be loaded."""
    try:
        return _create_provider(name, json.dumps(config, sort_keys=True))
    except PluginLoadError as problem:
        logger.error("%s %s is used instead.", problem, DEFAULT_PLUGIN)
        return _create_provider(DEFAULT_PLUGIN, "{}")


def active_plugin(workspace_id: int) -> ActivePlugin:
    """The plugin that recalls in this workspace, and the reason why it is not the enabled one when it is not."""
    stored = {row.name: (row.enabled, row.config) for row in _plugins_in_use.objects(workspace_id)}
    name = next((name for name, (enabled, _) in stored.items() if enabled), DEFAULT_PLUGIN)
    config = stored[name][1] if name in stored else {}
    problem = load_problem(name, config)
    return ActivePlugin(DEFAULT_PLUGIN, {}, name, problem) if problem else ActivePlugin(name, config, name)


@CompiledQuery
def _plugins_in_use(workspace_id: int) -> QuerySet[MemoryPlugin]:
    return MemoryPlugin.objects.filter(Q(enabled=True) | Q(name=DEFAULT_PLUGIN), workspace=workspace_id).order_by()


def load_problem(name: str, config: Mapping[str, Any]) -> str:
    """The reason why a plugin cannot be used, as a sentence; "" when it can. Loads it."""
    try:
        _create_provider(name, json.dumps(config, sort_keys=True))
    except PluginLoadError as problem:
        return str(problem)
    return ""


def plugin_settings(plugin: Plugin) -> tuple[PluginSetting, ...]:
    """What may be set. Loads a plugin that is not built in; raises PluginLoadError."""
    if plugin.is_built_in:
        return plugin.settings
    return tuple(getattr(_load_factory(plugin.name), "settings", ()))


def plugin_statuses(workspace_id: int) -> list[PluginStatus]:
    """Every installed plugin and, last, an enabled one that is not installed any more. Loads only the enabled one."""
    active = active_plugin(workspace_id)
    rows = dict(MemoryPlugin.objects.filter(workspace_id=workspace_id).values_list("name", "config"))
    statuses = []
    for plugin in installed_plugins().values():
        is_enabled = plugin.name == active.enabled_name
        problem = active.problem if is_enabled else ""
        settings = plugin_settings(plugin) if plugin.is_built_in or (is_enabled and not problem) else ()
        config = rows.get(plugin.name)
        config = config if isinstance(config, dict) else {}
        statuses.append(
            PluginStatus(plugin.name, plugin.title, plugin.description, is_enabled, config, settings, problem)
        )
    if active.enabled_name not in installed_plugins():
        statuses.append(
            PluginStatus(
                active.enabled_name, active.enabled_name, "Not installed any more.", True, {}, (), active.problem
            )
        )
    return statuses


def with_load_problem(status: PluginStatus) -> PluginStatus:
    """The status with the reason when the plugin cannot be loaded. Loads it."""
    return status if status.enabled else status._replace(problem=load_problem(status.name, status.config))


def capability_diff(workspace_id: int, name: str) -> CapabilityDiff:
    """What enabling this plugin would change. What one that is not built in can do is known once it is enabled."""
    if not installed_plugins()[name].is_built_in:
        return CapabilityDiff((), (), (), is_known=False)
    active = active_plugin(workspace_id)
    before = capabilities_of(provider_by_name(active.name, active.config))
    after = capabilities_of(provider_by_name(name, {}))
    return CapabilityDiff(
        lost=tuple(CAPABILITY_LABELS[capability] for capability in before if capability not in after),
        gained=tuple(CAPABILITY_LABELS[capability] for capability in after if capability not in before),
        kept=tuple(CAPABILITY_LABELS[capability] for capability in after if capability in before),
    )


def clear_plugin_cache() -> None:
    """Forgets the installed packages, which are looked at anew."""
    for cached in (installed_plugins, _create_provider):
        cached.cache_clear()


def _load_factory(name: str) -> ProviderFactory:
    plugin = installed_plugins().get(name)
    if plugin is None:
        raise PluginLoadError(f"The memory plugin {name} is not installed.")
    try:
        return plugin.load()
    except Exception as error:  # whatever somebody else's module does when it is imported
        raise PluginLoadError(
            f"The memory plugin {name} cannot be loaded ({type(error).__name__}: {error})."
        ) from error


def _check_config(name: str, config: Any) -> None:
    """What is stored may come from another version, or from a hand in the database. Raises PluginLoadError."""
    if not isinstance(config, dict):
        raise PluginLoadError(f"The memory plugin {name} cannot start: its stored settings are no object of names.")
    for setting in plugin_settings(installed_plugins()[name]):
        value = config.get(setting.name)
        try:
            if value not in (None, ""):
                setting.parse(value)
        except Exception as error:  # a ValueError says what it takes; others are whatever somebody else's parser does
            takes = f"it must be {error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            raise PluginLoadError(
                f"The memory plugin {name} cannot start: its setting {setting.name} is {value!r:.80} ({takes})."
            ) from error


@lru_cache(maxsize=64)
def _create_provider(name: str, config: str) -> MemoryProvider:
    factory = _load_factory(name)
    values = json.loads(config)
    _check_config(name, values)
    try:
        provider = factory(values)
    except Exception as error:
        raise PluginLoadError(f"The memory plugin {name} cannot start ({type(error).__name__}: {error}).") from error
    missing_methods = [method for method in REQUIRED_METHODS if not callable(getattr(provider, method, None))]
    if missing_methods:
        raise PluginLoadError(f"The memory plugin {name} lacks {', '.join(missing_methods)}.")
    return provider

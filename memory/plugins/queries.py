"""The status of each memory plugin as a workspace's admins see it, and what switching to another would change."""

from __future__ import annotations

from typing import Any, NamedTuple

from memory.plugins.base import PluginSetting, capabilities_of
from memory.plugins.models import MemoryPlugin
from memory.plugins.registry import (
    Plugin,
    active_plugin,
    installed_plugins,
    load_problem,
    plugin_settings,
    provider_named,
)

CAPABILITY_LABELS = {
    "Compactor": "old messages are summarised",
    "Searcher": "agents can search what was said",
    "Explorer": "agents can go from a summary down to the messages behind it",
    "ProfileStore": "agents keep notes about people",
    "SessionManager": "outside agents lead conversations of their own",
    "ReviewSource": "agents look back at conversations and propose what to learn",
}
"""What a plugin's capabilities mean to people."""


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


def plugin_statuses(workspace_id: int) -> list[PluginStatus]:
    """Every installed plugin and, last, an enabled one that is not installed any more. Loads only the enabled one."""
    active = active_plugin(workspace_id)
    rows = dict(MemoryPlugin.objects.filter(workspace_id=workspace_id).values_list("name", "config"))
    statuses = [
        _plugin_status(plugin, plugin.name == active.enabled_name, active.problem, rows)
        for plugin in installed_plugins().values()
    ]
    if active.enabled_name not in installed_plugins():
        statuses.append(
            PluginStatus(
                active.enabled_name, active.enabled_name, "Not installed any more.", True, {}, (), active.problem
            )
        )
    return statuses


def _plugin_status(plugin: Plugin, enabled: bool, problem: str, rows: dict[str, dict[str, Any]]) -> PluginStatus:
    problem = problem if enabled else ""
    settings = plugin_settings(plugin) if plugin.is_built_in or (enabled and not problem) else ()
    return PluginStatus(
        plugin.name, plugin.title, plugin.description, enabled, rows.get(plugin.name, {}), settings, problem
    )


def with_load_problem(status: PluginStatus) -> PluginStatus:
    """The same, with the reason when the plugin cannot be loaded. Loads it."""
    return status if status.enabled else status._replace(problem=load_problem(status.name, status.config))


def capability_diff(workspace_id: int, name: str) -> CapabilityDiff:
    """What enabling this plugin would change. What one that is not built in can do is known once it is enabled."""
    if not installed_plugins()[name].is_built_in:
        return CapabilityDiff((), (), (), is_known=False)
    active = active_plugin(workspace_id)
    before = capabilities_of(provider_named(active.name, active.config))
    after = capabilities_of(provider_named(name, {}))
    return CapabilityDiff(
        lost=tuple(CAPABILITY_LABELS[capability] for capability in before if capability not in after),
        gained=tuple(CAPABILITY_LABELS[capability] for capability in after if capability not in before),
        kept=tuple(CAPABILITY_LABELS[capability] for capability in after if capability in before),
    )

"""The plugins as a workspace's admins see them: which is enabled, how each is set, and what switching would change."""

from __future__ import annotations

from typing import Any, NamedTuple

from memory.models import MemoryPlugin
from memory.providers.base import capabilities_of
from memory.providers.registry import Plugin, in_use, installed, problem_with, provider_named, settings_of
from memory.providers.settings import Setting

ABLE = {
    "Compactor": "old messages are summarised",
    "Searcher": "agents can search what was said",
    "Explorer": "agents can go from a summary down to the messages behind it",
    "ProfileStore": "agents keep notes about people",
    "SessionManager": "outside agents lead conversations of their own",
    "ReviewSource": "agents look back at conversations and propose what to learn",
}
"""What a plugin's capabilities mean to people."""


class Standing(NamedTuple):
    """A plugin in one workspace. `problem` says why the enabled one cannot be used; the default stands in then."""

    name: str
    title: str
    description: str
    enabled: bool
    config: dict[str, Any]
    settings: tuple[Setting, ...]
    problem: str = ""


class Change(NamedTuple):
    """What switching changes, as clauses for people: what agents lose, what they gain, what stays."""

    lost: tuple[str, ...]
    gained: tuple[str, ...]
    kept: tuple[str, ...]
    is_known: bool = True


def standings(workspace_id: int) -> list[Standing]:
    """Every installed plugin and, last, an enabled one that is not installed any more. Loads only the enabled one."""
    use = in_use(workspace_id)
    rows = dict(MemoryPlugin.objects.filter(workspace_id=workspace_id).values_list("name", "config"))
    found = [_standing(plugin, plugin.name == use.wanted, use.problem, rows) for plugin in installed().values()]
    if use.wanted not in installed():
        found.append(Standing(use.wanted, use.wanted, "Not installed any more.", True, {}, (), use.problem))
    return found


def _standing(plugin: Plugin, enabled: bool, problem: str, rows: dict[str, dict[str, Any]]) -> Standing:
    problem = problem if enabled else ""
    settings = settings_of(plugin) if plugin.is_built_in or (enabled and not problem) else ()
    return Standing(
        plugin.name, plugin.title, plugin.description, enabled, rows.get(plugin.name, {}), settings, problem
    )


def tried(standing: Standing) -> Standing:
    """The same, with the reason when the plugin cannot be loaded. Loads it."""
    return standing if standing.enabled else standing._replace(problem=problem_with(standing.name, standing.config))


def what_changes(workspace_id: int, name: str) -> Change:
    """What enabling this plugin would change. What one that is not built in can do is known once it is enabled."""
    if not installed()[name].is_built_in:
        return Change((), (), (), is_known=False)
    use = in_use(workspace_id)
    before = capabilities_of(provider_named(use.name, use.config))
    after = capabilities_of(provider_named(name, {}))
    return Change(
        lost=tuple(ABLE[one] for one in before if one not in after),
        gained=tuple(ABLE[one] for one in after if one not in before),
        kept=tuple(ABLE[one] for one in after if one in before),
    )

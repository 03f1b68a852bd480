"""Verbs of memory plugins: exactly one is enabled in a workspace, whoever switches and from wherever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import transaction

from memory.models import DEFAULT_PLUGIN, MemoryPlugin
from memory.providers.registry import CannotLoad, installed, problem_with, settings_of
from openvibe.base.problems import Problem, Refused
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace

OTHER_BUILT_IN = "memory/simple"
"""What takes the default plugin's place when that one is disabled."""


class Switched(NamedTuple):
    """What a switch did: the plugin enabled now, the one it took the place of ("" when nothing changed), in words."""

    enabled: str
    disabled: str
    said: str


def enable_plugin(*, workspace: Workspace, name: str, by: Access | None) -> Switched:
    """Let this plugin recall from the next prompt on; whichever did before is disabled in the same transaction.

    Admins only; `by=None` is the command line. Raises Problem, with nothing changed, when there is no such plugin or
    it cannot be loaded.
    """
    _only_admins(workspace, by)
    _known(name)
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        rows = {row.name: row for row in MemoryPlugin.objects.filter(workspace=workspace)}
        before = _enabled(rows)
        if before == name:
            return Switched(name, "", f"{name} is enabled already. Nothing changed.")
        problem = problem_with(name, rows[name].config if name in rows else {})
        if problem:
            raise Problem(f"{problem} Nothing changed: {before} stays enabled.", code="cannot_load", field="name")
        _set(workspace, name, before, by)
    return Switched(name, before, f"{name} is enabled now, {before} is disabled. Every message stays in reach.")


def disable_plugin(*, workspace: Workspace, name: str, by: Access | None) -> Switched:
    """Disable this plugin. Something has to recall, so a built-in one takes its place: the default, or simple memory
    in place of the default."""
    _only_admins(workspace, by)
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        rows = {row.name: row for row in MemoryPlugin.objects.filter(workspace=workspace)}
        enabled = _enabled(rows)
        if name not in rows:
            _known(name)
        if enabled != name:
            return Switched(enabled, "", f"{name} is not enabled, {enabled} is. Nothing changed.")
        instead = OTHER_BUILT_IN if name == DEFAULT_PLUGIN else DEFAULT_PLUGIN
        _set(workspace, instead, name, by)
    return Switched(instead, name, f"{name} is disabled. Something has to recall, so {instead} is enabled now.")


def configure_plugin(
    *, workspace: Workspace, name: str, config: Mapping[str, Any], by: Access | None
) -> dict[str, Any]:
    """Change some of a plugin's settings; the others stay. None or "" brings back a default. All of them, as stored.

    Raises Problem, with nothing changed, for a setting the plugin does not declare or a value it does not take.
    """
    _only_admins(workspace, by)
    _known(name)
    wanted = _read(name, config)
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        row = MemoryPlugin.objects.filter(workspace=workspace, name=name).first()
        if row is None:
            has_enabled = MemoryPlugin.objects.filter(workspace=workspace, enabled=True).exists()
            row = MemoryPlugin(workspace=workspace, name=name, enabled=name == DEFAULT_PLUGIN and not has_enabled)
        kept = {key: value for key, value in {**row.config, **wanted}.items() if value is not None}
        problem = problem_with(name, kept)
        if problem:
            raise Problem(f"{problem} The settings stay as they were.", code="bad_config", field="config")
        row.config, row.changed_by_id = kept, by.participant_id if by else None
        row.save()
    return kept


def _only_admins(workspace: Workspace, by: Access | None) -> None:
    if by is not None and not (by.administers and by.workspace_id == workspace.pk):
        raise Refused("Only owners and admins may change how a workspace remembers.")


def _known(name: str) -> None:
    if name not in installed():
        raise Problem(
            f"There is no memory plugin {name!r}. Installed: {', '.join(installed())}.",
            code="unknown_plugin", field="name",
        )  # fmt: skip


def _enabled(rows: Mapping[str, MemoryPlugin]) -> str:
    return next((row.name for row in rows.values() if row.enabled), DEFAULT_PLUGIN)


def _set(workspace: Workspace, name: str, before: str, by: Access | None) -> None:
    """One row enabled. The caller holds the workspace's lock."""
    by_id = by.participant_id if by else None
    for plugin, enabled in ((before, False), (name, True)):
        MemoryPlugin.objects.update_or_create(
            workspace=workspace, name=plugin, defaults={"enabled": enabled, "changed_by_id": by_id}
        )


def _read(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored, None for those to be forgotten."""
    try:
        declared = {setting.name: setting for setting in settings_of(installed()[name])}
    except CannotLoad as problem:
        raise Problem(str(problem), code="cannot_load", field="name") from None
    wanted: dict[str, Any] = {}
    for key, value in config.items():
        if key not in declared:
            known = ", ".join(declared) or "none"
            raise Problem(f"{name} has no setting {key!r}. It has: {known}.", code="bad_config", field=str(key))
        try:
            wanted[key] = None if value in (None, "") else declared[key].read(value)
        except ValueError as error:
            raise Problem(f"{key} must be {error}.", code="bad_config", field=key) from None
    return wanted

"""Services of memory plugins: enable, disable, configure (exactly one is enabled in a workspace, whoever switches), and
correct what a plugin's summary says."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import transaction

from memory.plugins.base import Corrector, Explorer, SummaryDescription
from memory.plugins.compaction import request_compaction
from memory.plugins.models import DEFAULT_PLUGIN, Compaction, MemoryPlugin
from memory.plugins.registry import PluginLoadError, installed_plugins, load_problem, plugin_settings, provider_for
from memory.plugins.sessions import open_session
from memory.plugins.thread_lists import THREAD_SETTINGS
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace

FALLBACK_PLUGIN = "memory/simple"
"""What takes the default plugin's place when that one is disabled."""

RESTART_NOTE = (
    "If OpenVibe has been running since before its package was installed or changed, restart OpenVibe: "
    f"where the package is not known yet, {DEFAULT_PLUGIN} recalls until then."
)


class PluginSwitch(NamedTuple):
    """What a switch did: the plugin enabled now, the one it took the place of ("" when nothing changed), in words."""

    enabled: str
    disabled: str
    message: str


def enable_plugin(*, workspace: Workspace, name: str, by: Access | None) -> PluginSwitch:
    """Lets this plugin recall from the next prompt on; whichever did before is disabled in the same transaction.
    Processes that started before its package was installed let the default recall until they are started again.

    Admins only; `by=None` is the command line. Raises Problem, with nothing changed, when there is no such plugin or
    it cannot be loaded.
    """
    _check_admin(workspace, by)
    _check_installed(name)
    with transaction.atomic():
        rows = _lock_plugins(workspace)
        before = _enabled_plugin(rows)
        if before == name:
            return PluginSwitch(name, "", f"{name} is enabled already. Nothing changed.")
        problem = load_problem(name, rows[name].config if name in rows else {})
        if problem:
            raise Problem(f"{problem} Nothing changed: {before} stays enabled.", code="cannot_load", field="name")
        _store_enabled(workspace, name, before, by)
    return PluginSwitch(name, before, f"{_enabled_words(name, before)} Every message stays in reach.")


def _enabled_words(name: str, before: str) -> str:
    """What holds now. Of a package, running processes know what was installed when they started."""
    if installed_plugins()[name].is_built_in:
        return f"{name} is enabled now, {before} is disabled."
    return f"{name} is enabled, {before} is disabled. {RESTART_NOTE}"


def disable_plugin(*, workspace: Workspace, name: str, by: Access | None) -> PluginSwitch:
    """Disables this plugin. Something has to recall, so a built-in one takes its place: the default, or simple memory
    in place of the default."""
    _check_admin(workspace, by)
    with transaction.atomic():
        rows = _lock_plugins(workspace)
        enabled = _enabled_plugin(rows)
        if name not in rows:
            _check_installed(name)
        if enabled != name:
            return PluginSwitch(enabled, "", f"{name} is not enabled, {enabled} is. Nothing changed.")
        replacement = FALLBACK_PLUGIN if name == DEFAULT_PLUGIN else DEFAULT_PLUGIN
        _store_enabled(workspace, replacement, name, by)
    return PluginSwitch(
        replacement, name, f"{name} is disabled. Something has to recall, so {replacement} is enabled now."
    )


def configure_plugin(
    *, workspace: Workspace, name: str, config: Mapping[str, Any], by: Access | None
) -> dict[str, Any]:
    """Changes some of a plugin's settings; the others stay. None or "" brings back a default. Returns all of them, as
    stored.

    Raises Problem, with nothing changed, for a setting the plugin does not declare, a value it does not take, or a new
    line that names nothing `by` sees.
    """
    _check_admin(workspace, by)
    _check_installed(name)
    changes = _parse_config(name, config)
    with transaction.atomic():
        rows = _lock_plugins(workspace)
        is_enabled = name == DEFAULT_PLUGIN == _enabled_plugin(rows)
        row = rows.get(name) or MemoryPlugin(workspace=workspace, name=name, enabled=is_enabled)
        config_before = row.config if isinstance(row.config, dict) else {}
        _check_new_lines(name, changes, config_before, workspace, by)
        new_config = {key: value for key, value in {**config_before, **changes}.items() if value is not None}
        problem = load_problem(name, new_config)
        if problem:
            raise Problem(f"{problem} The settings stay as they were.", code="bad_config", field="config")
        row.config, row.changed_by_id = new_config, by.participant_id if by else None
        if new_config != config_before:
            record_audit(
                AuditAction.PLUGIN,
                workspace_id=workspace.pk,
                by=by,
                subject=f"settings of {name}",
                before=_config_words(config_before),
                after=_config_words(new_config),
            )
        row.save()
    return new_config


@transaction.atomic
def follow_renamed_channel(*, workspace_id: int, name: str, previous_name: str) -> None:
    """Lists of threads that memory leaves alone name the channel as it is called now."""
    before, now = (f"#{name}".lower() for name in (previous_name, name))
    for row in MemoryPlugin.objects.select_for_update(no_key=True).filter(workspace=workspace_id):
        changes = {}
        for setting in THREAD_SETTINGS:
            lines = str(row.config.get(setting.name) or "").split()
            if before in lines:
                changes[setting.name] = "\n".join(dict.fromkeys(now if line == before else line for line in lines))
        if changes:
            row.config = {**row.config, **changes}
            row.save(update_fields=["config", "updated_at"])


def _check_new_lines(
    name: str, changes: Mapping[str, Any], config_before: Mapping[str, Any], workspace: Workspace, by: Access | None
) -> None:
    """What stands there already is not looked at: somebody who sees more may have written it, or it is gone by now."""
    for setting in plugin_settings(installed_plugins()[name]):
        if setting.check is None:
            continue
        known = set(str(config_before.get(setting.name) or "").splitlines())
        for line in str(changes.get(setting.name) or "").splitlines():
            if line in known or not line.strip():
                continue
            try:
                setting.check(line.strip(), workspace.pk, by)
            except ValueError as error:
                raise Problem(f"{setting.label}: {error}", code="bad_config", field=setting.name) from None


def _config_words(config: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(config.items())) or "the defaults"


def _check_admin(workspace: Workspace, by: Access | None) -> None:
    if by is not None and not (by.administers and by.workspace_id == workspace.pk):
        raise Refused("Only owners and admins may change how a workspace remembers.")


def _check_installed(name: str) -> None:
    if name not in installed_plugins():
        raise Problem(
            f"There is no memory plugin {name!r}. Installed: {', '.join(installed_plugins())}.",
            code="unknown_plugin",
            field="name",
        )


def _lock_plugins(workspace: Workspace) -> dict[str, MemoryPlugin]:
    """The workspace's rows by name; the workspace is locked, so that nobody else switches meanwhile."""
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    return {row.name: row for row in MemoryPlugin.objects.filter(workspace=workspace)}


def _enabled_plugin(rows: Mapping[str, MemoryPlugin]) -> str:
    return next((row.name for row in rows.values() if row.enabled), DEFAULT_PLUGIN)


def _store_enabled(workspace: Workspace, name: str, previous: str, by: Access | None) -> None:
    """One row enabled. The caller holds the workspace's lock."""
    record_audit(AuditAction.PLUGIN, workspace_id=workspace.pk, by=by, subject="memory", before=previous, after=name)
    by_id = by.participant_id if by else None
    for plugin, enabled in ((previous, False), (name, True)):
        MemoryPlugin.objects.update_or_create(
            workspace=workspace, name=plugin, defaults={"enabled": enabled, "changed_by_id": by_id}
        )


def _parse_config(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored, None for those to be forgotten."""
    try:
        settings_by_name = {setting.name: setting for setting in plugin_settings(installed_plugins()[name])}
    except PluginLoadError as problem:
        raise Problem(str(problem), code="cannot_load", field="name") from None
    values_by_name: dict[str, Any] = {}
    for key, value in config.items():
        if key not in settings_by_name:
            setting_names = ", ".join(settings_by_name) or "none"
            raise Problem(f"{name} has no setting {key!r}. It has: {setting_names}.", code="bad_config", field=str(key))
        try:
            values_by_name[key] = None if value in (None, "") else settings_by_name[key].parse(value)
        except ValueError as error:
            raise Problem(f"{key} must be {error}.", code="bad_config", field=key) from None
    return values_by_name


def correct_summary(
    *, thread: Thread, by: Access, summary_id: int, content: str, version: int
) -> tuple[SummaryDescription, Compaction | None]:
    """The summary as it stands now, and a request to write anew what was made of it, for the caller to send to a
    worker.

    Raises Missing, Refused (agents, guests), Problem for the text, and Conflict for a version that is not current.
    """
    session, provider = open_session(by, thread.pk), provider_for(thread.workspace_id)
    if not (isinstance(provider, Corrector) and isinstance(provider, Explorer)):
        raise Missing
    provider.describe(session, summary_id)  # raises Missing
    if by.is_agent or by.is_guest:
        raise Refused("Only members may correct a summary.")
    description = provider.correct(session, summary_id, content=content, version=version)
    if description.container is None:
        return description, None
    return description, request_compaction(thread=thread, trigger=Compaction.Trigger.CHANGED)

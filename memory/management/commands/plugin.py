"""`manage.py plugin list | enable NAME | disable NAME | config NAME [key=value …]`: how a workspace remembers."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.plugins.registry import (
    PluginLoadError,
    PluginStatus,
    installed_plugins,
    plugin_settings,
    plugin_statuses,
    with_load_problem,
)
from memory.plugins.services import configure_plugin, disable_plugin, enable_plugin
from openvibe.base.problems import Problem
from openvibe.workspaces.models import Workspace
from openvibe.workspaces.queries import resolve_workspace


class Command(BaseCommand):
    help = "Shows and switches memory plugins. Exactly one is enabled in each workspace; switching loses no message."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        list_parser = verbs.add_parser("list", help="every plugin, and which one is enabled")
        list_parser.add_argument("--check", action="store_true", help="also load those that are not enabled")
        enable_parser = verbs.add_parser("enable", help="let this plugin recall; the other one is disabled")
        disable_parser = verbs.add_parser("disable", help="disable this plugin; a built-in one takes its place")
        config_parser = verbs.add_parser(
            "config", help="show settings, or change them: key=value; key= for the default"
        )
        for verb in (enable_parser, disable_parser, config_parser):
            verb.add_argument("name", metavar="NAME")
        config_parser.add_argument("values", metavar="key=value", nargs="*")
        for verb in (list_parser, enable_parser, disable_parser, config_parser):
            verb.add_argument("--workspace", metavar="SLUG", default="", help="needed when there is more than one")

    def handle(self, *_arguments: Any, verb: str, workspace: str, **options: Any) -> None:
        home = resolve_workspace(workspace)
        try:
            getattr(self, f"_{verb}")(home, **options)
        except (Problem, PluginLoadError) as problem:
            raise CommandError(str(problem)) from None

    def _list(self, home: Workspace, *, check: bool, **_: Any) -> None:
        statuses = [with_load_problem(status) if check else status for status in plugin_statuses(home.pk)]
        width = max(len(status.name) for status in statuses)
        for status in statuses:
            self.stdout.write(format_status(status, width))

    def _enable(self, home: Workspace, *, name: str, **_: Any) -> None:
        self.stdout.write(enable_plugin(workspace=home, name=name, by=None).message)

    def _disable(self, home: Workspace, *, name: str, **_: Any) -> None:
        self.stdout.write(disable_plugin(workspace=home, name=name, by=None).message)

    def _config(self, home: Workspace, *, name: str, values: list[str], **_: Any) -> None:
        bad_value = next((value for value in values if "=" not in value), None)
        if bad_value is not None:
            raise CommandError(f"Settings are written key=value; {bad_value!r} has no = sign.")
        changes = dict(value.split("=", 1) for value in values)
        stored = (
            configure_plugin(workspace=home, name=name, config=changes, by=None)
            if changes
            else stored_config(home, name)
        )
        for setting in plugin_settings(installed_plugins()[name]):
            value = json.dumps(stored[setting.name]) if setting.name in stored else f"not set ({setting.default})"
            self.stdout.write(f"{setting.name} = {value}\n    {setting.description}")


def format_status(status: PluginStatus, width: int) -> str:
    mark = "on " if status.enabled else "off"
    text = f"{mark} {status.name:<{width}}  {status.description}"
    return f"{text}\n    cannot be used: {status.problem}" if status.problem else text


def stored_config(home: Workspace, name: str) -> dict[str, Any]:
    """The plugin's settings as they are stored. Raises CommandError for one that is not installed."""
    for status in plugin_statuses(home.pk):
        if status.name == name and name in installed_plugins():
            return status.config
    raise CommandError(f"There is no memory plugin {name!r}. Installed: {', '.join(installed_plugins())}.")

"""`manage.py plugin list | enable NAME | disable NAME | config NAME [key=value …]`: how a workspace remembers."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.providers.registry import CannotLoad, installed, settings_of
from memory.providers.standing import Standing, standings, tried
from memory.services.plugins import configure_plugin, disable_plugin, enable_plugin
from openvibe.base.problems import Problem
from openvibe.workspaces.management.finding import workspace_called
from openvibe.workspaces.models import Workspace


class Command(BaseCommand):
    help = "Shows and switches memory plugins. Exactly one is enabled in each workspace; switching loses no message."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listing = verbs.add_parser("list", help="every plugin, and which one is enabled")
        listing.add_argument("--check", action="store_true", help="also load those that are not enabled")
        enabling = verbs.add_parser("enable", help="let this plugin recall; the other one is disabled")
        disabling = verbs.add_parser("disable", help="disable this plugin; a built-in one takes its place")
        setting = verbs.add_parser("config", help="show settings, or change them: key=value; key= for the default")
        for verb in (enabling, disabling, setting):
            verb.add_argument("name", metavar="NAME")
        setting.add_argument("values", metavar="key=value", nargs="*")
        for verb in (listing, enabling, disabling, setting):
            verb.add_argument("--workspace", metavar="SLUG", default="", help="needed when there is more than one")

    def handle(self, *_arguments: Any, verb: str, workspace: str, **options: Any) -> None:
        home = workspace_called(workspace)
        try:
            getattr(self, f"_{verb}")(home, **options)
        except (Problem, CannotLoad) as problem:
            raise CommandError(str(problem)) from None

    def _list(self, home: Workspace, *, check: bool, **_: Any) -> None:
        found = [tried(one) if check else one for one in standings(home.pk)]
        width = max(len(one.name) for one in found)
        for one in found:
            self.stdout.write(line(one, width))

    def _enable(self, home: Workspace, *, name: str, **_: Any) -> None:
        self.stdout.write(enable_plugin(workspace=home, name=name, by=None).said)

    def _disable(self, home: Workspace, *, name: str, **_: Any) -> None:
        self.stdout.write(disable_plugin(workspace=home, name=name, by=None).said)

    def _config(self, home: Workspace, *, name: str, values: list[str], **_: Any) -> None:
        wrong = next((value for value in values if "=" not in value), None)
        if wrong is not None:
            raise CommandError(f"Settings are written key=value; {wrong!r} has no = sign.")
        given = dict(value.split("=", 1) for value in values)
        stored = configure_plugin(workspace=home, name=name, config=given, by=None) if given else known(home, name)
        for setting in settings_of(installed()[name]):
            value = json.dumps(stored[setting.name]) if setting.name in stored else f"not set ({setting.default})"
            self.stdout.write(f"{setting.name} = {value}\n    {setting.description}")


def line(one: Standing, width: int) -> str:
    mark = "on " if one.enabled else "off"
    text = f"{mark} {one.name:<{width}}  {one.description}"
    return f"{text}\n    cannot be used: {one.problem}" if one.problem else text


def known(home: Workspace, name: str) -> dict[str, Any]:
    """The plugin's settings as they are stored. Raises CommandError for one that is not installed."""
    for one in standings(home.pk):
        if one.name == name and name in installed():
            return one.config
    raise CommandError(f"There is no memory plugin {name!r}. Installed: {', '.join(installed())}.")

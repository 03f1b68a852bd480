"""What a change of names and places must leave as it was: `python -m tests.frozen record|compare FOLDER`.

`record` writes what the product shows to the outside (routes, OpenAPI, task names, settings, help of the commands,
the database's schema, prompts byte for byte) into FOLDER; `compare`, run with the changed code, says where it
differs. Where FOLDER holds `world.dump` (made by `pg_dump -Fc` of an installation), prompts are assembled from a copy
of that database, migrated first; the clock stands still meanwhile.
"""

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
PROMPTS = 200
OURS = ("openvibe", "memory", "knowledge", "agents")
CODE = re.compile(rf"^(?:{'|'.join(OURS)})(?:\.\w+)+$")
DATABASE = "openvibe_frozen"


def main(action: str, folder: Path) -> int:
    """0 when nothing differs, or after recording."""
    folder.mkdir(parents=True, exist_ok=True)
    different = 0
    for name, make in PARTS.items():
        file, text = folder / name, make(folder)
        if action == "record":
            file.write_text(text)
            print(f"{name}: {len(text.splitlines()):,} lines")
            continue
        before = file.read_text()
        same = before == text
        print(f"{name}: {'same' if same else 'DIFFERENT'}")
        if not same:
            different += 1
            (folder / f"{name}.now").write_text(text)
            lines = difflib.unified_diff(before.splitlines(), text.splitlines(), "before", "now", lineterm="", n=1)
            print("\n".join(line[:240] for _, line in zip(range(40), lines, strict=False)))
    return 1 if different else 0


def routes(_folder: Path) -> str:
    """One line per address: pattern and name."""
    from django.urls import URLPattern, URLResolver, get_resolver

    def walk(resolver: URLResolver, prefix: str, space: str) -> Iterator[str]:
        for entry in resolver.url_patterns:
            path = prefix + str(entry.pattern)
            if isinstance(entry, URLResolver):
                yield from walk(entry, path, ":".join(filter(None, (space, entry.namespace or ""))))
            elif isinstance(entry, URLPattern):
                yield f"{path}  {space}:{entry.name}"

    return "\n".join(walk(get_resolver(), "/", "")) + "\n"


def openapi(_folder: Path) -> str:
    from drf_spectacular.generators import SchemaGenerator

    schema = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False, default=str) + "\n"


def tasks(_folder: Path) -> str:
    """Names of tasks, and what beat sends when."""
    from openvibe.celery import app

    app.loader.import_default_modules()
    names = sorted(name for name in app.tasks if name.split(".")[0] in (*OURS, "base", "api", "chat", "search", "llm"))
    beat = [f"{key}: {entry['task']} {entry['schedule']}" for key, entry in sorted(app.conf.beat_schedule.items())]
    return "\n".join([*names, *beat]) + "\n"


def options(_folder: Path) -> str:
    """What an operator may set, and every Django setting that does not name code or a place on this machine."""
    from django.conf import settings

    from openvibe.settings.environment import ROOT, Environment

    fields = [
        f"{name} {field.alias} {str(field.default).replace(str(ROOT), '')} {field.description}"
        for name, field in Environment.model_fields.items()
    ]
    places = (str(ROOT), str(settings.VAR))
    values = []
    for name in sorted(name for name in dir(settings) if name.isupper()):
        text = json.dumps(_without_code(getattr(settings, name)), default=repr, sort_keys=True)
        if (
            name in ("SECRET_KEY", "ENV", "UNFOLD", "INSTALLED_APPS")
            or any(place in text for place in places)
            or text == '"code"'
        ):
            continue
        if text not in ("null", '["code"]', '["code", "code"]', '["code", "code", "code"]'):
            values.append(f"{name} = {text}")
    return "\n".join([*fields, *values]) + "\n"


def _without_code(value: Any) -> Any:
    if isinstance(value, str):
        return "code" if CODE.match(value) else value
    if isinstance(value, dict):
        return {str(key): _without_code(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_code(each) for each in value]
    return value


def commands(_folder: Path) -> str:
    """The help of every command of ours but the one that carries a database over, which the version before has not."""
    from django.core.management import get_commands, load_command_class

    texts = []
    with mock.patch.dict(os.environ, {"COLUMNS": "100"}):
        for name, app in sorted(get_commands().items()):
            if str(app).split(".")[0] in OURS and name not in CARRY_OVER:
                parser = load_command_class(str(app), name).create_parser("manage.py", name)
                texts.append(f"== {name}\n{_every_help(parser)}")
    return "\n".join(texts)


def _every_help(parser: Any) -> str:
    texts = [parser.format_help()]
    for action in parser._actions:
        if isinstance(getattr(action, "choices", None), dict):
            texts += [_every_help(sub) for sub in action.choices.values()]
    return "\n".join(texts)


def schema(_folder: Path) -> str:
    """`pg_dump --schema-only` after all migrations, without what differs by itself from dump to dump."""
    with _database() as connection:
        from django.core.management import call_command

        call_command("migrate", interactive=False, verbosity=0)
        text = _program(connection, "pg_dump", "--schema-only", "--no-owner", DATABASE)
    return "\n".join(line for line in text.splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))) + "\n"


def prompts(folder: Path) -> str:
    """Prompts for every agent in threads of `world.dump`, of every task, and what was left out of them."""
    if not (folder / "world.dump").exists():
        return ""
    from django.core.management import call_command

    with _database() as connection:
        _program(connection, "pg_restore", "--no-owner", "-d", DATABASE, str(folder / "world.dump"))
        call_command(*CARRY_OVER)
        call_command("migrate", interactive=False, verbosity=0)
        with mock.patch("django.utils.timezone.now", return_value=NOW):
            return "\n".join(json.dumps(each, ensure_ascii=False, default=str) for each in _prompts()) + "\n"


CARRY_OVER = ("adopt_migrations",)


def _prompts() -> Iterator[dict[str, Any]]:
    from agents.models import Agent
    from agents.prompts.assembler.assemble import assemble
    from openvibe.base.problems import Problem
    from openvibe.chat.models import Message, Thread

    prompt_count = 0
    agents = list(Agent.objects.select_related("participant", "workspace", "soul", "endpoint").order_by("pk"))
    for thread in Thread.objects.order_by("pk"):
        messages = list(Message.objects.filter(thread=thread).select_related("author").order_by("seq"))
        some = messages[:: max(1, len(messages) // 3)] + messages[-1:]
        for agent in agents:
            if agent.workspace_id != thread.workspace_id:
                continue
            for number, task in enumerate(("mention", "thread", "dive", "publish")):
                request = some[(number + agent.pk) % len(some)] if some else None
                for asked in (request, "What did we decide about the button, the roses and bada?"):
                    if prompt_count >= PROMPTS:
                        return
                    try:
                        prompt = assemble(agent=agent, thread=thread, task=task, request=asked, now=NOW)
                    except Problem as problem:
                        yield {"agent": agent.pk, "thread": thread.pk, "task": task, "problem": str(problem)}
                        continue
                    prompt_count += 1
                    yield {
                        "agent": agent.pk,
                        "thread": thread.pk,
                        "task": task,
                        "tokens": prompt.tokens,
                        "messages": [astuple(message) for message in prompt.messages],
                        "items": [astuple(item) for item in prompt.included],
                        "dropped": [astuple(item) for item in prompt.dropped],
                    }


class _database:  # noqa: N801 - used like a function
    """An empty database of its own, which Django's connection is to meanwhile."""

    def __enter__(self) -> Any:
        from django.db import connection

        self.usual = connection.settings_dict["NAME"]
        self._recreate(connection)
        connection.close()
        connection.settings_dict["NAME"] = DATABASE
        return connection

    def __exit__(self, *_error: object) -> None:
        from django.db import connection

        connection.close()
        connection.settings_dict["NAME"] = self.usual

    @staticmethod
    def _recreate(connection: Any) -> None:
        with connection._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
            cursor.execute(f"CREATE DATABASE {DATABASE}")


def _program(connection: Any, name: str, *arguments: str) -> str:
    """What one of PostgreSQL's own programs prints, connected to the server Django uses."""
    from openvibe.engines.database.embedded.server import program_path

    at = connection.get_connection_params()
    process = subprocess.run(
        [str(program_path(name)), "-h", at["host"], "-p", str(at["port"]), "-U", at["user"], *arguments],
        capture_output=True,
        text=True,
    )
    if process.returncode != 0:
        raise SystemExit(f"{name}: {process.stderr}")
    return process.stdout


PARTS: dict[str, Callable[[Path], str]] = {
    "routes.txt": routes,
    "openapi.json": openapi,
    "tasks.txt": tasks,
    "settings.txt": options,
    "commands.txt": commands,
    "schema.sql": schema,
    "prompts.jsonl": prompts,
}


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")
    os.environ.setdefault("OPENVIBE_VAR", str(Path(tempfile.gettempdir(), f"openvibe-frozen-{os.getuid()}")))
    import django

    django.setup()
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))

"""Imports of another app's models: those there are stand in `crossings.txt`, and that list may only shrink.

A line is the app that imports, the model (or what else it takes out of a `models` package) and in how many modules.
Where modules move inside an app the list stays as it is.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / "tests/crossings.txt"
TOP = ("agents", "knowledge", "memory", "openvibe")
SHARED = frozenset({"database.TimestampedModel"})
"""What models of every app are made of."""

Crossings = Mapping[tuple[str, str], frozenset[str]]
"""Modules by the app that imports and what it imports, such as ("agents", "chat.Thread")."""


def app_of(module: str) -> str:
    """The app of a module: "agents", or below openvibe the folder, such as "chat", or "llm" of the engines."""
    outer = ("openvibe", "engines")
    parts = module.split(".")
    return next((part for part in parts if part not in outer), parts[-1])


def imported_models(source: str) -> Iterator[str]:
    """What the module takes out of `models` packages, such as "chat.Thread"."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(TOP):
            is_models = "models" in node.module.split(".")
            for alias in node.names:
                if is_models or alias.name == "models":
                    yield f"{app_of(node.module)}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith(TOP) and "models" in alias.name.split("."):
                    yield f"{app_of(alias.name)}.models"


def crossings() -> Crossings:
    """All of today."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for top in TOP:
        for file in (ROOT / top).rglob("*.py"):
            if "migrations" in file.parts:
                continue
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            for name in imported_models(file.read_text()):
                if name.partition(".")[0] != app_of(module) and name not in SHARED:
                    found[app_of(module), name].add(module)
    return {key: frozenset(modules) for key, modules in found.items()}


def read_baseline(text: str) -> dict[tuple[str, str], int]:
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {(importer, name): int(count) for importer, name, count in rows}


def differences(found: Crossings, baseline: Mapping[tuple[str, str], int]) -> tuple[list[str], list[str]]:
    """Sentences on what is more than the baseline says, and the lines that are to change because it is less."""
    more = [
        f"{importer} takes {name} into {len(modules)} modules, {baseline.get((importer, name), 0)} before. "
        f"Ask the owner's `queries` or `services` instead. They are: {', '.join(sorted(modules))}"
        for (importer, name), modules in sorted(found.items())
        if len(modules) > baseline.get((importer, name), 0)
    ]
    less = [
        f"{importer} {name} {count}: now {now or 'none, take the line out'}"
        for (importer, name), count in sorted(baseline.items())
        if (now := len(found.get((importer, name), ()))) < count
    ]
    return more, less


def test_crossings_only_shrink() -> None:
    more, less = differences(crossings(), read_baseline(BASELINE.read_text()))
    assert not more, "\n".join(more)
    assert not less, "Good: fewer. Write it down in tests/crossings.txt:\n" + "\n".join(less)


def test_a_new_crossing_and_one_that_is_gone_are_named() -> None:
    found = {("agents", "chat.Thread"): frozenset({"agents.one", "agents.two"})}
    more, less = differences(found, {("agents", "chat.Thread"): 1, ("agents", "chat.Dive"): 1})
    assert more == [
        "agents takes chat.Thread into 2 modules, 1 before. Ask the owner's `queries` or `services` instead. "
        "They are: agents.one, agents.two"
    ]
    assert less == ["agents chat.Dive 1: now none, take the line out"]


def test_every_way_to_import_a_model_counts() -> None:
    source = """
from openvibe.chat.models import Thread, Message as Said
from openvibe.chat.models.thread import Draft
from openvibe.workspaces import models
from openvibe.chat.queries import access_thread
from django.db import models as of_django
import memory.work.models
def inside():
    from knowledge.models import Entry
"""
    assert sorted(imported_models(source)) == [
        *("chat.Draft", "chat.Message", "chat.Thread", "knowledge.Entry", "memory.models", "workspaces.models")
    ]

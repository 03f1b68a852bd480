"""Whatever is imported by name stands in requirements.in, or in requirements-dev.in where only tests import it."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
IMPORT = re.compile(r"(?:^|[;:])[ \t]*(?:from[ \t]+([\w\\]+)|import[ \t]+(.+))", re.MULTILINE)
OURS = {"openvibe", "agents", "memory", "knowledge", "tests", "openvibe_client"}


installed_distributions = cache(packages_distributions)  # it reads what every package has installed


def required(*names: str) -> set[str]:
    """Distributions that the files name, as PyPI compares names."""
    lines = "\n".join(ROOT.joinpath(name).read_text(encoding="utf-8") for name in names).splitlines()
    return {normalized(found[0]) for line in lines if (found := re.match(r"[A-Za-z0-9._-]+", line))}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements, however deep; expressions, which are most of a file, are not looked into."""
    for blocks in ("body", "orelse", "handlers", "finalbody", "cases"):
        block = getattr(node, blocks, ())
        for statement in block if isinstance(block, list) else ():
            yield statement
            yield from statements(statement)


def mentioned_names(source: str) -> Iterator[str]:
    """What could be a module that a file imports: all of them, and whatever follows such a word in a sentence."""
    for module, names in IMPORT.findall(source):
        yield from [module] if module else (re.split(r"[.\s]", name.strip())[0] for name in names.split(","))


def imported_names(source: str) -> set[str]:
    """Top-level modules that a file imports."""
    names: set[str] = set()
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def imported(*folders: str) -> dict[str, str]:
    """Top-level modules that are neither ours nor Python's, each with a file that imports it."""
    modules: dict[str, str] = {}
    for path in (path for folder in folders for path in sorted(ROOT.joinpath(folder).rglob("*.py"))):
        place, source = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        known = {*OURS, *sys.stdlib_module_names, *modules}
        if place == "openvibe/runner/local_model/server.py":
            known.add("xllamacpp")  # it runs in an environment of its own, made from `server.txt` beside it
        if place.startswith("memory/plugins/testing/"):
            known.add("pytest")  # the suite for authors of plugins ships; who runs it has pytest
        if set(mentioned_names(source)) - known:  # in few files: to parse them all takes seconds
            modules |= dict.fromkeys(imported_names(source) - known, place)
    return modules


@pytest.mark.parametrize(
    ("folders", "files"),
    [
        (("openvibe", "agents", "memory", "knowledge"), ("requirements.in",)),
        (("tests",), ("requirements.in", "requirements-dev.in")),
    ],
)
def test_what_is_imported_is_required(folders: tuple[str, ...], files: tuple[str, ...]) -> None:
    distributions, named = installed_distributions(), required(*files)
    missing = {
        f"{module} (imported by {path})"
        for module, path in imported(*folders).items()
        if not {normalized(name) for name in distributions.get(module, [module])} & named
    }
    assert not missing, f"add to {files[-1]} and run `make lock`"

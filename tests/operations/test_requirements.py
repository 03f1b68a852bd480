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


def imported(*folders: str) -> dict[str, str]:
    """Top-level modules that are neither ours nor Python's, each with a file that imports it."""
    modules: dict[str, str] = {}
    for path in (path for folder in folders for path in sorted(ROOT.joinpath(folder).rglob("*.py"))):
        for node in statements(ast.parse(path.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            modules |= {name.partition(".")[0]: str(path.relative_to(ROOT)) for name in names}
    if modules.get("pytest", "").startswith("memory/plugins/testing/"):
        del modules["pytest"]  # the suite for authors of plugins ships; who runs it has pytest
    return {name: path for name, path in modules.items() if name not in OURS | sys.stdlib_module_names}


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

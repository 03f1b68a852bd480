"""A module that one other module alone imports stands alone for a reason, which docs/architecture.md gives."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
APPS = ("agents", "knowledge", "memory", "openvibe")
ROOMS = (
    *("models", "services", "queries", "tasks", "receivers", "wiring", "apps", "admin"),
    *("urls", "api_urls", "views", "forms", "serializers"),
)
"""Modules that every app may have."""
HEADING = "## Modules that one module alone imports"


def module_paths() -> dict[str, Path]:
    """The file of each module that ships, by dotted name; no migrations."""
    files = (file for app in APPS for file in (ROOT / app).rglob("*.py") if "migrations" not in file.parts)
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def imported_names(source: str) -> Iterator[str]:
    """Dotted names a module imports, and the names it takes out of them: either may be a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


def is_room(module: str, path: Path) -> bool:
    """Whether it is where every app has it: packages and commands besides."""
    parts = module.split(".")
    return path.name == "__init__.py" or parts[-1] in ROOMS or "commands" in parts or "admin" in parts


def lone_modules() -> set[str]:
    """Modules with one importer, where neither is a room of every app, and which the settings do not name."""
    paths = module_paths()
    importers: dict[str, set[str]] = defaultdict(set)
    for module, path in paths.items():
        for name in imported_names(path.read_text()):
            importers[name].add(module)
    settings = "".join(file.read_text() for file in (ROOT / "openvibe/settings").glob("*.py"))
    return {
        module
        for module, path in paths.items()
        if len(importers[module] - {module}) == 1 and not is_room(module, path) and f'"{module}' not in settings
        if not any(is_room(importer, paths[importer]) for importer in importers[module] - {module})
    }


def test_imports_are_absolute() -> None:
    relative = [
        module
        for module, path in module_paths().items()
        if any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(ast.parse(path.read_text())))
    ]
    assert relative == []


def test_each_has_its_reason() -> None:
    section = (ROOT / "docs/architecture.md").read_text().partition(HEADING)[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`([\w.]+)`", section)) == sorted(lone_modules())

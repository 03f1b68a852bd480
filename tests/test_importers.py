"""A module that one other module alone imports stands alone for a reason, which docs/rooms.md gives; an import inside
a function has one, too, and gives it in its line."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
APPS = ("agents", "knowledge", "memory", "openvibe")
ROOMS = (
    *("models", "services", "queries", "tasks", "receivers", "wiring", "apps", "admin"),
    *("urls", "api_urls", "views", "forms", "serializers"),
)
"""Modules that every app may have."""
HEADING = "## Modules that one module alone imports"
MAX_INLINE_IMPORTS = 30
NO_REASON = re.compile(r"#\s*(noqa|type: ignore)\b[^#]*")


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
    section = (ROOT / "docs/rooms.md").read_text().partition(HEADING)[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`([\w.]+)`", section)) == sorted(lone_modules())


def inline_imports(source: str) -> Iterator[int]:
    """The lines of imports inside functions."""
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    inner = (node for function in functions for node in ast.walk(function))
    yield from sorted({node.lineno for node in inner if isinstance(node, ast.Import | ast.ImportFrom)})


def reasons(source: str) -> dict[int, str]:
    """Comments by line, without what they tell to checkers."""
    comments = (
        each for each in tokenize.generate_tokens(io.StringIO(source).readline) if each.type == tokenize.COMMENT
    )
    return {each.start[0]: NO_REASON.sub("", each.string).strip("# ") for each in comments}


@pytest.mark.parametrize(
    ("comment", "has_reason"),
    [
        ("  # it takes a second", True),
        ("  # noqa: F401  # it takes a second", True),
        ("  # noqa: F401", False),
        ("", False),
    ],
)
def test_a_word_to_a_checker_is_no_reason(comment: str, has_reason: bool) -> None:
    source = f"import re\n\ndef read():\n    import json{comment}\n"
    assert list(inline_imports(source)) == [4]
    assert bool(reasons(source).get(4)) is has_reason


def test_imports_inside_functions_are_few_and_each_has_its_reason() -> None:
    count, bare = 0, []
    for path in module_paths().values():
        source = path.read_text()
        lines, comments = list(inline_imports(source)), reasons(source)
        count += len(lines)
        bare += [f"{path.relative_to(ROOT)}:{line}" for line in lines if not comments.get(line)]
    assert bare == [], "say in the line why it is not at the top of the module"
    assert count <= MAX_INLINE_IMPORTS

"""The documents tell the truth about the repository: the files they name exist, and hold what is said to be in them."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
AT_THE_TOP = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
DOCUMENTS = (*(ROOT / name for name in AT_THE_TOP), *sorted((ROOT / "docs").glob("*.md")))
TOP_FOLDERS = ("openvibe/", "memory/", "knowledge/", "agents/", "templates/", "static/", "tests/", "docs/", ".ci/")
PLUGIN_NAMES = ("memory/lcm", "memory/simple")  # these look like folders
API_PATHS = ("memory/tool/",)


def named_paths(document: Path) -> set[str]:
    """Paths of the repository in backticks, and the targets of links."""
    text = document.read_text()
    quoted = {path.partition("::")[0] for path in re.findall(r"`([^`\s]+)`", text) if path.startswith(TOP_FOLDERS)}
    linked = {
        str((document.parent / target).resolve().relative_to(ROOT))
        for target in re.findall(r"\]\(([^)#\s]+)\)", text)
        if "://" not in target
    }
    return (quoted | linked) - {*PLUGIN_NAMES, *API_PATHS}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_path_a_document_names_exists(document: Path) -> None:
    assert [path for path in sorted(named_paths(document)) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_module_a_document_names_exists(document: Path) -> None:
    dotted = re.findall(r"`((?:openvibe|memory|knowledge|agents)(?:\.\w+)+)`", document.read_text())
    assert [name for name in dotted if not names_something(name)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_test_a_document_names_exists(document: Path) -> None:
    named = re.findall(r"`(tests/[^`\s]+\.py)::(\w+)`", document.read_text())
    assert [f"{file}::{test}" for file, test in named if not defines((ROOT / file).read_text(), test)] == []


def test_every_point_of_the_interface_names_what_shows_it() -> None:
    tables = [block for block in (ROOT / "docs/interface.md").read_text().split("\n\n") if block.startswith("| what |")]
    points = [row for table in tables for row in table.splitlines()[2:]]
    assert {number for row in points if (number := row[2:].partition(".")[0]).isdigit()} == set(map(str, range(1, 17)))
    assert [row for row in points if "::test_" not in row and ".png" not in row] == []


def names_something(dotted: str) -> bool:
    """Whether it is a module, a name in one, or a task."""
    *folders, last = dotted.split(".")
    module, parent = ROOT / "/".join((*folders, last)), ROOT / "/".join(folders)
    sources = (parent.with_suffix(".py"), parent / "__init__.py", parent / "tasks.py")
    return (
        module.is_dir()
        or module.with_suffix(".py").exists()
        or any(defines(source.read_text(), last) for source in sources if source.exists())
    )


def defines(source: str, name: str) -> bool:
    """Whether the text of a module has this function, class or constant at its top."""
    return re.search(rf"^(?:(?:async )?def|class) {name}\b|^{name}\b(?:: [^=]+)? = ", source, re.M) is not None


def room_rows() -> list[tuple[str, str, str]]:
    """(question, file, name) for each row of "Find your room"."""
    page = (ROOT / "docs/rooms.md").read_text()
    return re.findall(r"^\| ([^|]+\?) \| `([^`]+)` \| `([^`]+)` \|$", page, re.M)


def test_thirty_questions_have_a_room() -> None:
    assert len(room_rows()) >= 30


@pytest.mark.parametrize(("question", "file", "name"), room_rows(), ids=lambda cell: cell)
def test_a_room_holds_what_is_looked_for(question: str, file: str, name: str) -> None:
    assert defines((ROOT / file).read_text(), name)


def top_names(source: str) -> Iterator[str]:
    """Classes and constants at the top of a module: no errors, which say what happened, nor what the API names."""
    for node in ast.parse(source).body:
        bases = {ast.unparse(base) for base in node.bases} if isinstance(node, ast.ClassDef) else set()
        if isinstance(node, ast.ClassDef) and not bases & {"Exception", "Problem", "TypedDict"}:
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_no_class_or_constant_is_called_by_a_participle_alone() -> None:
    irregular = "begun|done|given|gone|found|kept|made|said|seen|sent|shown|told"
    participle = rf"_*(?:[A-Z][a-z]*ed|[A-Z]*ED|(?i:(?:un)?(?:{irregular})))"
    sources = [path for top in TOP_FOLDERS[:4] for path in (ROOT / top).rglob("*.py")]
    sources += [ROOT / "manage.py", *(ROOT / "client/src").rglob("*.py")]
    names = [f"{path.relative_to(ROOT)}: {name}" for path in sources for name in top_names(path.read_text())]
    assert [name for name in names if re.fullmatch(participle, name.partition(": ")[2])] == []


def nav_pages(entry: Any) -> list[str]:
    """The pages below an entry of the site's navigation: a title with a page, or with further entries."""
    if isinstance(entry, str):
        return [entry]
    below = entry.values() if isinstance(entry, dict) else entry
    return [page for part in below for page in nav_pages(part)]


def test_the_site_leads_to_every_page_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    docs = ROOT / "docs"
    assert sorted(nav_pages(nav)) == sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))


def test_every_decision_has_a_date_a_status_and_what_lost() -> None:
    records = re.split(r"(?m)^(?=\d+\. \*\*)", (ROOT / "docs/history/decisions.md").read_text())[1:]
    assert [int(record.partition(".")[0]) for record in records] == list(range(1, len(records) + 1))
    ending = re.compile(r"\n +\*\d{4}-\d\d-\d\d · (?:stands|replaced by \d+) · lost: [^*]+\.\*\s*\Z")
    assert [record for record in records if not ending.search(record)] == []


LONG_ROWS = {
    "api-codes.md": "each row holds a sentence as the API says it",
    "context.md": "each row names the files that make a section, and who may change it",
    "interface.md": "each row names the tests that show a point",
    "security.md": "each row names where a promise is kept and the tests that hold it",
}
"""Pages with rows of tables that may be longer, since a row cannot be broken. Elsewhere a long row is made a list."""


def long_lines(page: Path) -> list[str]:
    lines = enumerate(page.read_text().splitlines(), 1)
    rows_may_be_long = page.name in LONG_ROWS
    return [
        f"{page.name}:{number}"
        for number, line in lines
        if len(line) > 160 and not (rows_may_be_long and line.startswith("|"))
    ]


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_lines_of_a_page_can_be_read(page: Path) -> None:
    """Code blocks are lines, too. What is told in `docs/history` was written once and is left as it is."""
    assert long_lines(page) == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/history").glob("*.md")), ids=lambda page: page.stem)
def test_history_is_left_out_of_the_search_of_the_site(page: Path) -> None:
    assert page.read_text().startswith("---\nsearch:\n  exclude: true\n---\n# ")


def test_template_lines_can_be_read() -> None:
    long = [
        f"{template.relative_to(ROOT)}:{number}"
        for template in sorted((ROOT / "templates").rglob("*.html"))
        for number, line in enumerate(template.read_text().splitlines(), 1)
        if len(line) > 160
    ]
    assert long == []


def test_a_commit_is_checked_as_by_make_check() -> None:
    recipe = re.search(r"(?m)^check: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text())
    assert recipe is not None
    commands = re.sub(r"\\\n\s*", "", recipe[1]).splitlines()
    assert len(commands) == (ROOT / ".pre-commit-config.yaml").read_text().count("- id: ")


def test_one_stylesheet_knows_what_is_dark() -> None:
    """The admin's theme is a class that django-unfold sets: its own few colours stand in one block of admin.css."""
    dark = re.compile(r"prefers-color-scheme|data-theme|color-scheme|light-dark")
    stylesheets = (ROOT / "static/css").glob("*.css")
    assert {sheet.name for sheet in stylesheets if dark.search(sheet.read_text())} == {"palette.css"}

"""Each room has a README of the rules that stand today: short enough to be read before the room is touched, and true of
the files it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENGINES = ("charts", "database", "documents", "jobs", "llm", "network", "search", "serving", "text")
ROOMS = (
    *(f"openvibe/engines/{engine}" for engine in ENGINES),
    *(f"openvibe/{room}" for room in ("api", "base", "chat", "runner", "webhooks", "workspaces")),
    *("memory", "memory/plugins", "memory/plugins/lcm", "knowledge", "agents"),
    *(f"agents/{room}" for room in ("agent", "connect", "prompts", "runs", "statistics", "tools")),
    *("templates", "tests"),
)
MAX_BYTES = 45_000
"""All READMEs together: what a rule adds, one that stands no more has to give. A screen holds some 5,000."""

MAX_ROOM_BYTES = 5_000
TOP_FOLDERS = ("openvibe", "memory", "knowledge", "agents", "templates", "static", "tests", "docs")
FILE_NAME = re.compile(r"[\w./-]+\.(?:css|gz|html|js|jsonl|md|py|toml|txt|yaml)")
FOLDER_NAME = re.compile(r"\w[\w.-]*/(?:[\w.-]+/?)*")


def readme_of(room: str) -> str:
    return (ROOT / room / "README.md").read_text()


@pytest.fixture(scope="module")
def places() -> tuple[str, ...]:
    """Every file and folder of the repository, a slash before and behind each."""
    paths = (path for top in TOP_FOLDERS for path in (ROOT / top, *(ROOT / top).rglob("*")))
    return tuple(f"/{path.relative_to(ROOT).as_posix()}/" for path in paths if "__pycache__" not in path.parts)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_a_maintainer_must_know(room: str) -> None:
    text = readme_of(room)
    assert text.startswith("# ")
    assert re.search(r"(?m)^- ", text), "no rule"
    assert len(text.encode()) <= MAX_ROOM_BYTES
    assert [line for line in text.splitlines() if len(line) > 160] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_says_what_it_promises_and_costs(engine: str) -> None:
    text = readme_of(f"openvibe/engines/{engine}")
    parts = ("**Promises.**", "**Costs.**", "**Use it when**", "**Bench.**", "## Rules")
    assert [part for part in parts if part not in text] == []


def test_every_engine_has_a_readme() -> None:
    engines = ROOT / "openvibe/engines"
    assert {room.name for room in engines.iterdir() if room.is_dir() and room.name != "__pycache__"} == {*ENGINES}


@pytest.mark.parametrize("room", ROOMS)
def test_every_file_a_room_names_exists(room: str, places: tuple[str, ...]) -> None:
    """A name is of a file in the room, or of one elsewhere by as much of its path as tells it apart."""
    quoted = re.findall(r"`([^`\s]+)`", readme_of(room))
    named = [name for name in quoted if FILE_NAME.fullmatch(name) or FOLDER_NAME.fullmatch(name)]
    ends = {name: f"/{name.strip('/')}/" for name in named}
    assert [name for name in named if not any(place.endswith(ends[name]) for place in places)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_link_of_a_room_leads_somewhere(room: str) -> None:
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)\)", readme_of(room)) if "://" not in target]
    assert [target for target in targets if not (ROOT / room / target).exists()] == []


def test_all_rules_together_are_read_within_an_hour() -> None:
    assert sum(len(readme_of(room).encode()) for room in ROOMS) <= MAX_BYTES


def test_reasons_stand_where_they_are_needed() -> None:
    """Nothing sends its reader to a decision by its number: the README gives the rule, a comment the cost."""
    numbered = re.compile(r"(?i)\bdecisions? (?:no\.? ?|number )?\d|docs/decisions|history/decisions\.md#")
    paths = (path for top in TOP_FOLDERS[:-1] for path in (ROOT / top).rglob("*") if path != Path(__file__))
    sources = (path for path in paths if path.suffix in {".py", ".html", ".js", ".css", ".md"})
    assert [str(path.relative_to(ROOT)) for path in sources if numbered.search(path.read_text())] == []

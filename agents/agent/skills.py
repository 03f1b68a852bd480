"""Agent folders: skills an agent may take up, and files that stand in place of a layer of its system prompt.

`$OPENVIBE_HOME/workspaces/<handle>/skills/<name>/SKILL.md`, `SYSTEM.md` and `SOUL.md`. Handles are unique in a
workspace only: the folder `<handle>@<workspace slug>` comes first, and the plain one serves only while a single
workspace of this server has an agent of that handle. What operators put there is trusted; a link that leads out of
the folder, a name that is not plain, and a text that is too long are left out, and `folder_problems` says so.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import structlog
import yaml
from django.conf import settings

from agents.agent.models import Agent, LoadedSkill
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.tokens import count_tokens

log = structlog.get_logger(__name__)

MAX_FILE_TOKENS = 2_000
"""Tokens (o200k_base) of one skill, and of SYSTEM.md and SOUL.md each."""

MAX_LOADED_SKILLS = 3
"""Skills an agent has taken up in one thread, at most."""

MAX_INDEXED_SKILLS = 30
"""Skills of one agent that prompts name, in the order of their names."""

MAX_SKILL_FOLDERS = 200
"""Folders of skills that are looked at."""

MAX_LINE_CHARS = 160
"""Characters of a skill's line in the index."""

MAX_FILE_BYTES = 64 * 1024
"""Bytes of a file that are looked at; more than that is never 2,000 tokens."""

OVERRIDE_FILES = ("SYSTEM.md", "SOUL.md")
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}\Z")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.S)
_HEADING = re.compile(r"\A#{1,6}[ \t]+")


@dataclass(frozen=True)
class Skill:
    """A skill as the index names it. `line` says in one line what it is good for."""

    name: str
    line: str


@dataclass(frozen=True)
class _FolderFile:
    """A text file of an agent's folder. `problem` says why it is not used; empty when it is."""

    text: str
    problem: str = ""


def skill_index(agent: Agent) -> tuple[Skill, ...]:
    """What the agent can take up, by name, at most MAX_INDEXED_SKILLS."""
    folder = agent_folder(agent)
    skills = _iter_skills(folder) if folder else ()
    return tuple(skill for skill, file in skills if not file.problem)[:MAX_INDEXED_SKILLS]


def skill_text(agent: Agent, name: str) -> str | None:
    """The skill's text, at most MAX_FILE_TOKENS; None where the agent has no usable skill of that name."""
    folder = agent_folder(agent) if _PLAIN_NAME.match(name) else None
    skill = _skill_in_folder(folder, name) if folder else None
    return skill[1].text if skill and not skill[1].problem else None


def loaded_skills(agent: Agent, thread_id: int) -> list[tuple[str, str]]:
    """The name and text of what the agent has taken up in the thread, in that order; those gone since are left out."""
    rows = LoadedSkill.objects.filter(agent=agent, thread=thread_id).order_by("id")
    texts = ((name, skill_text(agent, name)) for name in rows.values_list("name", flat=True))
    return [(name, text) for name, text in texts if text]


def read_override(agent: Agent, name: str) -> str | None:
    """SYSTEM.md or SOUL.md of the agent's folder; None where there is none, or it cannot be used."""
    if name not in OVERRIDE_FILES:
        raise ValueError(f"{name} is no such file: {' or '.join(OVERRIDE_FILES)}.")
    folder = agent_folder(agent)
    file = _file_in_folder(folder, folder / name) if folder else None
    if file and file.problem:
        log.warning("agent_file_ignored", agent_id=agent.pk, file=name, why=file.problem)
    return file.text if file and not file.problem else None


def folder_problems(agent: Agent) -> list[str]:
    """The reasons why files of the agent's folder are not used, a sentence each, for whoever runs the server."""
    plain = _workspaces_folder() / agent.handle
    folder = agent_folder(agent)
    if folder is None:
        if not _is_within(_workspaces_folder(), plain):
            return []
        return [
            f"The folder {plain.name} serves nobody: agents of this handle live in several workspaces. "
            f"Name it {agent.handle}@{agent.workspace.slug}."
        ]
    files = [(name, _file_in_folder(folder, folder / name)) for name in OVERRIDE_FILES]
    files += [(f"The skill {skill.name}", file) for skill, file in _iter_skills(folder)]
    return [f"{name} is not used: {file.problem}" for name, file in files if file and file.problem]


def agent_folder(agent: Agent) -> Path | None:
    """The agent's folder, if it has one. Asks the database only where a folder of its handle stands."""
    root = _workspaces_folder()
    names = _subfolder_names(root)
    handle = agent.handle
    if not any(name == handle or name.startswith(f"{handle}@") for name in names):
        return None
    own = root / f"{handle}@{agent.workspace.slug}"
    if own.name in names and _is_within(root, own):
        return own
    plain = root / handle
    if handle not in names or not _is_within(root, plain):
        return None
    others = Agent.objects.filter(participant__handle=handle).exclude(workspace_id=agent.workspace_id)
    return None if others.exists() else plain


def _workspaces_folder() -> Path:
    return Path(settings.HOME) / "workspaces"


def _subfolder_names(folder: Path) -> frozenset[str]:
    try:
        return _list_subfolders(folder, folder.stat().st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(maxsize=256)
def _list_subfolders(folder: Path, _changed: int) -> frozenset[str]:
    return frozenset(entry.name for entry in folder.iterdir() if entry.is_dir())


def _is_within(folder: Path, path: Path) -> bool:
    """Whether the path is there and, links followed, does not lead out of the folder."""
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve(strict=True))
    except OSError:
        return False


def _iter_skills(folder: Path) -> Iterator[tuple[Skill, _FolderFile]]:
    """Every skill of the folder by name, with its text or why it is not used."""
    for name in sorted(_subfolder_names(folder / "skills"))[:MAX_SKILL_FOLDERS]:
        skill = _skill_in_folder(folder, name)
        if skill is not None:
            yield skill


def _skill_in_folder(folder: Path, name: str) -> tuple[Skill, _FolderFile] | None:
    file = _file_in_folder(folder, folder / "skills" / name / "SKILL.md")
    if file is None:
        return None
    if not _PLAIN_NAME.match(name):
        problem = "its folder's name may hold only small letters, digits, - and _, at most 80."
        return Skill(clean_text(name)[:80], ""), _FolderFile("", problem)
    if file.problem:
        return Skill(name, ""), file
    return Skill(name, _index_line(file.text)), _FolderFile(_body_text(file.text))


def _file_in_folder(folder: Path, path: Path) -> _FolderFile | None:
    """The file's text; None where there is no file."""
    try:
        file_stat = path.lstat()
        if not _is_within(folder, path):
            return _FolderFile("", "it is a link that leads out of the agent's folder.")
        file_stat = path.stat()
    except OSError:
        return None
    return _read_file(path, file_stat.st_mtime_ns, file_stat.st_size)


@lru_cache(maxsize=512)
def _read_file(path: Path, _changed: int, size: int) -> _FolderFile:
    if size > MAX_FILE_BYTES:
        return _FolderFile("", f"it has {size:,} bytes. At most {MAX_FILE_TOKENS:,} tokens can be used.")
    try:
        text = clean_text(path.read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError):
        return _FolderFile("", "it cannot be read as UTF-8 text.")
    if not text:
        return _FolderFile("", "it is empty.")
    tokens = count_tokens(text)
    if tokens > MAX_FILE_TOKENS:
        return _FolderFile("", f"it has {tokens:,} tokens. At most {MAX_FILE_TOKENS:,} can be used.")
    return _FolderFile(text)


def _front_matter(text: str) -> dict[str, Any]:
    match = _FRONT_MATTER.match(text)
    try:
        front = yaml.safe_load(match[1]) if match else None
    except yaml.YAMLError:
        return {}
    return front if isinstance(front, dict) else {}


def _body_text(text: str) -> str:
    return _FRONT_MATTER.sub("", text, count=1).strip() or text


def _index_line(text: str) -> str:
    """The description in the front matter, else the first heading and the line after it."""
    front = _front_matter(text)
    parts = [str(front[key]) for key in ("title", "description") if isinstance(front.get(key), str)]
    if not parts:
        lines = [line.strip() for line in _body_text(text).splitlines() if line.strip()]
        parts = [_HEADING.sub("", line) for line in lines[:2]]
    return " ".join(": ".join(parts).split())[:MAX_LINE_CHARS]

"""Agents' folders in an archive: every regular file below `$OPENVIBE_HOME/workspaces/<handle>/`, under the agent's
number there. Links are left out, as they are where prompts are made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from agents.agent.models import Agent
from agents.agent.skills import agent_folder
from openvibe.base.problems import Conflict

MAX_FILES = 10_000
"""Files in all folders of one archive."""
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_PATH_CHARACTERS = 300
MAX_PART_BYTES = 200


def folder_files(agents: Sequence[Agent]) -> Iterator[tuple[int, str, Path]]:
    """The agent's number in the archive, the path inside its folder, and the file; in that order.

    Raises Conflict for what no archive could bring back.
    """
    count = 0
    for number, agent in enumerate(agents, 1):
        folder = agent_folder(agent)
        if folder is None:
            continue
        root = folder.resolve()
        files = (Path(place, name) for place, _, names in os.walk(root) for name in names)
        paths = {file.relative_to(root).as_posix(): file for file in files if _is_regular(file)}
        count += len(paths)
        if count > MAX_FILES:
            raise Conflict(f"The agents' folders hold more than {MAX_FILES:,} files. Nothing was written.")
        for path in sorted(paths):
            if not is_plain(path) or paths[path].stat().st_size > MAX_FILE_BYTES:
                where = f"{folder.name}/{path}"
                raise Conflict(f"{where[:200]!a} is too large, or its name is no plain one. Nothing was written.")
            yield number, path, paths[path]


def _is_regular(file: Path) -> bool:
    return file.is_file() and not file.is_symlink()


def is_plain(path: str) -> bool:
    """Whether a path stays in its folder, on every system, and can be a file's."""
    parts = path.split("/")
    return (
        0 < len(path) <= MAX_PATH_CHARACTERS
        and path.isprintable()
        and not set(path) & set('\\:*?"<>|')
        and all(part and part.strip(". ") and len(part.encode(errors="replace")) <= MAX_PART_BYTES for part in parts)
    )


def own_folder(handle: str, slug: str) -> Path:
    """The folder of one agent of one workspace alone."""
    return Path(settings.HOME) / "workspaces" / f"{handle}@{slug}"


@contextmanager
def folder_writer() -> Iterator[Callable[[Path, Mapping[str, bytes]], None]]:
    """Yields what writes a new folder, whole or not at all; what was written is gone when the context ends badly."""
    paths: list[Path] = []

    def write(folder: Path, files: Mapping[str, bytes]) -> None:
        """Raises OSError, FileExistsError for a folder that is there already."""
        unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
        paths.extend((unfinished, folder))
        if folder.exists():
            paths.remove(folder)
            raise FileExistsError(folder)
        shutil.rmtree(unfinished, ignore_errors=True)  # of a process of this number that was killed
        for path, content in files.items():
            file = unfinished / path
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with file.open("xb") as stream:
                stream.write(content)
        unfinished.rename(folder)

    try:
        yield write
    except BaseException:
        for folder in paths:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def delete_folders(agents: Sequence[Agent]) -> None:
    """Folders that are of these agents alone: another workspace of that name must not find them, they are trusted."""
    for agent in agents:
        folder = own_folder(agent.handle, agent.workspace.slug)
        if folder.is_symlink():
            folder.unlink()
        elif folder.is_dir():
            shutil.rmtree(folder)

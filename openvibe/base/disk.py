"""Room on the disks that OpenVibe writes to."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db import connection

MIN_FREE_BYTES = 64 * 1024**2
"""Below it a disk counts as full: PostgreSQL wants 16 MiB for each next file of its log, and stops without."""


class Room(NamedTuple):
    """A folder, or the nearest one above it that is there, and the free bytes of its disk."""

    folder: Path
    free: int


def written_folders() -> list[Path]:
    """Settings, files of pages, agents' folders, and the data of an embedded database. Where an outside database keeps
    its own, its server knows."""
    folders = [settings.VAR, settings.STATIC_ROOT, settings.HOME]
    if connection.settings_dict["ENGINE"] == "openvibe.runner.postgres":
        folders.append(settings.VAR / "postgres" / "data")
    return folders


def least_room(folders: Iterable[Path], *, free_bytes: Callable[[Path], int] | None = None) -> Room:
    """Returns the folder with the least room. Raises OSError when a disk cannot be asked."""
    ask = free_bytes or (lambda path: shutil.disk_usage(path).free)
    return min((Room(folder, ask(_existing(folder))) for folder in folders), key=lambda room: room.free)


def _existing(folder: Path) -> Path:
    candidates: Sequence[Path] = (folder, *folder.parents)
    return next((path for path in candidates if path.is_dir()), folder)

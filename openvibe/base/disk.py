"""Room on the disks that OpenVibe writes to."""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db import connection

DiskUsage = tuple[int, int, int]

MIN_FREE_BYTES = 64 * 1024**2
"""Below it a disk counts as full: PostgreSQL wants 16 MiB for each next file of its log, and stops without."""
MIN_FREE_DIVISOR = 20
"""A small disk, as a container's volume may be, counts as full when less than a twentieth of it is free."""


class Room(NamedTuple):
    """A folder, and of its disk the free bytes and how many of them are needed."""

    folder: Path
    free: int
    needed: int


def written_folders() -> list[Path]:
    """Settings, files of pages, agents' folders, and the data of an embedded database. Where an outside database keeps
    its own, its server knows."""
    folders = [settings.VAR, settings.STATIC_ROOT, settings.HOME]
    if connection.settings_dict["ENGINE"] == "openvibe.engines.database.embedded":
        folders.append(settings.VAR / "postgres" / "data")
    return folders


def least_room(folders: Iterable[Path], *, disk_usage: Callable[[Path], DiskUsage] = shutil.disk_usage) -> Room:
    """Returns the folder with the least room beyond what it needs; those that nobody may write to want none.

    `disk_usage` gives total, used and free bytes. Raises OSError when a disk cannot be asked.
    """
    all_folders = list(folders)
    writable = [folder for folder in all_folders if os.access(_existing(folder), os.W_OK)]
    rooms = (_room(folder, disk_usage) for folder in writable or all_folders)
    return min(rooms, key=lambda room: room.free - room.needed)


def _room(folder: Path, disk_usage: Callable[[Path], DiskUsage]) -> Room:
    total, _, free = disk_usage(_existing(folder))
    return Room(folder, free, min(MIN_FREE_BYTES, total // MIN_FREE_DIVISOR))


def _existing(folder: Path) -> Path:
    candidates: Sequence[Path] = (folder, *folder.parents)
    return next((path for path in candidates if path.is_dir()), folder)

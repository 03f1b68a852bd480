"""Static files under hashed names: where they are kept, and for how long those of earlier versions are."""

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.core.management import call_command
from whitenoise.storage import CompressedManifestStaticFilesStorage

from openvibe.engines.serving import bundles

BUNDLES = {"css/app.css": bundles.bundle_styles, "js/app.js": bundles.bundle_modules}

EARLIER_FILES_DAYS = 30
"""How long the files of an earlier version stay after an update: pages that were open then still ask for them."""
_HASHED_NAME = re.compile(r"\.[0-9a-f]{12}(\.[^/]*)?$")
_LOCK_FILE = "collecting.lock"
_COMPRESSED_SUFFIX = re.compile(r"\.(gz|br)$")


class CachedUrlStorage(StaticFilesStorage):
    """Makes up a file's address once in a process: pages name several files each, and none gets another address."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._addresses: dict[tuple[Any, ...], str] = {}

    def url(self, *file: Any) -> str:
        address = self._addresses.get(file)
        if address is None:
            address = self._addresses[file] = super().url(*file)
        return address


class StaticStorage(CachedUrlStorage, CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Static files: hashed names, compressed and cached for ever once collected, straight from the folders before that.
    Our styles and our modules are one file each, once collected."""

    manifest_strict = False

    def post_process(self, paths: dict[str, Any], *arguments: Any, **options: Any) -> Iterator[Any]:
        for name, bundle in BUNDLES.items():
            if name in paths:
                storage, path = paths[name]
                Path(self.path(name)).write_text(bundle(Path(storage.path(path))), encoding="utf-8")
                paths[name] = (self, name)
        yield from super().post_process(paths, *arguments, **options)


def collect_static_files() -> None:
    """Static files collected under hashed names, again only when one of them changed. Web servers that share the folder
    take turns. Raises OSError."""
    root = Path(settings.STATIC_ROOT)
    root.mkdir(parents=True, exist_ok=True)
    with open(root / _LOCK_FILE, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _collect(root)


def _collect(root: Path) -> None:
    stamp = root / "collected"
    digest = _digest_of_sources()
    if stamp.exists() and stamp.read_text() == digest:
        return
    earlier_names = _names_in_manifest(root)
    for file in _files_in(root):  # the stamp, too: what is interrupted here is begun again
        if file.name != _LOCK_FILE and not _HASHED_NAME.search(file.name):
            file.unlink()
    call_command("collectstatic", interactive=False, verbosity=0)
    _delete_old_files(root, earlier_names)
    stamp.write_text(digest)


def _digest_of_sources() -> str:
    digest = hashlib.sha256(Path(bundles.__file__).read_bytes())
    for finder in get_finders():
        for path, storage in finder.list([]):
            status = Path(storage.path(path)).stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _files_in(root: Path) -> Iterator[Path]:
    return (file for file in root.rglob("*") if file.is_file())


def _names_in_manifest(root: Path) -> frozenset[str]:
    """The hashed names that pages of the version in `root` hold; none where nothing was collected."""
    with suppress(OSError, ValueError, AttributeError, TypeError):
        return frozenset(json.loads((root / "staticfiles.json").read_text(encoding="utf-8"))["paths"].values())
    return frozenset()


def _delete_old_files(root: Path, earlier_names: frozenset[str]) -> None:
    """Deletes what no page has held for EARLIER_FILES_DAYS. Of a file that is only now held by none the time begins."""
    names, now = _names_in_manifest(root), time.time()
    for file in _files_in(root):
        name = _COMPRESSED_SUFFIX.sub("", file.relative_to(root).as_posix())
        if name in names or not _HASHED_NAME.search(name):
            continue
        if name in earlier_names:
            os.utime(file, (now, now))
        elif file.stat().st_mtime < now - EARLIER_FILES_DAYS * 86_400:
            file.unlink()

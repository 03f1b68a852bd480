"""Zips of strangers, read carefully: no paths that lead out, no bombs, nothing written to disk. Pure."""

import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from openvibe.chat.importing.account import Account
from openvibe.chat.importing.json_stream import iter_json_list
from openvibe.chat.importing.values import ImportFailed, RecordRefused, open_file, shorten

MAX_FILES = 200_000
MAX_FILE_BYTES = 4 * 1024 * 1024 * 1024
MAX_TOTAL_BYTES = 16 * 1024 * 1024 * 1024
MAX_COMPRESSION_RATIO = 200
_MIN_BYTES_FOR_RATIO = 4 * 1024 * 1024
_READ_SUFFIXES = (".json", ".jsonl", ".ndjson")
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    EOFError,
    NotImplementedError,
    RuntimeError,
    IndexError,
    OSError,
    UnicodeDecodeError,
    zlib.error,
)
"""What zipfile raises over a damaged file: besides its own errors those of names and places that cannot be."""


class ZipOfJson:
    """An opened zip, of which only files of JSON are read. Raises ImportFailed when it is unsafe."""

    def __init__(self, zip_file: zipfile.ZipFile, account: Account, marker: str = "") -> None:
        """A folder around everything, as some exports have it, is taken off: the one that `marker` stands in."""
        self._zip_file = zip_file
        self.account = account
        members = [member for member in zip_file.infolist() if not member.is_dir()]
        _check_sizes(members)
        for member in members:
            _check_path(member.filename)
        top = _common_folder([member.filename for member in members], marker) if marker else ""
        self._members = {member.filename.removeprefix(top): member for member in members}
        self.folders: defaultdict[str, list[str]] = defaultdict(list)
        """Names of the files directly in a folder, sorted."""
        for name in sorted(self._members):
            self.folders[name.rpartition("/")[0]].append(name)

    def names(self) -> list[str]:
        return sorted(self._members)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A file of it. Raises RecordRefused where there is none or it is damaged."""
        if name not in self._members:
            raise RecordRefused("there is none in this zip")
        try:
            with self._zip_file.open(self._members[name]) as source:
                yield cast(BinaryIO, source)
        except ZIP_ERRORS:
            raise RecordRefused("it is damaged") from None

    def iter_objects(self, name: str) -> Iterator[dict[str, object]]:
        """The objects of a file that holds a JSON list, not counted. Raises RecordRefused."""
        with self.open(name) as source:
            yield from (value for value in iter_json_list(source) if isinstance(value, dict))

    def read_objects(self, name: str, kind: str) -> Iterator[tuple[int, dict[str, object]]]:
        """The objects of a file that holds a JSON list, each with its number from 1, counted as read (without
        a `kind` by the caller); what is no object
        is left out. Raises RecordRefused where the file cannot be read, or not any more."""
        with self.open(name) as source:
            for number, value in enumerate(iter_json_list(source), start=1):
                if kind:
                    self.account.read(kind)
                if isinstance(value, dict):
                    yield number, value
                else:
                    place, reason = f"{shorten(name, 80)} record {number}", "it is not an object"
                    self.account.leave_out(place, reason, kind) if kind else self.account.refuse(
                        place, reason, "record"
                    )


@contextmanager
def open_zip(path: Path, account: Account, marker: str = "", *, what: str) -> Iterator[ZipOfJson]:
    """Raises ImportFailed when it is no zip, or unsafe. `what`: where to get a good one from."""
    with open_file(path) as source:
        try:
            with zipfile.ZipFile(source) as zip_file:
                yield ZipOfJson(zip_file, account, marker)
        except ZIP_ERRORS:
            raise ImportFailed(
                f"{path.name} is not a readable zip. Export it from {what} again and do not unpack it."
            ) from None


def _check_sizes(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_FILES:
        raise ImportFailed(f"This zip holds more than {MAX_FILES:,} files. Export fewer channels at once.")
    read = [member for member in members if member.filename.lower().endswith(_READ_SUFFIXES)]
    if sum(member.file_size for member in read) > MAX_TOTAL_BYTES:
        raise ImportFailed(
            f"The messages in this zip unpack to more than {MAX_TOTAL_BYTES // 2**30} GB; it was not opened. "
            "Export a shorter time at once."
        )
    for member in read:
        packed_hard = member.file_size > MAX_COMPRESSION_RATIO * max(member.compress_size, 1)
        if member.file_size > MAX_FILE_BYTES or (packed_hard and member.file_size > _MIN_BYTES_FOR_RATIO):
            raise ImportFailed(f"{member.filename!r} in this zip unpacks to far too much; it was not opened.")


def _check_path(name: str) -> None:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or "\\" in name or ".." in parts or (parts and parts[0].endswith(":")):
        raise ImportFailed(f"This zip holds a path that leads out of it ({name!r}); it was not opened.")


def _common_folder(names: list[str], marker: str) -> str:
    inside = [name for name in names if name.endswith(f"/{marker}") and name.count("/") == 1]
    return "" if marker in names or not inside else inside[0].removesuffix(marker)

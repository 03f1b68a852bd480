"""A stranger's zip, read carefully: no paths that lead out, no bombs, nothing written to disk."""

import json
import zipfile
import zlib
from pathlib import PurePosixPath

from openvibe.chat.importing.base import ImportFailed

MAX_FILES = 200_000
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TOTAL_BYTES = 2 * 1024 * 1024 * 1024
MAX_RATIO = 200
_RATIO_MATTERS_FROM = 4 * 1024 * 1024


class SlackArchive:
    """The JSON files of an opened export. Raises ImportFailed when the zip is unsafe."""

    def __init__(self, opened: zipfile.ZipFile) -> None:
        self._opened = opened
        members = [member for member in opened.infolist() if not member.is_dir()]
        _refuse_bombs(members)
        for member in members:
            _refuse_paths_out(member.filename)
        top = _common_folder([member.filename for member in members])
        self._members = {member.filename.removeprefix(top): member for member in members}
        self._folders: dict[str, list[str]] = {}
        for name in sorted(self._members):
            self._folders.setdefault(name.rpartition("/")[0], []).append(name)

    def files_in(self, folder: str) -> list[str]:
        """Names of the files directly in a folder, sorted."""
        return self._folders.get(folder, [])

    def objects(self, name: str, *, required: bool) -> list[dict[str, object]]:
        """Read a file that holds a JSON list; what in it is not an object is left out."""
        if name not in self._members:
            if required:
                raise ImportFailed(None, f"There is no {name} in this zip. Is it an export from Slack?")
            return []
        try:
            with self._opened.open(self._members[name]) as source:
                raw = source.read(MAX_FILE_BYTES + 1)
            value = json.loads(raw.decode("utf-8-sig"))
        except zlib.error:
            raise ImportFailed(None, f"{name} in this zip is damaged. Export it from Slack again.") from None
        except (ValueError, RecursionError):
            raise ImportFailed(None, f"{name} in this zip is not JSON. Export it from Slack again.") from None
        if not isinstance(value, list):
            raise ImportFailed(None, f"{name} in this zip does not hold a list. Is it an export from Slack?")
        return [each for each in value if isinstance(each, dict)]


def _refuse_bombs(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_FILES:
        raise ImportFailed(None, f"This zip holds more than {MAX_FILES:,} files. Export fewer channels at once.")
    if sum(member.file_size for member in members) > MAX_TOTAL_BYTES:
        raise ImportFailed(None, "This zip unpacks to more than 2 GB. Export a shorter time at once.")
    for member in members:
        packed_hard = member.file_size > MAX_RATIO * max(member.compress_size, 1)
        if member.file_size > MAX_FILE_BYTES or (packed_hard and member.file_size > _RATIO_MATTERS_FROM):
            raise ImportFailed(None, f"{member.filename!r} in this zip unpacks to far too much; it was not opened.")


def _refuse_paths_out(name: str) -> None:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or "\\" in name or ".." in parts or (parts and parts[0].endswith(":")):
        raise ImportFailed(None, f"This zip holds a path that leads out of it ({name!r}); it was not opened.")


def _common_folder(names: list[str]) -> str:
    """Some exports are zipped with their folder around them: "export/" when channels.json is in there."""
    inside = [name for name in names if name.endswith("/channels.json") and name.count("/") == 1]
    return "" if "channels.json" in names or not inside else inside[0].removesuffix("channels.json")

"""The wheel of this server's own client, made of `client/` as it lies here: a zip with a list of what is in it.

The same files make the same bytes, on every machine, so its digest says which client it is."""

import base64
import hashlib
import io
import re
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from openvibe.base.problems import Missing

EARLIEST_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the wheel: the earliest that a zip can say."""
WHEEL_NAME = re.compile(r"(\w{1,50})-([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})-py3-none-any\.whl")
WHEEL_LINES = (
    ("Wheel-Version", "1.0"),
    ("Generator", "openvibe"),
    ("Root-Is-Purelib", "true"),
    ("Tag", "py3-none-any"),
)


@dataclass(frozen=True)
class ClientWheel:
    """`digest`: SHA-256 of the content, in hex."""

    filename: str
    content: bytes
    digest: str


def read_client_wheel(version: str = "") -> ClientWheel:
    """The wheel, made anew where a file of the client has changed. Raises Missing where the server came without it.

    `version`: an earlier one that it is to be called by. A service names the version that it was made with, at each of
    its starts, and gets the client of today.
    """
    folder = Path(settings.BASE_DIR) / "client"
    paths = sorted(path for path in _package_folder(folder).rglob("*") if _is_shipped(path))
    project = folder / "pyproject.toml"
    if not paths or not project.is_file():
        raise Missing(
            "This server came without its client. Install openvibe-client from a checkout: pip install ./client"
        )
    states = [(path.relative_to(folder).as_posix(), path.stat()) for path in (project, folder / "README.md", *paths)]
    return _make_wheel(folder, tuple((name, state.st_mtime_ns, state.st_size) for name, state in states), version)


def find_client_wheel(filename: str) -> ClientWheel:
    """The wheel of this name: of this version, or of an earlier one. Raises Missing where there is none."""
    wheel = read_client_wheel()
    if filename == wheel.filename:
        return wheel
    own, named = (WHEEL_NAME.fullmatch(name) for name in (wheel.filename, filename))
    if own is None or named is None or own[1] != named[1] or _numbers(named[2]) > _numbers(own[2]):
        raise Missing(f"There is no such file here. This server's client is /client/{wheel.filename}")
    return read_client_wheel(named[2])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _package_folder(folder: Path) -> Path:
    return folder / "src" / "openvibe_client"


def _is_shipped(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


@lru_cache(maxsize=2)
def _make_wheel(folder: Path, states: tuple[tuple[str, int, int], ...], version: str) -> ClientWheel:
    """Kept in the process; `states` are the client's files by name, time and size."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = re.sub(r"[-_.]+", "_", project["name"]).lower()
    project["version"] = version or project["version"]
    stem = f"{name}-{project['version']}"
    sources = [folder / path for path, _, _ in states if path.startswith("src/")]
    files = {path.relative_to(folder / "src").as_posix(): path.read_bytes() for path in sources}
    info = f"{stem}.dist-info"
    files[f"{info}/METADATA"] = _metadata(project, (folder / "README.md").read_text(encoding="utf-8"))
    files[f"{info}/WHEEL"] = _headers(WHEEL_LINES)
    files[f"{info}/entry_points.txt"] = _entry_points(project.get("scripts", {}))
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    content = _zip(files)
    return ClientWheel(f"{stem}-py3-none-any.whl", content, hashlib.sha256(content).hexdigest())


def _metadata(project: Mapping[str, Any], readme: str) -> bytes:
    """The core metadata of a `pyproject.toml`, with the README as its description."""
    lines = [
        ("Metadata-Version", "2.4"),
        ("Name", project["name"]),
        ("Version", project["version"]),
        ("Summary", project["description"]),
        ("Requires-Python", project["requires-python"]),
        ("License-Expression", project["license"]),
        *(("Requires-Dist", requirement) for requirement in project.get("dependencies", ())),
    ]
    for extra, requirements in project.get("optional-dependencies", {}).items():
        lines.append(("Provides-Extra", extra))
        lines += [("Requires-Dist", _with_extra(requirement, extra)) for requirement in requirements]
    lines.append(("Description-Content-Type", "text/markdown"))
    return _headers(lines) + f"\n{readme}".encode()


def _with_extra(requirement: str, extra: str) -> str:
    head, _, marker = requirement.partition(";")
    condition = f"({marker.strip()}) and " if marker.strip() else ""
    return f"{head.strip()}; {condition}extra == '{extra}'"


def _headers(lines: Iterable[tuple[str, str]]) -> bytes:
    return "".join(f"{name}: {value}\n" for name, value in lines).encode()


def _entry_points(scripts: Mapping[str, str]) -> bytes:
    return ("[console_scripts]\n" + "".join(f"{name} = {target}\n" for name, target in scripts.items())).encode()


def _record(files: Mapping[str, bytes], own_name: str) -> bytes:
    """Every file with its hash and size; the record itself without."""
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{own_name},,\n"]).encode()


def _zip(files: Mapping[str, bytes]) -> bytes:
    """Stored, not compressed: what a compressor writes is another's choice with each of its versions."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, EARLIEST_TIME)
            info.external_attr = 0o100644 << 16
            info.create_system = 3  # the bytes are the same wherever they are made
            archive.writestr(info, content)
    return buffer.getvalue()

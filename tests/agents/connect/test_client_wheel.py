"""The wheel of the server's own client: whole, the same bytes each time, and one that pip takes."""

import base64
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client, override_settings

from agents.connect.client_wheel import ClientWheel, read_client_wheel


@pytest.fixture
def wheel() -> ClientWheel:
    return read_client_wheel()


def test_it_lists_every_file_with_its_hash(wheel: ClientWheel) -> None:
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        info = next(name.partition("/")[0] for name in names if name.endswith("/RECORD"))
        rows = [line.split(",") for line in archive.read(f"{info}/RECORD").decode().splitlines()]
        assert [name for name, _, _ in rows] == names
        for name, digest, size in rows[:-1]:
            content = archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(content)))
        assert rows[-1] == [f"{info}/RECORD", "", ""]
        metadata = archive.read(f"{info}/METADATA").decode()
        assert "openvibe = openvibe_client.cli:main" in archive.read(f"{info}/entry_points.txt").decode()
    assert metadata.startswith("Metadata-Version: 2.4\nName: openvibe-client\nVersion: ")
    shipped = {
        f"openvibe_client/{path.name}" for path in (settings.BASE_DIR / "client/src/openvibe_client").glob("*.*")
    }
    assert shipped <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_the_same_files_make_the_same_bytes(wheel: ClientWheel, tmp_path: Path) -> None:
    source = settings.BASE_DIR / "client"
    for path in (source / "pyproject.toml", source / "README.md", *(source / "src").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = tmp_path / "client" / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
            os.utime(copy, (1, 1))
    with override_settings(BASE_DIR=tmp_path):
        assert read_client_wheel() == wheel
        (tmp_path / "client/README.md").write_text("Another client.")
        assert read_client_wheel().digest != wheel.digest


@pytest.mark.parametrize("version", ["", "0.0.9"])
def test_pip_installs_it_without_a_network(version: str, tmp_path: Path) -> None:
    wheel = read_client_wheel(version)
    file = tmp_path / wheel.filename
    file.write_bytes(wheel.content)
    target = tmp_path / "site"
    command = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--quiet", "--target", str(target), str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    program = "from openvibe_client import cli; print(cli.__file__)"
    shown = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(target)}, check=True, capture_output=True, text=True
    )
    assert shown.stdout.startswith(str(target))


def test_everybody_gets_it_and_who_has_it_already_gets_nothing(client: Client, wheel: ClientWheel) -> None:
    address = f"/client/{wheel.filename}"
    assert client.get("/client.whl")["Location"] == address
    answer = client.get(address)
    assert answer.content == wheel.content
    assert (answer["ETag"], "no-cache" in answer["Cache-Control"]) == (f'"{wheel.digest}"', True)
    again = client.get(address, headers={"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(address, headers={"If-None-Match": '"another"'}).status_code == 200
    assert client.head(address).status_code == 200
    assert client.post(address).status_code == 405


@pytest.mark.parametrize(
    "name",
    [
        "openvibe_client-9.0.0-py3-none-any.whl",
        "other-0.0.1-py3-none-any.whl",
        "openvibe_client-0-py3-none-any.whl",
        "openvibe_client-0.0.1.zip",
        "x",
        "../pyproject.toml",
        "%00",
        "x" * 10_000,
    ],
)
def test_another_name_says_which_is_here(client: Client, wheel: ClientWheel, name: str) -> None:
    answer = client.get(f"/client/{name}")
    assert answer.status_code == 404
    assert wheel.filename in answer.content.decode() or "/" in name


def test_an_earlier_name_gives_the_client_of_today(client: Client, wheel: ClientWheel) -> None:
    """A service names the version that it was made with, which pip and uv hold against what is in the wheel."""
    name = "openvibe_client-0.0.9-py3-none-any.whl"
    answer = client.get(f"/client/{name}")
    assert (answer.status_code, name in answer["Content-Disposition"]) == (200, True)
    assert answer["ETag"] != f'"{wheel.digest}"'
    earlier, today = (zipfile.ZipFile(io.BytesIO(each)) for each in (answer.content, wheel.content))
    assert b"\nVersion: 0.0.9\n" in earlier.read("openvibe_client-0.0.9.dist-info/METADATA")
    for path in today.namelist():
        if path.startswith("openvibe_client/"):
            assert earlier.read(path) == today.read(path)


def test_a_server_without_its_client_says_so(client: Client, tmp_path: Path) -> None:
    with override_settings(BASE_DIR=tmp_path):
        for address in ("/client.whl", "/client/openvibe_client-0.1.0-py3-none-any.whl"):
            answer = client.get(address)
            assert (answer.status_code, b"without its client" in answer.content) == (404, True)

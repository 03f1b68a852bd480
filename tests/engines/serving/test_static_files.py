"""What a page that was open during an update asks for is still there."""

import os
import time
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from openvibe.engines.serving.static_files import EARLIER_FILES_DAYS, collect_static_files


@pytest.fixture
def root(settings: Settings, tmp_path: Path) -> Path:
    """An installation whose static files are `page.js` and `gone.css`, collected once."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "page.js").write_text("// the first version\n" * 100)
    (source / "gone.css").write_text("body {}\n")
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATICFILES_DIRS = [source]
    settings.STATIC_ROOT = tmp_path / "static"
    storage = {"BACKEND": "openvibe.engines.serving.static_files.StaticStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": storage}
    collect_static_files()
    return tmp_path / "static"


def update(root: Path, text: str) -> None:
    """The next version: its own `page.js`, as old as an archive has it, and no `gone.css`."""
    source = root.parent / "source"
    (source / "page.js").write_text(text * 100)
    os.utime(source / "page.js", (1, 1))
    (source / "gone.css").unlink(missing_ok=True)
    collect_static_files()


def make_older(file: Path, days: float) -> None:
    at = time.time() - days * 86_400
    os.utime(file, (at, at))


def test_files_of_the_version_before_stay_for_a_while(root: Path) -> None:
    first = [*root.glob("page.*.js"), *root.glob("gone.*.css"), *root.glob("page.*.js.gz")]
    assert len(first) == 3
    for file in first:
        make_older(file, days=365)  # it was installed a year ago

    update(root, "// the second version\n")
    assert all(file.exists() for file in first), "a page of the first version may be open"
    assert (root / "page.js").read_text().startswith("// the second version")
    assert not (root / "gone.css").exists()

    for file in first:
        make_older(file, days=EARLIER_FILES_DAYS + 1)
    update(root, "// the third version\n")
    assert not any(file.exists() for file in first)
    texts = {file.read_text().splitlines()[0] for file in root.glob("page.*.js")}
    assert texts == {"// the second version", "// the third version"}


def test_while_nothing_changes_nothing_is_collected(root: Path) -> None:
    (root / "page.js").unlink()
    collect_static_files()
    assert not (root / "page.js").exists()
    (root / "staticfiles.json").write_text("damaged")
    update(root, "// the second version\n")
    assert (root / "page.js").exists()

"""Each of these tests has an installation of its own, in a folder of its own."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operations.processes import nothing_left_of


@pytest.fixture
def var() -> Iterator[Path]:
    """A fresh `var` folder, short enough to hold a socket and open to the user PostgreSQL runs as."""
    folder = Path(tempfile.mkdtemp(prefix="openvibe-")).resolve()
    folder.chmod(0o755)
    try:
        with nothing_left_of(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

"""Each of these tests has an installation of its own, in a folder of its own."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.operations.cluster import missing_programs
from tests.operations.installation_template import furnish
from tests.operations.processes import nothing_left_of

if missing_programs() and settings.get_current_profile_name() != "nightly":
    collect_ignore = ["test_scale_out.py"]  # `make nightly` says what to install


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


@pytest.fixture
def furnished(var: Path, migrated_dump: Path) -> None:
    """The `var` folder's first start is over."""
    furnish(var, migrated_dump)

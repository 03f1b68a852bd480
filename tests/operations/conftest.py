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

NEEDS = {
    "test_scale_out.py": {"redis-server", "rabbitmq-server", "epmd", "nginx"},
    "test_proxy_example.py": {"nginx"},
    "test_two_databases.py": {"nginx"},
}

if settings.get_current_profile_name() != "nightly":  # `make nightly` says what to install
    collect_ignore = [file for file, programs in NEEDS.items() if programs & set(missing_programs())]


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

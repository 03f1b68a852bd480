"""A file is written whole or not at all."""

import stat
from pathlib import Path

import pytest

from openvibe.engines.serving.atomic_write import atomic_write


def test_what_is_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("yesterday's")
    with pytest.raises(ZeroDivisionError), atomic_write(file) as stream:
        stream.writelines(b"half of today's" for number in (1, 0) if 1 / number)
    assert (file.read_text(), list(tmp_path.iterdir())) == ("yesterday's", [file])
    with atomic_write(file) as stream:
        stream.write(b"today's")
    assert (file.read_text(), list(tmp_path.iterdir())) == ("today's", [file])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_stays_and_the_file_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk/today")
    with atomic_write(tmp_path / "link") as stream:
        stream.write(b"today's")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk/today").read_text() == "today's"


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "device", tmp_path / "loop"):
        with pytest.raises(OSError, match="Not a regular file"), atomic_write(path):
            pytest.fail("it began")
    assert Path("/dev/null").is_char_device()

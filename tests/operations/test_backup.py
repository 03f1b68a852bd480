"""`manage.py backup`: what it keeps, and what it refuses to write over."""

import tarfile
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from openvibe.workspaces.models import Member

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def var(tmp_path: Path, settings: Settings) -> Path:
    settings.VAR, settings.HOME = tmp_path / "var", tmp_path / "var/home"
    settings.VAR.mkdir()
    return tmp_path / "var"


def backup(file: Path) -> str:
    out = StringIO()
    call_command("backup", str(file), stdout=out)
    return out.getvalue()


def names_in(file: Path) -> list[str]:
    with tarfile.open(file) as tar:
        return tar.getnames()


def test_files_of_agents_on_another_disk_are_kept(ana: Member, var: Path, tmp_path: Path) -> None:
    """`home` is a link to where there is room."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/SOUL.md").write_text("Calm.")
    (var / "home").symlink_to(tmp_path / "disk")
    backup(tmp_path / "all.tar")
    assert "home/SOUL.md" in names_in(tmp_path / "all.tar")


def test_what_is_no_file_is_not_replaced(ana: Member, var: Path, tmp_path: Path) -> None:
    (tmp_path / "device").symlink_to("/dev/null")
    for path in (tmp_path, tmp_path / "device"):
        with pytest.raises(CommandError, match="is no file"):
            backup(path)
    assert (tmp_path / "device").is_symlink()


def test_a_backup_does_not_hold_itself(ana: Member, var: Path) -> None:
    (var / "home").mkdir()
    with pytest.raises(CommandError, match="among the files that are backed up"):
        backup(var / "home/all.tar")
    assert not list((var / "home").iterdir())


def test_nothing_replaces_no_backup(var: Path, tmp_path: Path) -> None:
    """As where OPENVIBE_VAR is forgotten or mistyped, and the database there is new."""
    file = tmp_path / "all.tar"
    file.write_text("yesterday's")
    with pytest.raises(CommandError, match=f"no accounts.*OPENVIBE_VAR is {var}"):
        backup(file)
    assert file.read_text() == "yesterday's"

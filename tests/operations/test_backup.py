"""`manage.py backup` and `restore`: what they keep, what they refuse to write over, and what an interruption leaves."""

import fcntl
import gzip
import io
import os
import resource
import tarfile
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django.fixtures import Settings

from openvibe.runner import restore_database
from openvibe.runner.backup import _unfinished_mark, unfinished_restore
from openvibe.runner.dump_reader import Statement
from openvibe.workspaces.models import Member, User

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


def test_a_file_that_is_deleted_meanwhile_stops_no_backup(ana: Member, settings: Settings, tmp_path: Path) -> None:
    """The list of a process's open files names the one that lists them, which is closed before its turn."""
    settings.HOME = Path("/proc/self/fd")
    backup(tmp_path / "all.tar")
    assert {"database.dump", "home", "secret_key"} <= {*names_in(tmp_path / "all.tar")}


@pytest.mark.parametrize("length", [3, 30_000])
def test_a_file_that_shrinks_or_grows_meanwhile_is_kept_as_it_is_read(
    ana: Member, var: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    file, measure = var / "home/log.txt", tarfile.TarFile.gettarinfo
    file.parent.mkdir()
    file.write_bytes(b"a" * 20_000)

    def measure_and_resize(tar: tarfile.TarFile, *arguments: Any, **options: Any) -> tarfile.TarInfo:
        member = measure(tar, *arguments, **options)
        if member.name == "home/log.txt":
            os.truncate(file, length)
        return member

    monkeypatch.setattr(tarfile.TarFile, "gettarinfo", measure_and_resize)
    backup(tmp_path / "all.tar")
    with tarfile.open(tmp_path / "all.tar") as tar:
        packed = tar.extractfile("home/log.txt")
        assert packed
        assert packed.read() == file.read_bytes()
        assert "secret_key" in tar.getnames()


def test_no_file_of_a_backup_leans_on_another(kept: Path) -> None:
    """The first of two names of one file the first may be gone before it is read."""
    with tarfile.open(kept) as tar:
        assert all(member.isreg() or member.isdir() for member in tar)


def test_a_file_of_two_names_is_kept_under_both(kept: Path, var: Path) -> None:
    restore(kept)
    assert (var / "home/agents/copy.md").read_text() == "Calm."


def test_what_is_no_file_is_not_replaced(ana: Member, var: Path, tmp_path: Path) -> None:
    (tmp_path / "device").symlink_to("/dev/null")
    reading, writing = os.pipe()
    for path in (tmp_path, tmp_path / "device", Path(f"/dev/fd/{writing}")):  # where `/dev/stdout | …` leads
        with pytest.raises(CommandError, match="is no file"):
            backup(path)
    os.close(reading)
    os.close(writing)
    assert (tmp_path / "device").is_symlink()


def test_a_link_stays_and_the_file_it_leads_to_is_written(ana: Member, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "all.tar").symlink_to("disk/today.tar")
    backup(tmp_path / "all.tar")
    assert (tmp_path / "all.tar").is_symlink()
    assert "database.dump" in names_in(tmp_path / "disk/today.tar")
    (tmp_path / "loop.tar").symlink_to("loop.tar")
    with pytest.raises(CommandError, match="is no file"):
        backup(tmp_path / "loop.tar")


def test_a_folder_that_is_not_there_is_named_alone(ana: Member, tmp_path: Path) -> None:
    file = tmp_path / "gone/all.tar"
    with pytest.raises(CommandError, match=f"^{file} cannot be written: No such file or directory.$"):
        backup(file)


def test_a_backup_does_not_hold_itself(ana: Member, var: Path) -> None:
    (var / "home").mkdir()
    with pytest.raises(CommandError, match="among the files that are backed up"):
        backup(var / "home/all.tar")
    assert not list((var / "home").iterdir())


def test_what_a_killed_backup_left_is_removed_and_one_under_way_is_not(ana: Member, tmp_path: Path) -> None:
    left, busy = tmp_path / ".openvibe-backup-left", tmp_path / ".openvibe-backup-busy"
    for folder in (left, busy):
        folder.mkdir()
        (folder / "database.dump").write_text("all that anybody wrote")
    descriptor = os.open(busy, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    backup(tmp_path / "all.tar")
    os.close(descriptor)
    assert {path.name for path in tmp_path.glob(".*")} == {busy.name}
    assert (busy / "database.dump").exists()


def test_nothing_replaces_no_backup(var: Path, tmp_path: Path) -> None:
    """The place is one where OPENVIBE_VAR is forgotten or mistyped, and the database there is new."""
    file = tmp_path / "all.tar"
    file.write_text("yesterday's")
    with pytest.raises(CommandError, match=f"no accounts.*OPENVIBE_VAR is {var}"):
        backup(file)
    assert file.read_text() == "yesterday's"


@pytest.fixture
def kept(transactional_db: None, ana: Member, var: Path, tmp_path: Path) -> Iterator[Path]:
    """A backup with two files of agents, one of which has two names. Meanwhile Django's database is another, new one,
    and there are no files."""
    for name in ("agents/SOUL.md", "skills/prune.md"):
        (var / "home" / name).parent.mkdir(parents=True)
        (var / "home" / name).write_text("Calm.")
    (var / "home/agents/copy.md").hardlink_to(var / "home/agents/SOUL.md")
    backup(tmp_path / "all.tar")
    (var / "home").rename(var / "home_before")
    usual, name = connection.settings_dict["NAME"], f"restored_{os.getpid()}"
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    connection.settings_dict["NAME"] = name
    try:
        yield tmp_path / "all.tar"
    finally:
        connection.close()
        connection.settings_dict["NAME"] = usual
        with connection._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name}")


def restore(file: Path, *, replace: bool = False) -> None:
    call_command("restore", str(file), replace=replace, stdout=StringIO())


def test_a_second_name_of_nothing_is_damage(kept: Path, var: Path) -> None:
    member = tarfile.TarInfo("home/copy")
    member.type, member.linkname = tarfile.LNKTYPE, "home/nothing"
    with tarfile.open(kept, "a") as tar:
        tar.addfile(member)
    with pytest.raises(CommandError, match=r"damaged one \(.*'home/nothing' not found.*\)\. Nothing was changed"):
        restore(kept)


def test_files_are_as_the_backup_has_them(kept: Path, var: Path) -> None:
    """None that came later stays; archives, which no backup holds, and links to another disk do."""
    newer, other_kind = var / "home/agents/later/SOUL.md", var / "home/skills"
    archive, link = var / "home/exports/1.zip", var / "home/big"
    for path in (newer, archive):
        path.parent.mkdir(parents=True)
        path.write_text("Loud.")
    other_kind.write_text("a file where the backup has a folder")
    link.symlink_to(var)
    with pytest.raises(CommandError, match=f"The folder {var / 'home'} holds something"):
        restore(kept)
    assert newer.read_text() == "Loud."
    restore(kept, replace=True)
    files = {str(path.relative_to(var / "home")) for path in (var / "home").rglob("*") if not path.is_dir()}
    assert files == {"agents/SOUL.md", "agents/copy.md", "skills/prune.md", "exports/1.zip"}
    assert (not newer.parent.exists(), link.is_symlink()) == (True, True)


@pytest.mark.parametrize(
    ("kind", "name", "target"),
    [
        (tarfile.REGTYPE, "home/../../elsewhere", ""),
        (tarfile.LNKTYPE, "home/copy", "/etc/hostname"),
        (tarfile.LNKTYPE, "home/copy", "home/../../elsewhere"),
        (tarfile.SYMTYPE, "home/link", "/etc"),
        (tarfile.CHRTYPE, "home/device", ""),
    ],
)
def test_what_leads_elsewhere_is_no_backup(kept: Path, var: Path, kind: bytes, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    with tarfile.open(kept, "a") as tar:
        tar.addfile(member)
    with pytest.raises(CommandError, match=rf"\({name} leads elsewhere\)\. Nothing was changed"):
        restore(kept)
    assert (connection.introspection.table_names(), (var / "home").exists()) == ([], False)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE])
@pytest.mark.parametrize(("mode", "restored"), [(0o4777, 0o755), (0o750, 0o750), (0o700, 0o700)])
def test_what_comes_back_is_its_owners_and_nobody_elses_to_change(
    kept: Path, var: Path, kind: bytes, mode: int, restored: int
) -> None:
    member = tarfile.TarInfo("home/skills/tools")
    member.type, member.mode, member.uid, member.gid = kind, mode, 12_345, 12_345
    with tarfile.open(kept, "a") as tar:
        tar.addfile(member)
    restore(kept)
    stat = (var / "home/skills/tools").stat()
    assert (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid) == (restored, os.geteuid(), os.getegid())


def test_an_interrupted_restore_is_brought_to_its_end_before_anything_serves(kept: Path, var: Path) -> None:
    """The disk is not there, as it may happen: the database is back, the files are not."""
    (var / "home").mkdir()
    (var / "home/agents").symlink_to(var / "no_disk")
    with pytest.raises(CommandError, match=r"cannot be restored.*was interrupted"):
        restore(kept)
    assert User.objects.exists()
    for part in (None, "web"):
        with pytest.raises(CommandError, match=f"restore of {kept} was interrupted.*--replace"):
            call_command("serve", only=part)
    report = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", only=["restore"], stdout=report, no_color=True)
    assert report.getvalue().startswith(f"PROBLEM restore: The restore of {kept} was interrupted")
    (var / "no_disk").mkdir()
    restore(kept, replace=True)
    assert (var / "no_disk/SOUL.md").read_text() == "Calm."
    assert not (var / "restore.unfinished").exists()


def test_a_full_disk_leaves_no_mark_of_a_restore_that_did_not_begin(var: Path, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match="File too large"), _unfinished_mark(tmp_path / "all.tar", tmp_path):
            pytest.fail("it began")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert unfinished_restore() == ""


def test_the_command_that_ends_a_restore_can_be_copied(var: Path) -> None:
    (var / "restore.unfinished").write_text("/mnt/our backups/all.tar")
    assert "`manage.py restore '/mnt/our backups/all.tar' --replace`" in unfinished_restore()


def test_what_a_killed_restore_left_is_removed(kept: Path, var: Path) -> None:
    (var / ".restore-abcdefgh").mkdir()
    (var / ".restore-abcdefgh/database.dump").write_text("all that anybody wrote")
    restore(kept)
    assert not list(var.glob(".restore-*"))


@pytest.mark.parametrize("key", [b"", b"\xff\xfe"])
def test_a_damaged_key_is_found_before_anything_is_changed(kept: Path, var: Path, key: bytes) -> None:
    with tarfile.open(kept, "a") as tar:  # of two of a name the later one counts
        member = tarfile.TarInfo("secret_key")
        member.size = len(key)
        tar.addfile(member, io.BytesIO(key))
    with pytest.raises(CommandError, match=r"secret key in the backup is damaged\. Nothing was changed"):
        restore(kept)
    assert (connection.introspection.table_names(), list(var.glob("*restore*"))) == ([], [])


FOREIGN = {
    "a function that starts programs": (
        "CREATE FUNCTION tampered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " COPY (SELECT 1) TO PROGRAM 'id'; RETURN NULL; END $$",
        "DROP FUNCTION tampered()",
    ),
    "a condition that reads files": (
        "CREATE TABLE tampered (x text DEFAULT pg_read_file('PG_VERSION'))",
        "DROP TABLE tampered",
    ),
    "a view": ("CREATE VIEW tampered AS SELECT 1", "DROP VIEW tampered"),
}


@pytest.fixture
def tampered(
    request: pytest.FixtureRequest, transactional_db: None, ana: Member, var: Path, tmp_path: Path
) -> Iterator[Path]:
    """A backup of a database that holds what somebody else put there."""
    create, drop = FOREIGN[request.param]
    with connection.cursor() as cursor:
        cursor.execute(create)
    try:
        backup(tmp_path / "all.tar")
        yield tmp_path / "all.tar"
    finally:
        with connection.cursor() as cursor:
            cursor.execute(drop)


@pytest.mark.parametrize("tampered", FOREIGN, indirect=True)
def test_a_backup_that_was_tampered_with_changes_nothing(tampered: Path) -> None:
    with pytest.raises(CommandError, match=r"tampered with: .*Nothing was changed\.$"):
        restore(tampered, replace=True)
    assert User.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'openvibe_restore%'")
        assert cursor.fetchone() == (0,)


def test_what_a_restore_carries_out_has_no_rights_beyond_its_tables(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of statements might let one through."""
    statement = "COPY (SELECT 1) TO PROGRAM 'touch /tmp/tampered'"
    monkeypatch.setattr(restore_database, "read_statements", lambda _: iter([Statement(statement)]))
    with pytest.raises(CommandError, match=r"permission denied.*Nothing was changed"):
        restore(kept)
    both = "SELECT 1; RESET ROLE"
    monkeypatch.setattr(restore_database, "read_statements", lambda _: iter([Statement(both)]))
    with pytest.raises(CommandError, match=r"multiple commands.*Nothing was changed"):
        restore(kept)
    monkeypatch.setattr(restore_database, "read_statements", lambda _: iter([Statement("CREATE ROLE eve")]))
    with pytest.raises(CommandError, match=r"permission denied.*Nothing was changed"):
        restore(kept)


def test_what_was_restored_belongs_to_who_restored_it(kept: Path) -> None:
    restore(kept)
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT tableowner = current_user FROM pg_tables WHERE schemaname = 'public'")
        assert cursor.fetchall() == [(True,)]
        cursor.execute("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'openvibe_restore%'")
        assert cursor.fetchone() == (0,)


def test_a_backup_unpacks_to_no_more_than_it_may(kept: Path) -> None:
    with pytest.raises(CommandError, match=r"larger than .* GiB\. --max-gib allows more\. Nothing was changed"):
        call_command("restore", str(kept), max_gib=0.00001, stdout=StringIO())
    assert connection.introspection.table_names() == []


def test_a_backup_that_was_packed_again_is_none(kept: Path, tmp_path: Path) -> None:
    """A few kilobytes of gzip may be a full disk."""
    packed = tmp_path / "all.tar.gz"
    packed.write_bytes(gzip.compress(kept.read_bytes()))
    with pytest.raises(CommandError, match=r"no backup.*Nothing was changed"):
        restore(packed)

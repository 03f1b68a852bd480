"""Where the embedded server keeps its data and its socket, and how a new data folder is made."""

import hashlib
import os
import re
import shutil
from pathlib import Path

from openvibe.base.postgres.programs import MAJOR, DatabaseUnavailable, SystemUser, run_program

USER = "openvibe"
PORT = 5432  # no port is opened; it is part of the socket's name
SOCKET_NAME = f".s.PGSQL.{PORT}"
LONGEST_SOCKET_PATH = 100  # bytes; systems allow 103 (macOS) and 107 (Linux)


def socket_folder(home: Path) -> Path:
    """Beside the data, or in /tmp when that path is too long for a Unix socket or needs quoting somewhere."""
    folder = home / "socket"
    path = str(folder / SOCKET_NAME)
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH and re.fullmatch(r"[\w./+-]+", path):
        return folder
    return Path("/tmp") / f"openvibe-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"


def recorded_socket_folder(home: Path) -> Path:
    """Where the running server put its socket when it started."""
    lines = (home / "data" / "postmaster.pid").read_text().splitlines()
    return Path(lines[4]) if len(lines) > 4 and lines[4] else socket_folder(home)


def make_socket_folder(folder: Path, user: SystemUser) -> None:
    """Makes the folder, for the server's user alone, without what a killed server left in it.

    Only while no server runs. Raises DatabaseUnavailable when somebody else owns the folder.
    """
    owner = os.geteuid() if user.uid is None else user.uid
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid == os.geteuid() and user.uid is not None and user.gid is not None:
        os.chown(folder, user.uid, user.gid)
    if folder.is_symlink() or folder.lstat().st_uid != owner:
        raise DatabaseUnavailable(f"{folder} belongs to somebody else. Remove it, or move OpenVibe to a shorter path.")
    for leftover in folder.glob(f"{SOCKET_NAME}*"):
        leftover.unlink(missing_ok=True)


def make_data(home: Path, user: SystemUser) -> None:
    """A new data folder, unless there is one. Made aside and moved into place, so that half of one never stays."""
    data, fresh, log = home / "data", home / "data.new", home / "server.log"
    if (data / "PG_VERSION").exists():
        made_by = (data / "PG_VERSION").read_text().strip()
        if made_by != str(MAJOR):
            raise DatabaseUnavailable(
                f"{data} was made by PostgreSQL {made_by}; this is PostgreSQL {MAJOR}. Export with the older OpenVibe, "
                "move the folder away, and import."
            )
        return
    shutil.rmtree(fresh, ignore_errors=True)
    locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    code = run_program(user, log, "initdb", "-D", str(fresh), "-U", USER, "--auth=trust", *locale)
    if code != 0:
        raise DatabaseUnavailable(f"PostgreSQL could not make its data folder. {last_words(log)}")
    fresh.rename(data)


def last_words(log: Path) -> str:
    """A sentence that names the log and how it ends."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"Its log is {log} and ends: {' / '.join(lines[-3:]) or 'nothing'}"

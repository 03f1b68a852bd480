"""The PostgreSQL server that comes with OpenVibe: the first process that needs it starts it, the last one stops it.

Every user of the server holds a shared lock on `users.lock`, which the system drops when the process ends, however it
ends. Who leaves and then gets the lock for itself alone was the last. `start.lock` lets one process at a time decide.
"""

import atexit
import fcntl
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from openvibe.base.postgres.folders import (
    PORT,
    SOCKET_NAME,
    USER,
    last_words,
    make_data,
    make_socket_folder,
    recorded_socket_folder,
    socket_folder,
)
from openvibe.base.postgres.postmaster import find_postmaster, is_alive, stop_postmaster
from openvibe.base.postgres.programs import DatabaseUnavailable, SystemUser, let_in, server_user, start_program

__all__ = ["DatabaseUnavailable", "Server", "ensure_server", "leave_server"]

DATABASE = "openvibe"
START_SECONDS = 60.0
LARGEST_LOG = 10 * 1024 * 1024  # bytes; a larger log is set aside at the next start
OPTIONS = {
    "listen_addresses": "",  # the Unix socket alone
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


@dataclass(frozen=True)
class Server:
    """How to reach a running embedded server: the folder of its Unix socket, and its log file."""

    socket: Path
    log: Path
    user: str = USER
    port: int = PORT

    def conninfo(self, database: str = DATABASE) -> str:
        """A libpq connection string for `database`."""
        return make_conninfo(host=str(self.socket), port=self.port, user=self.user, dbname=database)


@dataclass(frozen=True)
class _Membership:
    server: Server
    lock: int
    started: subprocess.Popen[bytes] | None


_joined: dict[Path, _Membership] = {}
_guard = threading.RLock()


def ensure_server(var: Path, *, look_again: bool = False) -> Server:
    """Starts or joins the server whose data lies in `var/postgres`; the database `openvibe` exists afterwards.

    Cheap after the first call of a process; `look_again` checks that the server still runs and starts it again when
    it does not. The process leaves at its exit. Raises DatabaseUnavailable.
    """
    home = var.resolve() / "postgres"
    with _guard:
        member = _joined.get(home)
        if member and not look_again:
            return member.server
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(home / "start.lock"):
                server, started = _running_or_started(home)
                lock = member.lock if member else _opened(home / "users.lock")
                fcntl.flock(lock, fcntl.LOCK_SH)
                _create_database(server)
        except OSError as error:
            raise DatabaseUnavailable(
                f"The database cannot be kept in {home}: {error.strerror or error}. Make that folder writable for "
                "the user you are, free some space, or set OPENVIBE_VAR to another folder."
            ) from error
        if not member:
            atexit.register(leave_server, var)
        _joined[home] = _Membership(server, lock, started or (member.started if member else None))
        return server


def leave_server(var: Path) -> None:
    """Gives up the use of the server and stops it when nobody else uses it. A forked child's parent still does."""
    home = var.resolve() / "postgres"
    with _guard:
        member = _joined.pop(home, None)
        if member is None:
            return
        try:
            with _locked(home / "start.lock"):
                os.close(member.lock)
                stop_if_unused(home)
        except OSError:  # the folder is gone, and the server with it
            return
        if member.started:
            with suppress(subprocess.TimeoutExpired):
                member.started.wait(0.2)


def stop_if_unused(home: Path) -> None:
    """Stops the server of `home` if no process holds its users' lock. The caller holds the start lock."""
    lock = _opened(home / "users.lock")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        stop_postmaster(home)
    finally:
        os.close(lock)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _running_or_started(home: Path) -> tuple[Server, subprocess.Popen[bytes] | None]:
    user = server_user(home)
    let_in(user, home)
    make_data(home, user)
    postmaster = find_postmaster(home)
    if postmaster is None:
        return _start(home, user)
    for folder in (
        socket_folder(home),
        recorded_socket_folder(home),
    ):  # they differ when `var` was moved meanwhile
        server = Server(folder, home / "server.log")
        if (folder / SOCKET_NAME).exists() and _answers(server, postmaster, time.monotonic() + START_SECONDS):
            return server, None
    if find_postmaster(home) is None:
        return _start(home, user)
    raise DatabaseUnavailable(
        f"PostgreSQL runs (process {postmaster.pid}) but does not answer. Its log is {home / 'server.log'}. "
        f"`kill -INT {postmaster.pid}` stops it; then start again."
    )


def _start(home: Path, user: SystemUser) -> tuple[Server, subprocess.Popen[bytes]]:
    server = Server(socket_folder(home), home / "server.log")
    make_socket_folder(server.socket, user)
    if server.log.exists() and server.log.stat().st_size > LARGEST_LOG:
        server.log.replace(server.log.with_suffix(".old.log"))
    options = [f"--{name}={value}" for name, value in OPTIONS.items()]
    deadline = time.monotonic() + START_SECONDS
    while True:
        said_before = server.log.stat().st_size if server.log.exists() else 0
        process = start_program(
            user, server.log, "postgres", "-D", str(home / "data"), "-k", str(server.socket), *options
        )
        if _answers(server, psutil.Process(process.pid), deadline):
            return server, process
        process.poll()
        said = server.log.read_text(errors="replace")[said_before:]
        # Backends of a killed server hold its memory for a moment longer.
        if "still in use" not in said or time.monotonic() > deadline:
            raise DatabaseUnavailable(f"PostgreSQL did not start. {last_words(server.log)}")
        time.sleep(0.2)


def _answers(server: Server, postmaster: psutil.Process, deadline: float) -> bool:
    """Waits until the server takes connections; False when its process ended or the deadline (monotonic) passed."""
    while time.monotonic() < deadline:
        try:
            psycopg.connect(server.conninfo("postgres"), connect_timeout=5).close()
            return True
        except psycopg.OperationalError:
            if not is_alive(postmaster):
                return False
            time.sleep(0.05)
    return False


def _create_database(server: Server) -> None:
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            connection.execute(f'CREATE DATABASE "{DATABASE}"')

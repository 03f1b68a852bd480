"""What a command has done, where somebody can read it."""

import os
from signal import SIGPIPE

from django.core.management.base import BaseCommand, CommandError


def write_report(command: BaseCommand, report: str, *, problem: str = "") -> None:
    """Prints what the command has done, and raises CommandError with `problem` where there is one.

    Where standard output does not take it, as on a full disk or in another encoding, the error holds both, and goes to
    standard error.
    """
    try:
        command.stdout.write(report)
        command.stdout.flush()
    except (OSError, UnicodeEncodeError) as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), command.stdout.fileno())  # what is left would be written again later
        raise CommandError(
            f"This was done, and standard output does not take it ({error.args[-1]}):\n{report} {problem}".rstrip(),
            returncode=128 + SIGPIPE if isinstance(error, BrokenPipeError) else 1,
        ) from None
    if problem:
        raise CommandError(problem)

"""`manage.py backup FILE`: everything of the installation in one file, while people work."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from openvibe.base.command_report import write_report
from openvibe.runner.backup import WORK_PREFIX, write_backup


class Command(BaseCommand):
    help = "Writes database, agents' files and the secret key kept in var/ to one file that only you can read."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *_arguments: Any, file: Path, **_options: Any) -> None:
        try:
            size = write_backup(file)
        except OSError as error:
            is_here = error.filename is None or WORK_PREFIX in str(error.filename)
            culprit = "" if is_here else f" ({error.filename})"
            raise CommandError(f"{file} cannot be written: {error.strerror or error}{culprit}.") from None
        write_report(
            self, f"{file}: {size / 1024**2:,.1f} MB. Keep it where only you can read it: it holds everything."
        )

"""`manage.py restore FILE`: a backup in the place of an empty database, or of everything there is."""

from argparse import ArgumentParser
from pathlib import Path
from signal import SIGINT
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from openvibe.base.command_report import write_report
from openvibe.runner.backup import restore_backup, unfinished_restore
from openvibe.runner.bootstrap import prepare_database
from openvibe.runner.management.commands.serve import serve_lock


class Command(BaseCommand):
    help = "Brings a backup back, of this version or an earlier one. Stop OpenVibe first."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--replace", action="store_true", help="though the database holds something, which goes")

        parser.add_argument(
            "--max-gib", type=float, default=0, help="how large its database may be once unpacked: 50 times the file"
        )

    def handle(self, *_arguments: Any, file: Path, replace: bool, max_gib: float, **_options: Any) -> None:
        state = "Nothing was changed."
        try:
            with serve_lock(settings.VAR):
                restore_backup(file, replace=replace, max_bytes=int(max_gib * 1024**3))
                state = "Everything is back; `manage.py migrate` brings it up to date."
                prepare_database()
        except OSError as error:
            culprit = "" if error.filename in (None, str(file)) else f" ({error.filename})"
            state = unfinished_restore() or state
            raise CommandError(f"{file} cannot be restored: {error.strerror or error}{culprit}. {state}") from None
        except KeyboardInterrupt as interruption:  # Ctrl-C, or a signal, which manage.py takes for one
            code = 128 + next(iter(interruption.args), SIGINT)
            raise CommandError(f"Interrupted. {unfinished_restore() or state}", returncode=code) from None
        write_report(self, "Everything is back as the backup has it. Start OpenVibe again.")

"""Prepares database and static files before serving; does nothing again while nothing has changed."""

import hashlib
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from openvibe.base.queue import install_queue
from openvibe.runner.migration_history import adopt_migrations


def count_unapplied_migrations() -> int:
    """How many migrations the database has not seen yet."""
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def prepare_database() -> None:
    """Tables and queue as this version expects them, also where the version before made them.

    Raises django.db.Error, and CommandError when the database is of neither version.
    """
    adopt_migrations()
    if count_unapplied_migrations():
        call_command("migrate", interactive=False, verbosity=0)
    install_queue()


def collect_static_files() -> None:
    """Static files collected under hashed names, again only when one of them changed. Raises OSError."""
    stamp = Path(settings.STATIC_ROOT) / "collected"
    fingerprint = _static_files_fingerprint()
    if not stamp.exists() or stamp.read_text() != fingerprint:
        call_command("collectstatic", interactive=False, clear=True, verbosity=0)
        stamp.write_text(fingerprint)


def _static_files_fingerprint() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            status = Path(storage.path(path)).stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()

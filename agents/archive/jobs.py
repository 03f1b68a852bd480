"""Archives of workspaces as jobs: asked for in the app, written by a worker, downloaded for a day.

An archive holds everything, private channels and direct messages, too, which no owner sees as such. So it is for who
runs the server, and for owners only where the operator lets them (`OPENVIBE_OWNERS_EXPORT`)."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import structlog
from django.conf import settings
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.agent.models import EXPORTS, WorkspaceExport
from agents.archive.export import Progress, export_workspace
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.problems import Conflict, Missing, Refused
from openvibe.engines.jobs.jobs import lock_queued
from openvibe.workspaces.models import Member

LIFETIME = timedelta(hours=24)
"""How long a file can be downloaded."""

RETRY_SECONDS = 60
PROGRESS_SECONDS = 1.0
WORKER_LOST = "The worker died over it three times. Ask for it again; the server's log says more."

log = structlog.get_logger(__name__)


def may_export(member: Member) -> bool:
    """Whether the member may take out everything that is in the workspace, whoever it is between."""
    if member.role not in ("owner", "admin"):
        return False
    return member.user.is_superuser or (member.role == "owner" and settings.OWNERS_EXPORT)


def request_export(*, member: Member) -> WorkspaceExport:
    """Raises Refused, and Conflict while one is being written."""
    if not may_export(member):
        raise Refused("An archive holds private channels and direct messages. Ask whoever runs the server for it.")
    try:
        with transaction.atomic():
            return WorkspaceExport.objects.create(workspace=member.workspace, requested_by=member.participant)
    except IntegrityError:
        raise Conflict("An archive of this workspace is being written already. It is listed here.") from None


def visible_exports(member: Member) -> QuerySet[WorkspaceExport]:
    """Newest first; to who may export now, and of others' only to superusers: who is let in meanwhile asks anew."""
    rows = WorkspaceExport.objects.filter(workspace=member.workspace).select_related("requested_by")
    if not may_export(member):
        return rows.none()
    return rows if member.user.is_superuser else rows.filter(requested_by=member.participant)


def access_archive(*, member: Member, export_id: int) -> tuple[WorkspaceExport, Path]:
    """An archive that can be downloaded, with its file; the download is audited. Raises Missing."""
    export = visible_exports(member).filter(pk=export_id, state="done", expires_at__gt=timezone.now()).first()
    if export is None or not (path := _path(export)).is_file():
        raise Missing("This archive is not here any more. Ask for a new one.")
    about = {"subject": "the workspace", "after": "downloaded", "note": f"archive {export.sha256[:12]}"}
    record_audit(AuditAction.EXPORT, workspace_id=member.workspace_id, by=member, **about)
    return export, path


def execute_export(export_id: int) -> int | None:
    """Writes the archive. Returns the seconds until it is to be tried again, or None when it is over."""
    rows = WorkspaceExport.objects.select_related("workspace", "requested_by")
    with EXPORTS.claim(export_id, lock_queued(rows, export_id)) as export:
        return _write(export) if export else None


def _write(export: WorkspaceExport) -> int | None:
    path = _path(export)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _progress(export) as progress:
            manifest = export_workspace(
                workspace=export.workspace, path=path, by=_Requester(export.requested_by_id), progress=progress
            )
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        now = timezone.now()
        EXPORTS.update_owned(
            export,
            state=WorkspaceExport.State.DONE,
            rows=sum(table["rows"] for table in manifest["tables"]),
            size=path.stat().st_size,
            sha256=digest,
            finished_at=now,
            expires_at=now + LIFETIME,
        )
    except Conflict as conflict:  # a deleted text is still being taken out
        if EXPORTS.has_attempts_left(export):
            EXPORTS.requeue(export, delay=RETRY_SECONDS)
            return RETRY_SECONDS
        EXPORTS.fail(export, conflict.message)
    except OSError as error:
        EXPORTS.fail(export, f"The file cannot be written: {error.strerror or type(error).__name__}. Nothing was kept.")
    return None


class _Requester:
    """The person who asked, as the audit log names them."""

    def __init__(self, participant_id: int) -> None:
        self.participant_id = participant_id


@contextmanager
def _progress(export: WorkspaceExport) -> Iterator[Progress]:
    """Counts rows, and writes the count once a second: in a session of its own, for that of the export only reads."""
    session, total, written_at = connection.copy(), 0, time.monotonic()

    def add_rows(count: int) -> None:
        nonlocal total, written_at
        total += count
        if time.monotonic() - written_at < PROGRESS_SECONDS:
            return
        written_at = time.monotonic()
        try:
            with session.cursor() as cursor:
                cursor.execute(
                    "UPDATE agents_workspaceexport SET rows = %s WHERE id = %s AND attempt = %s",
                    [total, export.pk, export.attempt],
                )
        except DatabaseError as error:
            log.warning("progress_not_written", export=export.pk, error=type(error).__name__)

    try:
        yield add_rows
    finally:
        session.close()


def recover_exports() -> list[int]:
    """Ids of exports to send to a worker now."""
    return EXPORTS.recover(lambda export: EXPORTS.fail(export, WORKER_LOST))


def delete_expired_archives() -> int:
    """Rows of exports a day after their end, and files that no row speaks of; how many files were deleted."""
    now = timezone.now()
    WorkspaceExport.objects.filter(state="done", expires_at__lte=now).delete()
    WorkspaceExport.objects.filter(state="failed", finished_at__lte=now - LIFETIME).delete()
    folder = _folder()
    if not folder.is_dir():
        return 0
    live = {_path(export).name for export in WorkspaceExport.objects.all()}
    youngest = (now - LIFETIME).timestamp()
    expired = [file for file in folder.iterdir() if file.name not in live and _is_old(file, youngest)]
    for file in expired:
        file.unlink(missing_ok=True)
    return len(expired)


def _is_old(file: Path, youngest: float) -> bool:
    """Files under way have names that no row knows: they are left for a day."""
    return not file.name.startswith(".") or file.stat().st_mtime < youngest


def _folder() -> Path:
    return Path(settings.HOME) / "exports"


def _path(export: WorkspaceExport) -> Path:
    return _folder() / f"{export.workspace_id}-{export.pk}.zip"

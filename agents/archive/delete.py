"""Deletes a workspace with everything in it but the audit log."""

import pgtrigger
from django.db import IntegrityError, OperationalError, connection, transaction
from psycopg import sql
from psycopg.errors import DeadlockDetected, LockNotAvailable

from agents.agent.models import Agent
from agents.archive.folders import delete_folders
from agents.archive.tables import Table, workspace_tables
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.models import AuditRecord
from openvibe.base.problems import Conflict
from openvibe.chat.models import Thread
from openvibe.chat.services import release_files_of_workspace
from openvibe.workspaces.models import Workspace

BATCH_ROWS = 5_000


ATTEMPTS = 5
LOCK_TIMEOUT = "500ms"
"""Shorter than PostgreSQL's `deadlock_timeout`: of two who wait for one another it is the deletion that gives up, not
somebody's message."""
_LOST_RACES = (DeadlockDetected, LockNotAvailable)


def delete_workspace(*, workspace: Workspace) -> int:
    """Deletes the workspace and every row that belongs to it, all or nothing; returns how many rows. Accounts stay.

    What is never deleted otherwise (versions of a SOUL, revisions, changes of trust) goes, too, and the folders of its
    agents alone (`<handle>@<slug>`), but not the audit log, which says that it is deleted. Where somebody writes into
    it meanwhile it begins anew, a few times; then it raises Conflict.
    """
    agents = list(Agent.objects.filter(workspace=workspace).select_related("participant", "workspace"))
    for _ in range(ATTEMPTS):
        try:
            deleted = _delete_all(workspace.pk)
        except IntegrityError:
            continue
        except OperationalError as problem:
            if not isinstance(problem.__cause__, _LOST_RACES):
                raise
        else:
            delete_folders(agents)
            return deleted
    raise Conflict("Somebody wrote in the workspace meanwhile. Nothing was deleted; try again.")


@transaction.atomic
def _delete_all(workspace_id: int) -> int:
    """Deletes every row of the workspace and returns how many there were. Locks threads before the workspace, as
    whoever writes does: a message holds its thread and then asks for the workspace it belongs to."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    threads = Thread.objects.filter(workspace=workspace_id).order_by("pk")
    list(threads.select_for_update().values_list("pk", flat=True))
    Workspace.objects.select_for_update().get(pk=workspace_id)
    record_audit(AuditAction.SETTINGS, workspace_id=workspace_id, by=None, subject="the workspace", after="deleted")
    release_files_of_workspace(workspace_id)
    tables = [table for table in reversed(workspace_tables()) if table.model is not AuditRecord]
    with pgtrigger.ignore(), transaction.atomic(), connection.cursor() as cursor:
        deleted = sum(_delete_rows(table, workspace_id) for table in tables)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    return deleted


def _delete_rows(table: Table, workspace_id: int) -> int:
    meta, deleted = table.model._meta, 0
    statement = sql.SQL("DELETE FROM {} WHERE {} = ANY(%s)").format(
        sql.Identifier(meta.db_table), sql.Identifier(table.key_column)
    )
    with connection.cursor() as cursor:
        while ids := list(table.rows(workspace_id).values_list("pk", flat=True)[:BATCH_ROWS]):
            cursor.execute(statement, [ids])
            deleted += cursor.rowcount
    return deleted

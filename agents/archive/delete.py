"""Deletes a workspace with everything in it but the audit log."""

import pgtrigger
from django.db import IntegrityError, connection, transaction
from psycopg import sql

from agents.archive.folders import delete_folders
from agents.archive.tables import Table, workspace_tables
from agents.models import Agent
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.models import AuditRecord
from openvibe.base.problems import Conflict
from openvibe.workspaces.models import Workspace

BATCH_ROWS = 5_000


def delete_workspace(*, workspace: Workspace) -> int:
    """Delete the workspace and every row that belongs to it, all or nothing; how many rows. Accounts stay.

    What is never deleted otherwise (versions of a SOUL, revisions, changes of trust) goes, too, and the folders of its
    agents alone (`<handle>@<slug>`), but not the audit log, which says that it is deleted. Raises Conflict when
    somebody wrote into it meanwhile.
    """
    agents = list(Agent.objects.filter(workspace=workspace).select_related("participant", "workspace"))
    try:
        with transaction.atomic():
            Workspace.objects.select_for_update().get(pk=workspace.pk)
            record_audit(
                AuditAction.SETTINGS, workspace_id=workspace.pk, by=None, subject="the workspace", after="deleted"
            )
            tables = [table for table in reversed(workspace_tables()) if table.model is not AuditRecord]
            with pgtrigger.ignore(), transaction.atomic(), connection.cursor() as cursor:
                deleted = sum(_delete_rows(table, workspace.pk) for table in tables)
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
                cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    except IntegrityError:
        raise Conflict("Somebody wrote in the workspace meanwhile. Nothing was deleted; try again.") from None
    delete_folders(agents)
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

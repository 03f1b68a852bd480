"""`manage.py embed`: make the vectors that wait now, instead of waiting for the worker."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from openvibe.engines.search.indexing import VECTOR_TABLES, VectorTable, embed_pending
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import advance_spaces
from openvibe.workspaces.queries import resolve_workspace

BATCH_SIZE = 2_000


class Command(BaseCommand):
    help = (
        "Makes all vectors of messages and knowledge entries that wait. May be stopped and started again at any time."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", metavar="SLUG", default="", help="of this one alone; of all without it")
        parser.add_argument("--check", action="store_true", help="also look for texts that neither have one nor wait")

    def handle(self, *_arguments: Any, workspace: str, check: bool, **_options: Any) -> None:
        spaces = VectorSpace.objects.exclude(state=VectorSpace.State.RETIRED).exclude(kind=VectorSpace.Kind.NONE)
        if workspace:
            spaces = spaces.filter(workspace=resolve_workspace(workspace))
        for space in spaces.select_related("workspace").order_by("workspace_id", "id"):
            for table in VECTOR_TABLES:
                if check:
                    table.enqueue_all(space.pk, space.workspace_id)
                self._embed_table(space, table)
        served = advance_spaces()
        if served:
            self.stdout.write(f"{served} embedder{'' if served == 1 else 's'} took the place of another one.")

    def _embed_table(self, space: VectorSpace, table: VectorTable) -> None:
        """All that wait in one table, with a line for each 2,000 of them."""
        name, started_at, embedded = f"{space.workspace.slug}, {table.label}", time.monotonic(), 0
        while batch_count := embed_pending(table, space_id=space.pk, limit=BATCH_SIZE):
            embedded += batch_count
            backlog = table.count_pending(space.pk)
            self.stdout.write(
                f"{name}: {embedded:,} made, {backlog:,} wait ({embedded / (time.monotonic() - started_at):,.0f} a "
                f"second)."
            )
        backlog = table.count_pending(space.pk)
        if backlog:
            space.refresh_from_db()
            self.stdout.write(f"{name}: {backlog:,} still wait. {space.problem or 'Another worker is at it.'}")
        elif not embedded:
            self.stdout.write(f"{name}: nothing waits.")
        if set_aside := table.count_set_aside(space.pk):
            self.stdout.write(f"{name}: {set_aside:,} got no usable vector and are tried again every hour.")

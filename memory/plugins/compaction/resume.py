"""Resuming compaction after its endpoint is well again, before the pause is over."""

from datetime import timedelta

from django.utils import timezone

from memory.plugins.base import CompactionPause, MemoryProvider, Pausable
from memory.plugins.compaction.requests import request_compaction
from memory.plugins.models import Compaction
from memory.plugins.registry import provider_for
from openvibe.base.problems import Conflict, Refused
from openvibe.workspaces.access import Access

RETRY_WINDOW = timedelta(days=1)
"""Failed compactions of so long are taken up again; older threads are compacted when something is said in them."""


def find_pause(workspace_id: int, provider: MemoryProvider | None = None) -> CompactionPause | None:
    """The pause of a workspace's compactions: until when, and why, they rest; None while they do not. `provider`: the
    workspace's memory, where it was read already."""
    provider = provider or provider_for(workspace_id)
    return provider.compaction_pause(workspace_id) if isinstance(provider, Pausable) else None


def resume_compaction(*, workspace_id: int, by: Access | None, endpoint_id: int | None = None) -> list[Compaction]:
    """Lifts the pause of an endpoint (None: the one in use) and takes up what failed: rows for the caller to send to a
    worker.

    Admins only; `by=None` is a test of the endpoint that succeeded. Raises Refused, and Conflict (`not_paused`) when
    somebody asks where nothing is paused.
    """
    if by is not None and not (by.administers and by.workspace_id == workspace_id):
        raise Refused("Only owners and admins may resume compaction.")
    provider = provider_for(workspace_id)
    if not (isinstance(provider, Pausable) and provider.resume_compaction(workspace_id, endpoint_id)):
        if by is None:
            return []
        raise Conflict("Compaction is not paused. Nothing changed.", code="not_paused")
    newest = Compaction.objects.filter(
        thread__workspace=workspace_id, finished_at__gt=timezone.now() - RETRY_WINDOW
    ).order_by("thread", "-id")
    failed = [row for row in newest.distinct("thread").select_related("thread") if row.state == Compaction.State.FAILED]
    compactions = [request_compaction(thread=row.thread, trigger=_trigger(row), full=row.full) for row in failed]
    return [row for row in compactions if row is not None]


def _trigger(row: Compaction) -> str:
    """What asked for it; what a person asked for by hand is due by itself now."""
    return Compaction.Trigger.THRESHOLD if row.trigger == Compaction.Trigger.HAND else row.trigger

"""Once a run is over: memory hears of what was said, and is compacted when that is due. Nothing here fails a run."""

import structlog
from django.db import InterfaceError, OperationalError, transaction

from agents.models import Run
from agents.visibility import visible_to
from memory.models import Compaction
from memory.providers.base import Compactor
from memory.providers.budgets import context_budget
from memory.providers.opening import open_session
from memory.providers.registry import provider_for
from memory.services.compaction import request_compaction
from memory.tasks import send_compaction_after_commit

log = structlog.get_logger(__name__)


def tell_memory(run: Run, *, had_bulky_result: bool = False) -> None:
    """The provider takes in what was said; a compaction is asked for when one is due."""
    try:
        with transaction.atomic():
            _tell(run, had_bulky_result)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("memory_not_told", run_id=run.pk)


def _tell(run: Run, had_bulky_result: bool) -> None:
    provider = provider_for(run.workspace_id)
    session = open_session(visible_to(run.agent), run.thread_id)
    provider.bootstrap(session)
    if not isinstance(provider, Compactor):
        return
    trigger = Compaction.Trigger.TOOL_RESULT if had_bulky_result else Compaction.Trigger.THRESHOLD
    if had_bulky_result or provider.needs_compaction(session, context_budget(run.thread)):
        compaction = request_compaction(thread=run.thread, trigger=trigger)
        if compaction is not None:
            send_compaction_after_commit(compaction.pk)

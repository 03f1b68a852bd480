"""The pause after an endpoint failed again and again to write summaries: counted for each endpoint of a workspace,
whichever thread it failed in, and lifted by time, by a success, or by hand."""

from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from memory.plugins.base import CompactionPause
from memory.plugins.lcm.models import EndpointFailures
from openvibe.base.problems import Problem
from openvibe.engines.llm.errors import ModelError
from openvibe.engines.llm.models import Endpoint

MAX_FAILURES, PAUSE_AFTER_FAILURES = 5, timedelta(minutes=30)
"""A pause that seems longer began while the clock was ahead, and is over."""

_COUNT_FAILURE = """
INSERT INTO lcm_endpointfailures AS f (workspace_id, endpoint_id, failures, last_error)
VALUES (%(workspace)s, %(endpoint)s, 1, %(error)s)
ON CONFLICT (workspace_id, endpoint_id) DO UPDATE SET failures = least(f.failures + 1, 1000), last_error = %(error)s,
    paused_until = CASE WHEN f.failures + 1 >= %(most)s THEN %(until)s::timestamptz END
"""


def summary_endpoint(workspace_id: int) -> Endpoint | None:
    """The endpoint that writes a workspace's summaries: the one marked so, else the default one."""
    endpoints = Endpoint.objects.filter(Q(is_for_summaries=True) | Q(is_default=True), workspace=workspace_id)
    return endpoints.order_by("-is_for_summaries").first()


def check_not_paused(workspace_id: int, endpoint: Endpoint | None, now: datetime) -> bool:
    """Whether failures are counted that a success has to forget. Raises Problem (`compaction_paused`)."""
    row = EndpointFailures.objects.filter(workspace=workspace_id, endpoint=endpoint).first()
    if row is not None and row.paused_until is not None and now < row.paused_until <= now + PAUSE_AFTER_FAILURES:
        raise Problem(
            f"Making summaries failed {row.failures} times in a row, so it rests until"
            f" {row.paused_until:%H:%M} UTC. An admin can resume it before that. The last reason: {row.last_error}",
            code="compaction_paused",
        )
    return row is not None and row.failures > 0


def record_endpoint_failure(workspace_id: int, endpoint: Endpoint | None, error: ModelError, now: datetime) -> Problem:
    """Counts the failure; returns what to tell the caller."""
    sentence = f"{error} {error.advice}"
    values = {
        "workspace": workspace_id,
        "endpoint": endpoint.pk if endpoint is not None else None,
        "error": sentence,
        "most": MAX_FAILURES,
        "until": now + PAUSE_AFTER_FAILURES,
    }
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_FAILURE, values)
    return Problem(f"The summary could not be made. {sentence}", code="compaction_failed")


def forget_failures(workspace_id: int, endpoint_id: int | None) -> bool:
    """Begins counting anew, which lifts a pause; returns whether there was one."""
    rows = EndpointFailures.objects.filter(workspace=workspace_id, endpoint=endpoint_id)
    was_paused = rows.filter(_is_paused()).exists()
    rows.update(failures=0, paused_until=None, last_error="")
    return was_paused


def find_pause(workspace_id: int) -> CompactionPause | None:
    """The pause of the endpoint that would write a workspace's summaries now."""
    rows = EndpointFailures.objects.filter(workspace=workspace_id, endpoint=summary_endpoint(workspace_id))
    row = rows.filter(_is_paused()).first()
    if row is None or row.paused_until is None:
        return None
    return CompactionPause(until=row.paused_until, failures=row.failures, reason=row.last_error)


def _is_paused() -> Q:
    now = timezone.now()
    return Q(paused_until__gt=now, paused_until__lte=now + PAUSE_AFTER_FAILURES)

"""The endpoints that write summaries, and the pause after one failed again and again at it: counted for each of a
workspace, whichever thread it failed in, and lifted by time, by a success, or by hand. Compaction pauses only where no
other endpoint is left to be asked. That a circuit breaker left an endpoint alone is no failure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from memory.plugins.base import CompactionPause
from memory.plugins.lcm.models import EndpointFailures
from openvibe.base.problems import Problem
from openvibe.engines.llm.endpoints.endpoints import CIRCUIT_BREAKER
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


STAND_IN_ATTEMPTS = 2
"""Times that one call of an endpoint is tried that another stands in for."""


def summary_endpoints(workspace_id: int) -> list[Endpoint]:
    """The endpoints that write a workspace's summaries, in the order in which they are asked: the one marked so or else
    the default one, its second and third, the default one, the workspace's fallback. None of them twice."""
    is_writer = Q(is_for_summaries=True) | Q(summary_rank__isnull=False) | Q(is_default=True) | Q(is_fallback=True)
    endpoints = list(Endpoint.objects.filter(is_writer, workspace=workspace_id))
    is_marked = any(endpoint.is_for_summaries for endpoint in endpoints)

    def place(endpoint: Endpoint) -> tuple[int, bool]:
        is_first = endpoint.is_for_summaries or (endpoint.is_default and not is_marked)
        return (1 if is_first else endpoint.summary_rank or 4, not endpoint.is_default)

    endpoints.sort(key=place)
    unique: list[Endpoint] = []
    for endpoint in endpoints:
        if not any(endpoint.is_same_model(other) for other in unique):
            unique.append(endpoint)
    for endpoint in unique[:-1]:
        endpoint.attempts, endpoint.waits_for_start = STAND_IN_ATTEMPTS, False
    return unique


class Writer(NamedTuple):
    """An endpoint that may be asked now; None is a client without a row. `has_failed`: failures are counted that a
    success has to forget."""

    endpoint: Endpoint | None
    has_failed: bool


def usable_writers(workspace_id: int, endpoints: Sequence[Endpoint | None], now: datetime) -> list[Writer]:
    """Those of the endpoints that do not pause. Raises Problem (`compaction_paused`) where all do."""
    rows = {row.endpoint_id: row for row in EndpointFailures.objects.filter(workspace=workspace_id)}
    writers = []
    paused = []
    for endpoint in endpoints:
        row = rows.get(None if endpoint is None else endpoint.pk)
        if row is not None and row.paused_until is not None and now < row.paused_until <= now + PAUSE_AFTER_FAILURES:
            paused.append(row)
        else:
            writers.append(Writer(endpoint, row is not None and row.failures > 0))
    if writers:
        return writers
    row = min(paused, key=lambda one: one.paused_until or now)
    raise Problem(
        f"Making summaries failed {row.failures} times in a row, so it rests until"
        f" {row.paused_until:%H:%M} UTC. An admin can resume it before that. The last reason: {row.last_error}",
        code="compaction_paused",
    )


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
    """Begins counting anew, which lifts a pause; returns whether anything was counted."""
    rows = EndpointFailures.objects.filter(workspace=workspace_id, endpoint=endpoint_id, failures__gt=0)
    return rows.update(failures=0, paused_until=None, last_error="") > 0


def resume_endpoints(workspace_id: int, endpoint_id: int | None) -> bool:
    """Lets an endpoint, or with None all that write summaries, be asked at once: their failures are forgotten and their
    circuit breakers closed. Returns whether any of them was left alone, or had failed."""
    writers = summary_endpoints(workspace_id)
    if endpoint_id is not None:
        writers = [endpoint for endpoint in writers if endpoint.pk == endpoint_id]
    was_left_alone = False
    for endpoint in writers:
        was_left_alone = was_left_alone or endpoint.failures > 0
        CIRCUIT_BREAKER.reset(endpoint)
    keys: list[int | None] = [endpoint.pk for endpoint in writers] or [endpoint_id]
    forgotten = [forget_failures(workspace_id, key) for key in keys]
    return was_left_alone or any(forgotten)


def find_pause(workspace_id: int) -> CompactionPause | None:
    """The pause of a workspace's summaries: None while one of the endpoints that write them may be asked."""
    keys: list[int | None] = [endpoint.pk for endpoint in summary_endpoints(workspace_id)]
    keys = keys or [None]
    rows = EndpointFailures.objects.filter(_is_paused(), workspace=workspace_id)
    paused = {row.endpoint_id: row for row in rows}
    if any(key not in paused for key in keys):
        return None
    first = min((paused[key] for key in keys), key=lambda row: row.paused_until or timezone.now())
    assert first.paused_until is not None
    return CompactionPause(until=first.paused_until, failures=first.failures, reason=first.last_error)


def _is_paused() -> Q:
    now = timezone.now()
    return Q(paused_until__gt=now, paused_until__lte=now + PAUSE_AFTER_FAILURES)

"""So many calls a minute per token, counted in the database: the same for every process and machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from openvibe.api.callers import caller_or_none

if TYPE_CHECKING:
    from rest_framework.views import APIView

WINDOW = 60  # seconds

# One statement, one commit; a count lost in a crash harms nobody, so its commit need not wait for the disk.
COUNT = """
INSERT INTO api_callcount AS kept (subject, minute, calls)
SELECT %s, floor(extract(epoch FROM clock_timestamp()) / 60)::bigint, 1
FROM (SELECT set_config('synchronous_commit', 'off', true) AS mode) AS later WHERE mode = 'off'
ON CONFLICT (subject) DO UPDATE SET
    calls = CASE WHEN kept.minute = EXCLUDED.minute THEN kept.calls + 1 ELSE 1 END,
    minute = EXCLUDED.minute
RETURNING calls, 60 - (extract(epoch FROM clock_timestamp())::bigint %% 60)
"""


@dataclass(frozen=True)
class Allowance:
    """How much of this minute's calls is left. `reset` in seconds."""

    limit: int
    used: int
    reset: int

    @property
    def headers(self) -> dict[str, str]:
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(max(0, self.limit - self.used)),
            "RateLimit-Reset": str(self.reset),
        }


def count_call(subject: str) -> Allowance:
    """Count one call more and say what is left of the minute."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [subject])
        used, reset = cursor.fetchone()
    return Allowance(limit=settings.API_CALLS_PER_MINUTE, used=used, reset=max(1, min(WINDOW, reset)))


class CallerThrottle(BaseThrottle):
    """Leaves its `Allowance` on the request, where the answer's headers take it from."""

    allowance: Allowance | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        caller = caller_or_none(request)
        if caller is None:
            return True
        self.allowance = count_call(caller.subject)
        request._request.META["openvibe.allowance"] = self.allowance
        return self.allowance.used <= self.allowance.limit

    def wait(self) -> float | None:
        return float(self.allowance.reset) if self.allowance else None

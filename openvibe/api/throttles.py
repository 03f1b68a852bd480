"""Limits of calls a minute per token or address, counted in the database: the same for every process and machine."""

import hashlib
import ipaddress
from dataclasses import dataclass

from allauth.account.adapter import get_adapter
from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from openvibe.api.auth import caller_or_none
from openvibe.engines.database.prepared_statements import fetch_prepared

WINDOW_SECONDS = 60

# One statement, one commit; a count lost in a crash harms nobody, so its commit need not wait for the disk.
COUNT_CALL = """
INSERT INTO api_callcount AS kept (subject, minute, calls)
SELECT %s, floor(extract(epoch FROM clock_timestamp()) / 60)::bigint, 1
FROM (SELECT set_config('synchronous_commit', 'off', true) AS mode) AS later WHERE mode = 'off'
ON CONFLICT (subject) DO UPDATE SET
    calls = CASE WHEN kept.minute = EXCLUDED.minute THEN kept.calls + 1 ELSE 1 END,
    minute = EXCLUDED.minute
RETURNING calls, 60 - (extract(epoch FROM clock_timestamp())::bigint %% 60)
"""


@dataclass(frozen=True)
class RateLimit:
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


class CallerThrottle(BaseThrottle):
    """Leaves its `RateLimit` on the request, where the answer's headers take it from."""

    rate_limit: RateLimit | None = None

    def allow_request(self, request: Request, view: object) -> bool:
        caller = caller_or_none(request)
        if caller is None:
            return True
        call_count, reset = fetch_prepared(COUNT_CALL, [caller.subject])[0]
        self.rate_limit = RateLimit(settings.API_CALLS_PER_MINUTE, call_count, max(1, min(WINDOW_SECONDS, reset)))
        request._request.META["openvibe.allowance"] = self.rate_limit
        return self.rate_limit.used <= self.rate_limit.limit

    def wait(self) -> float | None:
        return float(self.rate_limit.reset) if self.rate_limit else None


class AddressThrottle(BaseThrottle):
    """A limit for calls that nobody signed: so many a minute from one address, or from one network of IPv6."""

    calls_per_minute = 20
    seconds_left: float | None = None

    def allow_request(self, request: Request, view: object) -> bool:
        address = network_of(get_adapter(request).get_client_ip(request))
        subject = f"from:{hashlib.sha256(address.encode()).hexdigest()[:32]}"
        call_count, reset = fetch_prepared(COUNT_CALL, [subject])[0]
        self.seconds_left = float(max(1, min(WINDOW_SECONDS, reset)))
        return bool(call_count <= self.calls_per_minute)

    def wait(self) -> float | None:
        return self.seconds_left


def network_of(address: str) -> str:
    """The address; of one of IPv6 its /64, which is one customer's. What is no address stays as it is."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped or ipaddress.ip_network((parsed, 64), strict=False))

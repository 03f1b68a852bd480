"""Whether the programs of agents elsewhere are connected: one rule for the sidebar and for every other page."""

from collections.abc import Collection

from openvibe.api.auth import CONNECTED_SECONDS
from openvibe.engines.database.prepared_statements import fetch_prepared

IS_CONNECTED = """(EXISTS (
    SELECT FROM api_token h WHERE h.participant_id = k.id
    AND h.last_used_at > statement_timestamp() - make_interval(secs => %(connected)s)
) OR EXISTS (
    SELECT FROM webhooks_webhook h
    WHERE h.participant_id = k.id AND h.state = 'active' AND h.failing_since IS NULL AND EXISTS (
        SELECT FROM webhooks_delivery d WHERE d.webhook_id = h.id AND d.state = 'delivered'
    )
))"""
"""Tells of participant `k` whether a token of it was heard a moment ago, or its webhook takes what it is sent.
`connected` is CONNECTED_SECONDS."""

_SELECT_CONNECTED = "SELECT k.id FROM workspaces_participant k WHERE k.id = ANY(%(ids)s::bigint[]) AND {is_connected}"


def connected_participants(participant_ids: Collection[int]) -> frozenset[int]:
    """Returns those of the participants whose program is connected. One query."""
    statement = _SELECT_CONNECTED.replace("{is_connected}", IS_CONNECTED)
    values = {"ids": sorted(participant_ids), "connected": CONNECTED_SECONDS}
    return frozenset(pk for (pk,) in fetch_prepared(statement, values))

"""Notes who has a page of a workspace open: one row a person, written once a minute at most, whatever the number of
pages and processes."""

from collections.abc import Collection

from django.db import connection

from openvibe.workspaces.models import Member, Presence

NOTE_SECONDS = 60
"""How often the same person is noted at most."""
_UPSERT_PRESENCE = """
INSERT INTO workspaces_presence (participant_id, seen_at)
SELECT participant_id, now() FROM workspaces_member
WHERE participant_id = ANY(%(ids)s) AND removed_at IS NULL AND NOT is_invisible ORDER BY participant_id
ON CONFLICT (participant_id) DO UPDATE SET seen_at = EXCLUDED.seen_at
WHERE workspaces_presence.seen_at <= EXCLUDED.seen_at - make_interval(secs => %(seconds)s)
"""


def note_presence(participant_ids: Collection[int]) -> None:
    """Notes that these members have a page open now. Those who are invisible, or gone, are not noted. One statement,
    none without ids."""
    if participant_ids:
        with connection.cursor() as cursor:
            cursor.execute(_UPSERT_PRESENCE, {"ids": list(participant_ids), "seconds": NOTE_SECONDS})


def forget_presence(member: Member) -> None:
    """The member is here no longer, to everybody's knowledge."""
    Presence.objects.filter(participant=member.participant_id).delete()

"""Places by their names, for the command palette: threads by title, channels, people by name or handle; other floors
add theirs through `openvibe.chat.wiring.PLACE_SOURCES`."""

from __future__ import annotations

from collections.abc import Sequence

from django.urls import reverse

from openvibe.chat.models import visibility_of
from openvibe.chat.wiring import PLACE_SOURCES, Place, PlaceQuery
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access

# A name as `PlaceQuery.like_patterns` reads it: without accents, as it is and with blanks for its signs; and with `ae`
# for an umlaut.
_NAME = """' ' || regexp_replace(normalize(lower({0}), NFKD), '[\u0300-\u036f''’]', '', 'g')
        || ' ' || regexp_replace(normalize(lower({0}), NFKD), '[^[:alnum:]]+', ' ', 'g')
        || ' ' || replace(replace(replace(replace(lower({0}), 'ä', 'ae'), 'ö', 'oe'), 'ü', 'ue'), 'ß', 'ss')
        || ' ' || lower({0})"""

_SELECT_NAMED = """
SELECT to_json(ARRAY(
    SELECT json_build_array(t.id, t.title,
        CASE WHEN c.first_participant_id IS NULL THEN '#' || c.name ELSE 'Direct message' END,
        t.archived_at IS NOT NULL)
    FROM chat_thread t JOIN chat_channel c ON c.id = t.channel_id
    WHERE t.channel_id = ANY(%(channels)s::bigint[]) AND t.parent_id IS NULL
        AND t.search @@ %(words)s::tsquery
    ORDER BY t.id = ANY(%(recent)s::bigint[]) DESC, t.archived_at IS NOT NULL, t.last_message_at DESC NULLS LAST,
        t.id DESC LIMIT %(limit)s
)), to_json(ARRAY(
    SELECT json_build_array(c.id, c.name, c.is_private) FROM chat_channel c
    WHERE c.id = ANY(%(channels)s::bigint[]) AND c.first_participant_id IS NULL AND c.archived_at IS NULL
        AND {channel_name} LIKE ALL(%(patterns)s::text[])
    ORDER BY c.id = ANY(%(recent_channels)s::bigint[]) DESC, c.name LIMIT %(limit)s
)), to_json(ARRAY(
    SELECT json_build_array(p.id, p.name, p.handle) FROM workspaces_participant p
    WHERE p.workspace_id = %(workspace)s AND p.kind = 'member' AND p.is_active
        AND {person_name} || ' ' || p.handle LIKE ALL(%(patterns)s::text[])
        AND (NOT %(is_guest)s OR p.id = %(asker)s OR EXISTS (
            SELECT FROM chat_channelmembership s
            WHERE s.participant_id = p.id AND s.channel_id = ANY(%(channels)s::bigint[])
        ))
    ORDER BY p.name, p.id LIMIT %(limit)s
))
""".replace("{channel_name}", _NAME.replace("{0}", "c.name")).replace("{person_name}", _NAME.replace("{0}", "p.name"))

_SELECT_RECENT = """
SELECT to_json(ARRAY(
    SELECT json_build_array(t.id, t.title,
        CASE WHEN c.first_participant_id IS NULL THEN '#' || c.name ELSE 'Direct message' END,
        t.archived_at IS NOT NULL)
    FROM chat_thread t JOIN chat_channel c ON c.id = t.channel_id
    WHERE t.id = ANY(%(recent)s::bigint[]) AND t.channel_id = ANY(%(channels)s::bigint[]) AND t.parent_id IS NULL
)), to_json(ARRAY(
    SELECT json_build_array(c.id, c.name, c.is_private) FROM chat_channel c
    WHERE c.id = ANY(%(recent_channels)s::bigint[]) AND c.id = ANY(%(channels)s::bigint[])
        AND c.first_participant_id IS NULL AND c.archived_at IS NULL
)), '[]'::json
"""


def find_places(access: Access, query: PlaceQuery) -> list[Place]:
    """The places of a name to which a member may go; without words, those of the recent places that are still there for
    her.

    Of each kind at most `PlaceQuery.limit`, the recent ones first. One statement here and one of each other source,
    each over an index on the names' words."""
    values = {
        "channels": visibility_of(access).channels,
        "recent": query.recent_ids("t"),
        "recent_channels": query.recent_ids("c"),
        "words": query.tsquery,
        "patterns": query.like_patterns,
        "workspace": access.workspace_id,
        "asker": access.participant_id,
        "is_guest": access.is_guest,
        "limit": query.limit,
    }
    ((threads, channels, people),) = fetch_prepared(_SELECT_NAMED if query.like_patterns else _SELECT_RECENT, values)
    return [
        *(_thread_place(query, *row) for row in threads),
        *(_channel_place(query, *row) for row in channels),
        *(place for source in PLACE_SOURCES for place in source(access, query)),
        *(_person_place(query, *row) for row in people),
    ]


def _thread_place(query: PlaceQuery, pk: int, title: str, channel: str, is_archived: bool) -> Place:
    detail = f"{channel}, archived" if is_archived else channel
    return Place(f"t{pk}", title, detail, reverse("thread", args=[query.slug, pk]))


def _channel_place(query: PlaceQuery, pk: int, name: str, is_private: bool) -> Place:
    detail = "Private channel" if is_private else "Channel"
    return Place(f"c{pk}", name, detail, reverse("channel", args=[query.slug, pk]))


def _person_place(query: PlaceQuery, pk: int, name: str, handle: str) -> Place:
    return Place(f"p{pk}", name, f"@{handle}", reverse("person", args=[query.slug, handle]))


def parse_recent(text: str) -> Sequence[str]:
    """The keys of recent places that a page sends, `t12,k5`: at most twelve, the newest first; what is none is left
    out."""
    keys = (key for key in text.split(",") if key[1:].isascii() and key[1:].isdigit() and len(key) < 18)
    return tuple(dict.fromkeys(keys))[:12]

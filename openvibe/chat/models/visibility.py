"""What an access sees: the channels somebody reads and the threads that list an agent, as plain numbers.

Read by one statement the first time an access is asked, and kept on that object: every `visible_to` of the request
puts the numbers into its statement, which then needs no sub-select and whose plan hangs on no statistics. Whoever has
the same access object asks with what was true when it was first asked; `reread_visibility` asks anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import LiteralString, Protocol

from django.db.models import Q
from psycopg import sql

from openvibe.engines.database.compiled_queries import array_literal
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access


def is_channel_readable(reads_public: LiteralString) -> sql.Composed:
    """The condition in SQL for a channel `c` of the workspace that `asker.id` reads; `reads_public`: the condition for
    an asker who reads public ones without being added to them."""
    added = "EXISTS (SELECT FROM chat_channelmembership m WHERE m.channel_id = c.id AND m.participant_id = asker.id)"
    return sql.SQL("({reads_public} AND NOT c.is_private OR {added})").format(
        reads_public=sql.SQL(reads_public), added=sql.SQL(added)
    )


_SELECT_VISIBILITY = (
    sql.SQL("""
SELECT ARRAY(SELECT c.id FROM chat_channel c WHERE c.workspace_id = asker.workspace AND {is_channel_readable}),
    ARRAY(SELECT l.thread_id FROM chat_thread_allowed_agents l WHERE asker.is_agent AND l.participant_id = asker.id)
FROM unnest(%s::bigint[], %s::bigint[], %s::bool[], %s::bool[]) WITH ORDINALITY
    AS asker(workspace, id, reads_public, is_agent, position)
ORDER BY asker.position
""")
    .format(is_channel_readable=is_channel_readable("asker.reads_public"))
    .as_string()
)


@dataclass(frozen=True)
class Visibility:
    """`channels` and, for agents, `threads` that list it; the same as PostgreSQL's array literals for statements."""

    channel_ids: frozenset[int]
    thread_ids: frozenset[int]
    channels: str
    threads: str


def visibility_of(access: Access) -> Visibility:
    """What the access sees, read once for each access object."""
    load_visibility([access])
    visibility: Visibility = access.memo["visibility"]
    return visibility


def load_visibility(accesses: Iterable[Access]) -> None:
    """Reads what these see, where it is not known yet: one statement for all of them."""
    accesses_to_read = [access for access in accesses if "visibility" not in access.memo]
    if not accesses_to_read:
        return
    columns: tuple[Sequence[object], ...] = tuple(
        zip(
            *((a.workspace_id, a.participant_id, a.reads_public_channels, a.is_agent) for a in accesses_to_read),
            strict=True,
        )
    )
    rows = fetch_prepared(_SELECT_VISIBILITY, [list(column) for column in columns])
    for access, (channels, threads) in zip(accesses_to_read, rows, strict=True):
        access.memo["visibility"] = Visibility(
            frozenset(channels), frozenset(threads), array_literal(channels), array_literal(threads)
        )


def reread_visibility(access: Access) -> Access:
    """The same access, whose visibility is read anew: after a change of channels or lists in the same request."""
    return replace(access)


def visible_threads(access: Access, thread: str = "") -> Q:
    """The condition for a thread the asker sees. `thread`: the path to it with its `__`, empty for rows of threads.

    Threads in channels the asker reads; for agents without people-only ones and those that do not list them. A dive
    has the access of the thread it started in (triggers see to that), and its list of agents. Agents whose level does
    not read dive results see no dives.
    """
    in_channels = Q(
        **{f"{thread}workspace_id": access.workspace_id, f"{thread}channel__id__any_of": visibility_of(access).channels}
    )
    if not access.is_agent:
        return in_channels
    visible = in_channels & open_to_agent(access, thread)
    return visible if access.reads_dive_results else visible & Q(**{f"{thread}parent": None})


def open_to_agent(access: Access, thread: str = "") -> Q:
    """The condition for a thread that is neither for people only nor for other agents only."""
    listing = visibility_of(access).threads
    is_listed = Q(**{f"{thread}id__any_of": listing}) | Q(**{f"{thread}parent__id__any_of": listing})
    return Q(**{f"{thread}access": "open"}) | Q(Q(**{f"{thread}access": "agent_restricted"}), is_listed)


class ThreadRow(Protocol):
    """What `sees_thread` needs of a thread that was read."""

    pk: int
    channel_id: int
    parent_id: int | None
    access: str


def sees_channel(access: Access, channel_id: int) -> bool:
    """Whether the asker reads the channel."""
    return channel_id in visibility_of(access).channel_ids


def sees_thread(access: Access, thread: ThreadRow) -> bool:
    """The same as `visible_threads`, of a thread that was read."""
    visibility = visibility_of(access)
    if thread.channel_id not in visibility.channel_ids:
        return False
    if not access.is_agent or (thread.access == "open" and thread.parent_id is None):
        return True
    if thread.parent_id is not None and not access.reads_dive_results:
        return False
    is_listed = not visibility.thread_ids.isdisjoint((thread.pk, thread.parent_id or 0))
    return thread.access == "open" or (thread.access == "agent_restricted" and is_listed)

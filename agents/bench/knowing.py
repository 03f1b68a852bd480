"""What a measured workspace knows, and the vectors of all that is said and known in it."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice

from django.db import connection
from django.utils import timezone

from agents.bench.content import World
from agents.bench.scratch import bare_connection
from knowledge.embedding import embed_waiting as embed_entries
from knowledge.models import Entry, EntryVector
from openvibe.chat.embedding import embed_waiting as embed_messages
from openvibe.chat.models import Message, MessageVector
from openvibe.llm.tokens import count

TABLES = tuple(model._meta.db_table for model in (Message, MessageVector, Entry, EntryVector))
ROWS = 5_000
ONE_IN = 10
"""Of mixed knowledge, one entry in so many is restricted, one has expired and waits for review, one expired unseen."""


def make_entries(world: World, entries: int, *, mixed: bool = False) -> None:
    """Entries past the services, and waiting for their vectors as ever. All hold and are shared, unless `mixed`."""
    made = _entries(world, entries, mixed)
    while rows := list(islice(made, ROWS)):
        Entry.objects.bulk_create(rows)


def embed_all() -> None:
    """All vectors, as the job makes them; the tables settled."""
    for embed_waiting in (embed_messages, embed_entries):
        while embed_waiting():
            pass
    with bare_connection() as bare:
        for table in TABLES:
            bare.execute(f"VACUUM ANALYZE {connection.ops.quote_name(table)}")


def _entries(world: World, entries: int, mixed: bool) -> Iterator[Entry]:
    author, long_ago = world.ana.participant_id, timezone.now() - timedelta(days=1)
    for number in range(entries):
        content = world.language.message()
        entry = Entry(
            workspace_id=world.ana.workspace_id, topic=content[:40], content=content, tokens=count(content),
            author_id=author, owner_id=author,
        )  # fmt: skip
        place = number % ONE_IN if mixed else ONE_IN
        if place == 0:
            entry.visibility = Entry.Visibility.RESTRICTED
        elif place in (1, 2):
            entry.expires_at = long_ago
        if place == 1:
            entry.status, entry.reason = Entry.Status.NEEDS_REVIEW, Entry.Reason.EXPIRED
        yield entry

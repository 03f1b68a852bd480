"""A workspace to measure in: threads of any length and knowledge, in a made-up language with the statistics of a
real one."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice

from django.db import connection
from django.utils import timezone

from agents.agent.services import create_agent, set_trust_level
from agents.management.commands.demo import VIBE_SOUL
from agents.models import Agent
from knowledge.models import Entry, EntryVector
from knowledge.search import embed_pending_entries as embed_entries
from memory.episodes.models import Episode
from openvibe.chat.models import Channel, Message, MessageVector, Thread
from openvibe.chat.services import add_to_channel, create_channel
from openvibe.chat.wiring import embed_pending_messages as embed_messages
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.search.lexemes import BODY, VERSION, make_tsvector
from openvibe.engines.search.space_lifecycle import advance_spaces
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.queries import member_access
from openvibe.workspaces.services import add_member, create_workspace, update_workspace
from tests.bench.scratch_database import connect_bare
from tests.memory.factories import EpisodeFactory

SEED = 20_260_301
VOCABULARY_SIZE = 6_000
MIN_MESSAGE_WORDS, MAX_MESSAGE_WORDS = 15, 60  # words of a message
FIRST_MESSAGE_AT = datetime(2025, 1, 6, 9, 0, tzinfo=UTC)
SYLLABLES = [consonant + vowel for consonant in "bdgklmnprstv" for vowel in "aeiou"]
MESSAGE_COLUMNS = (
    "thread_id, seq, author_id, kind, state, body, call_id, client_id, token_count, created_at, search, lexemes_version"
)


class SyntheticLanguage:
    """Seeded words, a few of them very frequent (Zipf's law, exponent 1), and sentences made of them."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        words: dict[str, None] = {}
        while len(words) < VOCABULARY_SIZE:
            longest = 2 if len(words) < 800 else 4  # frequent words are short
            words["".join(self._random.choices(SYLLABLES, k=self._random.randint(1, longest)))] = None
        self.words = list(words)
        self._weights = list(accumulate(1 / rank for rank in range(1, len(self.words) + 1)))

    def message(self) -> str:
        words = self._random.choices(
            self.words, cum_weights=self._weights, k=self._random.randint(MIN_MESSAGE_WORDS, MAX_MESSAGE_WORDS)
        )
        return " ".join(words).capitalize() + "."

    def question(self) -> str:
        """A question with two telling words, one of them rare, among common ones."""
        common = self._random.choices(self.words[:200], k=4)
        telling = [self._random.choice(self.words[200:1_000]), self._random.choice(self.words[1_000:])]
        return f"what was said on {' '.join([*common, *telling])}?"


@dataclass(frozen=True)
class BenchWorkspace:
    """The cast of the benches."""

    ana: Member
    dora: Member
    vibe: Agent
    channel: Channel
    language: SyntheticLanguage

    @property
    def by(self) -> Access:
        return member_access(self.ana)


def make_bench_workspace(*, level: int = 2) -> BenchWorkspace:
    """Two members and an agent (L2) with a SOUL, instructions on three levels and open feedback."""
    language, number = SyntheticLanguage(), User.objects.count()
    ana = create_workspace(name="Bench", owner=User.objects.create_user(f"ana-{number}@bench.invalid", name="Ana"))
    dora_user = User.objects.create_user(f"dora-{number}@bench.invalid", name="Dora")
    dora = add_member(workspace=ana.workspace, user=dora_user, role=Member.Role.MEMBER, handle="dora")
    by = member_access(ana)
    instructions = "\n".join(f"- {language.message()}" for _ in range(6))
    update_workspace(
        workspace=ana.workspace, by=by, name="Bench", description=language.message(), instructions=instructions
    )
    channel = create_channel(by=by, name="bench", description=language.message())
    channel.instructions = language.message()
    channel.save(update_fields=["instructions"])
    vibe = create_agent(by=by, workspace=ana.workspace, handle="vibe", name="Vibe", soul=VIBE_SOUL)
    set_trust_level(agent=vibe, by=by, level=level, note="bench")
    add_to_channel(channel=channel, participant=vibe.participant, by=by)
    for n in range(12):
        kind = Episode.Kind.FEEDBACK_RECEIVED if n % 2 else Episode.Kind.values[0]
        EpisodeFactory.create(agent=vibe.participant, channel=channel, kind=kind, summary=language.message())
    vibe = Agent.objects.select_related("participant", "workspace", "soul", "endpoint").get(pk=vibe.pk)
    return BenchWorkspace(ana, dora, vibe, channel, language)


def make_thread(world: BenchWorkspace, messages: int) -> Thread:
    """A thread of that many messages, two members taking turns, written past the triggers as an import does."""
    return make_threads(world, 1, messages)[0]


def make_threads(world: BenchWorkspace, threads: int, messages: int) -> list[Thread]:
    """Makes that many threads of so many messages each, as `make_thread` makes one."""
    last = FIRST_MESSAGE_AT + timedelta(minutes=messages)
    made = [
        Thread(channel=world.channel, workspace_id=world.channel.workspace_id, created_by=world.ana.participant)
        for _ in range(threads)
    ]
    for thread in made:
        thread.title, thread.last_seq, thread.last_message_at = f"{messages:,} messages", messages, last
    Thread.objects.bulk_create(made)
    with connect_bare() as connection, connection.cursor() as cursor, cursor.copy(_copy_statement()) as copy:
        for thread in made:
            for row in _message_rows(world, thread, messages):
                copy.write_row(row)
    return made


def vacuum_messages() -> None:
    """Gives the planner its statistics, and the text index its final form."""
    with connect_bare() as new_connection:
        new_connection.execute(f"VACUUM ANALYZE {connection.ops.quote_name(Message._meta.db_table)}")


def _copy_statement() -> str:
    return f"COPY {Message._meta.db_table} ({MESSAGE_COLUMNS}) FROM STDIN"


def _message_rows(world: BenchWorkspace, thread: Thread, messages: int) -> Iterator[tuple[object, ...]]:
    authors = (world.ana.participant_id, world.dora.participant_id)
    for seq in range(1, messages + 1):
        body = world.language.message()
        at = FIRST_MESSAGE_AT + timedelta(minutes=seq)
        lexemes = make_tsvector((body, BODY))
        yield (
            *(thread.pk, seq, authors[seq % 2], "text", "complete", body, "", "", count_tokens(body), at),
            *(lexemes, VERSION),
        )


EMBEDDED_TABLES = tuple(model._meta.db_table for model in (Message, MessageVector, Entry, EntryVector))
BATCH_SIZE = 5_000
MIXED_PERIOD = 10
"""The period of mixed knowledge: one entry in so many is restricted, one has expired and waits for review, one expired
unseen."""


def make_entries(world: BenchWorkspace, entries: int, *, mixed: bool = False) -> None:
    """Entries past the services, and waiting for their vectors as ever. All hold and are shared, unless `mixed`."""
    entry_rows = _entry_rows(world, entries, mixed)
    while rows := list(islice(entry_rows, BATCH_SIZE)):
        Entry.objects.bulk_create(rows)


def embed_all() -> None:
    """All vectors, as the jobs make them, and the HNSW indexes that gave way to many at once; the tables settled."""
    for embed_waiting in (embed_messages, embed_entries):
        while embed_waiting():
            pass
    advance_spaces()
    with connect_bare() as new_connection:
        for table in EMBEDDED_TABLES:
            new_connection.execute(f"VACUUM ANALYZE {connection.ops.quote_name(table)}")


def _entry_rows(world: BenchWorkspace, entries: int, mixed: bool) -> Iterator[Entry]:
    author, long_ago = world.ana.participant_id, timezone.now() - timedelta(days=1)
    for number in range(entries):
        content = world.language.message()
        entry = Entry(
            workspace_id=world.ana.workspace_id,
            topic=content[:40],
            content=content,
            tokens=count_tokens(content),
            author_id=author,
            owner_id=author,
        )
        position = number % MIXED_PERIOD if mixed else MIXED_PERIOD
        if position == 0:
            entry.visibility = Entry.Visibility.RESTRICTED
        elif position in (1, 2):
            entry.expires_at = long_ago
        if position == 1:
            entry.status, entry.reason = Entry.Status.NEEDS_REVIEW, Entry.Reason.EXPIRED
        yield entry

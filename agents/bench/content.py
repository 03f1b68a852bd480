"""A workspace to measure in: threads of any length, said in a made-up language with the statistics of a real one."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from django.db import connection

from agents.bench.scratch import bare_connection
from agents.demo import SOUL
from agents.models import Agent
from agents.services import create_agent, set_trust_level
from memory.models import Episode
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import add_to_channel, create_channel, create_thread
from openvibe.llm.tokens import count
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import access_of_member, add_member, create_workspace, edit_workspace

SEED = 20_260_301
WORDS = 6_000
SHORTEST, LONGEST = 15, 60  # words of a message
BEGINNING = datetime(2025, 1, 6, 9, 0, tzinfo=UTC)
SYLLABLES = [consonant + vowel for consonant in "bdgklmnprstv" for vowel in "aeiou"]
COLUMNS = "thread_id, seq, author_id, kind, state, body, call_id, client_id, token_count, created_at"


class Language:
    """Seeded words, a few of them very frequent (Zipf's law, exponent 1), and sentences made of them."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        made: dict[str, None] = {}
        while len(made) < WORDS:
            longest = 2 if len(made) < 800 else 4  # frequent words are short
            made["".join(self._random.choices(SYLLABLES, k=self._random.randint(1, longest)))] = None
        self.words = list(made)
        self._weights = list(accumulate(1 / rank for rank in range(1, len(self.words) + 1)))

    def message(self) -> str:
        words = self._random.choices(self.words, cum_weights=self._weights, k=self._random.randint(SHORTEST, LONGEST))
        return " ".join(words).capitalize() + "."

    def question(self) -> str:
        """A question with two telling words, one of them rare, among common ones."""
        common = self._random.choices(self.words[:200], k=4)
        telling = [self._random.choice(self.words[200:1_000]), self._random.choice(self.words[1_000:])]
        return f"what was said on {' '.join([*common, *telling])}?"


@dataclass(frozen=True)
class World:
    """The cast of the benches."""

    ana: Member
    dora: Member
    vibe: Agent
    channel: Channel
    language: Language

    @property
    def by(self) -> Access:
        return access_of_member(self.ana)


def make_world(*, level: int = 2) -> World:
    """Two members and an agent (L2) with a SOUL, instructions on three levels and open feedback."""
    language, number = Language(), User.objects.count()
    ana = create_workspace(name="Bench", owner=User.objects.create_user(f"ana-{number}@bench.invalid", name="Ana"))
    dora_user = User.objects.create_user(f"dora-{number}@bench.invalid", name="Dora")
    dora = add_member(workspace=ana.workspace, user=dora_user, role=Member.Role.MEMBER, handle="dora")
    by = access_of_member(ana)
    instructions = "\n".join(f"- {language.message()}" for _ in range(6))
    edit_workspace(
        workspace=ana.workspace, by=by, name="Bench", description=language.message(), instructions=instructions
    )
    channel = create_channel(by=by, name="bench", description=language.message())
    channel.instructions = language.message()
    channel.save(update_fields=["instructions"])
    vibe = create_agent(by=by, workspace=ana.workspace, handle="vibe", name="Vibe", soul=SOUL)
    set_trust_level(agent=vibe, by=by, level=level, note="bench")
    add_to_channel(channel=channel, participant=vibe.participant, by=by)
    for n in range(12):
        kind = Episode.Kind.FEEDBACK_RECEIVED if n % 2 else Episode.Kind.values[0]
        Episode.objects.create(agent=vibe.participant, channel=channel, kind=kind, summary=language.message())
    vibe = Agent.objects.select_related("participant", "workspace", "soul", "endpoint").get(pk=vibe.pk)
    return World(ana, dora, vibe, channel, language)


def make_thread(world: World, messages: int) -> Thread:
    """A thread of that many messages, two members taking turns, written past the triggers as an import does."""
    thread = create_thread(channel=world.channel, by=world.by, title=f"{messages:,} messages")
    with bare_connection() as bare, bare.cursor() as cursor, cursor.copy(_copy_statement()) as copy:
        for row in _rows(world, thread, messages):
            copy.write_row(row)
    last = BEGINNING + timedelta(minutes=messages)
    Thread.objects.filter(pk=thread.pk).update(last_seq=messages, last_message_at=last)
    thread.refresh_from_db()
    return thread


def settle() -> None:
    """Give the planner its statistics, and the text index its final form."""
    with bare_connection() as bare:
        bare.execute(f"VACUUM ANALYZE {connection.ops.quote_name(Message._meta.db_table)}")


def _copy_statement() -> str:
    return f"COPY {Message._meta.db_table} ({COLUMNS}) FROM STDIN"


def _rows(world: World, thread: Thread, messages: int) -> Iterator[tuple[object, ...]]:
    authors = (world.ana.participant_id, world.dora.participant_id)
    for seq in range(1, messages + 1):
        body = world.language.message()
        at = BEGINNING + timedelta(minutes=seq)
        yield thread.pk, seq, authors[seq % 2], "text", "complete", body, "", "", count(body), at

"""What other floors plug into chat (signals, registers), and what chat plugs into search (the vectors of messages).

Every text and every dive result that stands is embedded, of all threads: people search their own threads too. Tool
calls and system messages have no vector. A message's pair is it and the message right before it, where that one has
a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.db import connection
from django.db.models.functions import Left
from django.dispatch import Signal
from psycopg import sql

from openvibe.base.quotation import MAX_NAME_TEXTS, MAX_VALUE_TEXTS, Quotation, Value
from openvibe.chat.models import DiveResult, Message, Quote, Thread
from openvibe.chat.search.rows import MESSAGES
from openvibe.engines.database.locks import LockKind
from openvibe.engines.registers import Register
from openvibe.engines.search.expressions import name_prefix_tsquery
from openvibe.engines.search.indexing import VECTOR_TABLES, EmbeddableText, VectorTable, embed_pending
from openvibe.engines.text.tokenizer import fold, is_unspaced, strip_accents
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Participant

# Sent inside the transaction that wrote the message, after its mentions:
#   message: Message
#   mentioned_agents: tuple[int, ...], participants, in order of appearance
#   following_agents: tuple[int, ...], participants that answer everything in the thread
# Only for messages people post; an agent's reply, an import and an edit ring nothing.
message_posted = Signal()

# Sent inside the transaction that wrote the message, of an agent that posts it by itself: no reply that a run writes.
#   message: Message
agent_posted = Signal()

# Sent after an import has written messages:
#   thread: Thread, the one they were written into
conversation_imported = Signal()

# Sent inside the transaction that edited or deleted the message, as the last thing in it:
#   message: Message, as it is now (`is_deleted` tells which of the two it was)
# Never sent for an edit that changed nothing, and once for each deletion.
message_revised = Signal()

# Sent inside the transaction that renamed it:
#   workspace_id: int
#   name, previous_name: str, without "#"
channel_renamed = Signal()

# Sent inside the transaction that did it, the dive's row locked:
#   dive: Dive
# `dive_started` before the first message is posted; `dive_ended` once it is published (`dive.result` is the message)
# or discarded. Whoever works in the dive stops; a listener may raise a Problem, and then the dive goes on.
dive_started = Signal()
dive_ended = Signal()

# Sent inside the transaction that asked for the draft of a result:
#   message: Message, of kind system, in the dive's thread: the reply to it is the draft
#   dive: Dive
# A listener raises Conflict when the agent is not free yet.
draft_requested = Signal()

MessageDecorator = Callable[[Sequence[Message], Access], Mapping[int, Mapping[str, object]]]
MESSAGE_DECORATORS: Register[MessageDecorator] = Register("openvibe.chat.wiring.MESSAGE_DECORATORS")
"""What a page shows with each message, by message id: frozen values, under names that no other decorator uses. A
constant number of queries for any number of messages."""

PERSONAL_MESSAGE_VIEWS: Register[Callable[[Sequence[Message]], Mapping[int, Collection[int]]]] = Register(
    "openvibe.chat.wiring.PERSONAL_MESSAGE_VIEWS"
)
"""Participants to whom a decorator shows something of their own at a message, by message id: to all others of one role
it shows the same."""

SIDEBAR_EXTRAS: Register[Callable[[Access], Mapping[str, object]]] = Register("openvibe.chat.wiring.SIDEBAR_EXTRAS")
"""What the sidebar shows besides channels and people, by names that its template reads."""

PERSON_EXTRAS: Register[Callable[[Participant, Access], Mapping[str, object]]] = Register(
    "openvibe.chat.wiring.PERSON_EXTRAS"
)
"""What the card of a person or an agent shows to somebody besides who it is, by names that its template reads. A
constant number of queries."""

PENDING_DECISIONS: Register[Callable[[Thread], int]] = Register("openvibe.chat.wiring.PENDING_DECISIONS")
"""How many decisions of people are waited for in a thread, for the head of its page."""


@dataclass(frozen=True)
class InboxNote:
    """A line of the inbox: something that needs the reader, and where."""

    href: str
    text: str
    at: datetime


INBOX_NOTES: Register[Callable[[Access], Sequence[InboxNote]]] = Register("openvibe.chat.wiring.INBOX_NOTES")
"""What needs the reader besides new messages, the newest first."""


@dataclass(frozen=True)
class FirstStep:
    """Something that a newcomer may try, where, and whether it was done."""

    text: str
    href: str
    is_done: bool


FIRST_STEPS: Register[Callable[[Member, Access], Sequence[FirstStep]]] = Register("openvibe.chat.wiring.FIRST_STEPS")
"""The checklist of the inbox, in its order, for a member to whom it is shown. One query."""


QUESTION_IDEAS: Register[Callable[[Thread, Member], Sequence[str]]] = Register("openvibe.chat.wiring.QUESTION_IDEAS")
"""Questions that a member may ask in a thread with one click. No query."""


@dataclass(frozen=True)
class Place:
    """Somewhere to go. `key`: a letter for its kind and its id; `detail`: what it is, in words."""

    key: str
    name: str
    detail: str
    href: str


@dataclass(frozen=True)
class PlaceQuery:
    """The first words of names, as somebody types them, and the keys of the places where she was, the newest first."""

    slug: str
    text: str
    recent: Sequence[str] = ()
    limit: int = 8

    @cached_property
    def tsquery(self) -> str:
        """Every word begins a word of the name, what signs join as it stands; empty without words."""
        return name_prefix_tsquery(self.text[:100])

    @property
    def like_patterns(self) -> list[str]:
        """The same for `LIKE ALL`, of a name without accents that begins with a blank."""
        words = (strip_accents(fold(word)) for word in self.text[:100].split()[:8])
        stripped_words = (re.sub(r"^\W+|\W+$", "", word) or word for word in words if word)
        return [_like_pattern(word) for word in stripped_words]

    def recent_ids(self, kind: str) -> list[int]:
        """The recent ids of one kind, by the letter of its keys."""
        return [int(key[1:]) for key in self.recent if key.startswith(kind)]


def _like_pattern(word: str) -> str:
    begins_a_word = "%" if is_unspaced(word) else "% "
    return begins_a_word + re.sub(r"([\\%_])", r"\\\1", word) + "%"


PLACE_SOURCES: Register[Callable[[Access, PlaceQuery], Sequence[Place]]] = Register(
    "openvibe.chat.wiring.PLACE_SOURCES"
)
"""The other places to which the command palette goes, the recent ones first; one statement each, over an index. Without
words: those of the query's recent places that the asker may see."""


@dataclass(frozen=True)
class LinkPreview:
    """What a link to something says of it: its title, who wrote it, its first words as plain text, and when."""

    title: str
    author: str
    words: str
    at: datetime | None = None


@dataclass(frozen=True)
class LinkKind:
    """Something with a page of its own that messages link to. `read`: of these ids those that the asker may see; one
    query. `name` begins a reference to it, as in `knowledge-5`."""

    name: str
    read: Callable[[Access, Sequence[int]], Mapping[int, LinkPreview]]


LINK_KINDS: Register[LinkKind] = Register("openvibe.chat.wiring.LINK_KINDS")
"""What links may lead to besides threads, messages and files."""


CITATION_KINDS = ("message", "knowledge", "file", "image", "work")


@dataclass(frozen=True)
class Citation:
    """Something that an answer cites and the asker may see. `words` are the answer's, where they stand for the
    `occurrence`-th time (from 0) in its texts; empty for what it repeats without naming it.

    `kind`: one of CITATION_KINDS; `ref`: the id of its row; `label` and `author` say what it is.
    `path` leads to it, `context_path` to where the answer's prompt holds it, empty where that is kept no more. Both
    are paths from the root.
    """

    words: str
    occurrence: int
    kind: str
    ref: int
    label: str
    author: str
    path: str
    context_path: str = ""

    @property
    def reference(self) -> str:
        """The name by which its preview is asked for."""
        return f"{self.kind}-{self.ref}"

    @property
    def address(self) -> str:
        """The place where a click leads: the item in the answer's prompt, or the thing itself."""
        return self.context_path or self.path

    @property
    def opens_panel(self) -> bool:
        """Whether it is shown beside the page."""
        return self.kind in ("file", "work") or bool(self.context_path)


CITATIONS: Register[Callable[[Sequence[int], Access], Mapping[int, tuple[Citation, ...]]]] = Register(
    "openvibe.chat.wiring.CITATIONS"
)
"""What agents' messages cite, by their ids, as the asker may see it. One query."""


REPLY_DENIED_REASONS: Register[Callable[[Sequence[Participant], Thread, str], Mapping[int, str]]] = Register(
    "openvibe.chat.wiring.REPLY_DENIED_REASONS"
)
"""The reasons why agents may not take part in a dive (the task `dive` or `publish`), as sentences by participant id. A
constant number of queries."""


@dataclass(frozen=True)
class ToolChoice:
    """Something of agents that a channel may name as allowed there. `name`: as the channel keeps it; `group`: the
    heading under which people find it."""

    name: str
    label: str
    group: str


TOOL_CHOICES: Register[Callable[[int], Sequence[ToolChoice]]] = Register("openvibe.chat.wiring.TOOL_CHOICES")
"""All that there is to choose from in a workspace (its id), in the order in which it is shown. One query."""

ANSWERED_CHANNELS: Register[Callable[[Access], Collection[int]]] = Register("openvibe.chat.wiring.ANSWERED_CHANNELS")
"""The ids of the channels in which an agent that answers through the API was asked and is not done. One query."""


@dataclass(frozen=True)
class ErasedText:
    """What a message said before it was deleted, or edited: nothing that is stored may say it any more.

    `quotation` finds it; `seq` is the message's, `erased_at` is when it was deleted or edited. What is dated before
    `quotable_since` says nothing of it.
    """

    message_id: int
    thread_id: int
    workspace_id: int
    seq: int
    quotable_since: datetime
    erased_at: datetime
    quotation: Quotation


@dataclass(frozen=True)
class TextEraser:
    """Rewrites what an app stored of a text. `name` is for people, in the plural; `erase` says how many it rewrote, and
    may be called again."""

    name: str
    erase: Callable[[ErasedText], int]


TEXT_ERASERS: Register[TextEraser] = Register("openvibe.chat.wiring.TEXT_ERASERS")
"""The erasers of those who store texts of messages in another form."""


@dataclass(frozen=True)
class QuotingText:
    """A text that may repeat a message: the id of its row, all that it says, and who keeps it (a participant)."""

    ref: int
    text: str
    owner_id: int | None


@dataclass(frozen=True)
class QuotePlace:
    """The place where such a text stands, for somebody who may see it. `href`: empty where no page shows it to her;
    `advice`: what to do where it cannot be deleted here."""

    title: str
    href: str
    may_delete: bool
    advice: str = ""


@dataclass(frozen=True)
class QuoteKind:
    """A kind of text that people and agents write, and that may repeat a message.

    `texts`: those of the message's workspace written or changed since the message; it may leave out what the quotation
    is not in. `places`: of these rows the ones the
    asker may see, by id; addresses begin with the workspace's slug. `erase` deletes one; it raises what its service
    does.
    """

    name: str
    label: str
    texts: Callable[[Message, Quotation], Iterable[QuotingText]]
    places: Callable[[Access, Sequence[int], str], Mapping[int, QuotePlace]]
    erase: Callable[[int, Access], None]


QUOTE_KINDS: Register[QuoteKind] = Register("openvibe.chat.wiring.QUOTE_KINDS")
"""The kinds of places where the words of a message may stand besides the message."""


MAX_FILE_CHARACTERS = 100_000
"""The most characters of each file, characters from its beginning that are looked for in other texts: as many as a
message may have."""


def message_texts(message: Message) -> list[str]:
    """All that a message says: its text, what it said before, all of its result, its files' beginnings and names, what
    its images are called and show."""
    files = message.attachments.annotate(beginning=Left("content", MAX_FILE_CHARACTERS)).order_by("position")
    return [
        message.body,
        *message.revisions.values_list("body", flat=True),
        *("\n".join((row.full, *row.deferred, *row.questions)) for row in DiveResult.objects.filter(message=message)),
        *(text for file in files.values_list("beginning", "name") for text in file),
        *(text for image in message.images.values_list("description", "name") for text in image),
    ]


def find_quotes(message: Message, quotation: Quotation) -> list[Quote]:
    """What repeats these words of the message, or names a value of it that is rare in its workspace; not stored."""
    if not quotation:
        return []
    found: list[tuple[Quote, bool, set[Value]]] = []
    counts: Counter[Value] = Counter()
    for kind in QUOTE_KINDS:
        for text in kind.texts(message, quotation):
            is_repeated, values = quotation.is_in(text.text), set(quotation.values_in(text.text))
            counts.update(values)
            if is_repeated or values:
                quote = Quote(message=message, kind=kind.name, ref=text.ref, owner_id=text.owner_id)
                found.append((quote, is_repeated, values))
    known_names = _names_of_participants(message) if any(value.is_name for value in counts) else set()
    rare_values = {
        value
        for value, count in counts.items()
        if count <= (MAX_NAME_TEXTS if value.is_name else MAX_VALUE_TEXTS) and value.runs.isdisjoint(known_names)
    }
    return [quote for quote, is_repeated, values in found if is_repeated or values & rare_values]


def _names_of_participants(message: Message) -> set[str]:
    """Names of people and agents of the workspace, whole and in their parts: they stand everywhere."""
    names = Participant.objects.filter(workspace=message.thread.workspace_id).values_list("name", "handle")
    return {part.casefold() for pair in names for name in pair for part in (name, *name.split())}


_SELECT_MESSAGES = sql.SQL(
    "SELECT m.id, m.thread_id, m.seq, left(m.body, 20000), p.name, m.kind IN ('text', 'dive_result')"
    " AND m.state IN ('complete', 'stopped') AND m.deleted_at IS NULL"
    " FROM chat_message m JOIN workspaces_participant p ON p.id = m.author_id WHERE {where}{lock}"
)
_WITH_IDS = sql.SQL("m.id = ANY(%s)")
_WITH_SEQS = sql.SQL("(m.thread_id, m.seq) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))")
_FOR_SHARE = sql.SQL(" ORDER BY m.id FOR SHARE OF m")


def embed_pending_messages(space_id: int | None = None, limit: int = 100_000, *, seconds: float | None = None) -> int:
    """Makes the vectors of messages that wait, in one space or in all; returns how many. See `embed_pending`."""
    return embed_pending(MESSAGE_VECTORS, space_id=space_id, limit=limit, seconds=seconds)


def _load_texts(ids: Sequence[int], locked: bool) -> dict[int, EmbeddableText]:
    """The texts of these messages, each with the one before it."""
    rows = _select_messages(_WITH_IDS, [list(ids)], locked)
    texts = {place: text for place, (_, _, text) in rows.items()}
    previous = [(thread, seq - 1) for (thread, seq), text in texts.items() if text is not None and seq > 1]
    if missing_places := [place for place in previous if place not in texts]:
        more = _select_messages(_WITH_SEQS, [list(numbers) for numbers in zip(*missing_places, strict=True)], locked)
        texts |= {place: text for place, (_, _, text) in more.items()}
    return {
        item: EmbeddableText(item, text, texts.get((thread, seq - 1)), (thread, seq), heading)
        for (thread, seq), (item, heading, text) in rows.items()
        if text is not None
    }


def _select_messages(
    where: sql.SQL, values: list[list[int]], locked: bool
) -> dict[tuple[int, int], tuple[int, str, str | None]]:
    """The texts by thread and seq: the id, "name: ", and "name: body" where the message is one that has a vector."""
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_MESSAGES.format(where=where, lock=_FOR_SHARE if locked else sql.SQL("")), values)
        return {
            (thread, seq): (item, f"{name}: ", f"{name}: {body}" if is_eligible else None)
            for item, thread, seq, body, name, is_eligible in cursor
        }


MESSAGE_VECTORS = VectorTable(
    label="messages",
    corpus=MESSAGES,
    queue_table="chat_messagetoembed",
    lock_kind=LockKind.MESSAGE_VECTORS,
    eligible_sql=(
        "SELECT m.id FROM chat_message m JOIN chat_thread t ON t.id = m.thread_id"
        " WHERE t.workspace_id = %(workspace)s AND m.kind IN ('text', 'dive_result')"
        " AND m.state IN ('complete', 'stopped') AND m.deleted_at IS NULL"
    ),
    load_texts=_load_texts,
    extra_columns=("thread_id", "seq"),
    has_pairs=True,
)


def wire() -> None:
    VECTOR_TABLES.add(MESSAGE_VECTORS)

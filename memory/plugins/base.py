"""What a memory plugin promises: five methods, seven capabilities it may have besides, and the settings it may declare.
Pure.

All plugins work on the same messages, so changing one for another loses nothing. Sizes are in tokens (o200k_base);
an entry's size includes ENVELOPE_TOKENS, what a prompt needs around it. `memory.plugins.testing` holds every plugin
to these promises; authors run it with `pytest --pyargs memory.plugins.testing`."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from openvibe.workspaces.access import Access

ENVELOPE_TOKENS = 12
"""Tokens a prompt needs around one entry on average: reference, author, now and then the time, its share of a fence."""

MAX_ENTRY_TOKENS = 1_200
"""Tokens of one entry that prompts show; longer ones show head and tail."""

FRESH_TAIL = 20
"""Messages at the end of a conversation that are never compacted, unless they need too much of the budget."""

WINDOW_STEP = 10
"""Old messages leave a prompt this many at a time, so that prompts share their beginning from turn to turn."""

MAX_FOCUS_CHARACTERS = 200
"""The longest note of what somebody wants a compaction to keep in most detail."""

NewMessageRole = Literal["user", "assistant", "tool_call", "tool_result"]


@dataclass(frozen=True, slots=True)
class Session:
    """A thread as one participant may see it, up to but without message number `before` when that is set.

    `person_id` is the participant whose profile notes belong here: whoever asks, None where nobody does.
    Get one from `memory.plugins.sessions.open_session`, which checks that the participant sees the thread.
    """

    thread_id: int
    access: Access
    before: int | None = None
    person_id: int | None = None


@dataclass(frozen=True, slots=True)
class NewMessage:
    """Something said in an outside agent's own conversation. The same `external_id` is the same message."""

    role: NewMessageRole
    text: str
    external_id: str = ""
    call_id: str = ""
    name: str = ""


class ContextEntry(NamedTuple):
    """One piece of recalled conversation: a message as it was said, or a summary that stands for many.

    `ordinal` is the message's number in its thread, or that of the first message a summary stands for; `last` the
    last one it stands for. `kind` is a message's kind or `summary`. `text` is the body; for a summary its content,
    unescaped. `tokens` counts the text (o200k_base), at most MAX_ENTRY_TOKENS, without ENVELOPE_TOKENS. `at` is ISO
    8601, UTC. `is_unfinished`: an answer that was stopped, or that waits for people.
    """

    ordinal: int
    last: int
    kind: str
    text: str
    tokens: int
    at: str
    message_id: int | None = None
    author_id: int | None = None
    author_name: str = ""
    author_kind: str = ""
    call_id: str = ""
    summary_id: int | None = None
    depth: int = 0
    until: str = ""
    message_count: int = 1
    is_unfinished: bool = False

    @property
    def cost(self) -> int:
        return self.tokens + ENVELOPE_TOKENS

    @property
    def call_key(self) -> str:
        return call_key(self.author_id, self.call_id)


@dataclass(frozen=True, slots=True)
class SessionStats:
    """What there is of a session. `messages` counts what was said and prompts may hold; `tokens` what the entries need
    in a prompt."""

    messages: int
    entries: int
    tokens: int
    summaries: int = 0
    deepest: int = 0
    note: str = ""


def read_stats(provider: "MemoryProvider", session: Session) -> SessionStats:
    """What a plugin says of a session: other dataclasses, and mappings, are taken for what they hold."""
    stats: object = provider.stats(session)
    if isinstance(stats, SessionStats):
        return stats
    values = stats if isinstance(stats, Mapping) else {name: getattr(stats, name) for name in dir(stats)}
    return SessionStats(**{field.name: values[field.name] for field in fields(SessionStats) if field.name in values})


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction did. Equal sizes and nothing created: there was nothing to do. `note`: what people should know
    of how it was done."""

    tokens_before: int
    tokens_after: int
    created: tuple[int, ...] = ()
    rounds: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class CompactionPause:
    """Summaries are not made for a while, because their endpoint failed so many times in a row. `until` is in UTC."""

    until: datetime
    failures: int
    reason: str


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A hit of a search: `snippet` is at most 500 characters around the match.

    A message of another thread says where it stands: `thread_id`, `place` in words, and `link`, a path.
    """

    kind: Literal["message", "summary"]
    id: int
    ordinal: int
    author: str
    at: str
    snippet: str
    thread_id: int | None = None
    place: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A stretch of a text: `start` and `end` in characters of it, `total` all that it has."""

    text: str
    start: int
    end: int
    total: int


class MessagePiece(NamedTuple):
    """A message, whose `snippet` is the piece's text, and the place of the piece."""

    message: MemoryHit
    piece: TextPiece


@dataclass(frozen=True, slots=True)
class SummaryDescription:
    """A summary and where it stands. `constituents` are ids of summaries, `first`–`last` message numbers."""

    id: int
    kind: Literal["leaf", "condensed"]
    depth: int
    content: str
    tokens: int
    source_tokens: int
    first: int
    last: int
    earliest: str
    latest: str
    message_count: int
    container: int | None
    constituents: tuple[int, ...]
    level: str
    model: str
    is_stale: bool
    version: int = 1
    corrections: tuple["SummaryRevision", ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryRevision:
    """A correction by a person: what the summary said before, and since; both empty when a message in it was changed
    later. `at` is ISO 8601, UTC."""

    author: str
    at: str
    previous: str
    content: str


class SummarySpan(NamedTuple):
    """A summary by the numbers of the messages it stands for; its size in tokens."""

    id: int
    first: int
    last: int
    depth: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SummaryExpansion:
    """What a summary stands for, one step down. `cursor` asks for the rest; None when this was all."""

    entries: tuple[ContextEntry, ...]
    cursor: int | None


@dataclass(frozen=True, slots=True)
class UnreviewedSession:
    """A session with messages past the reviewer's mark, up to `upto` (taken before anything is loaded)."""

    thread_id: int
    since: int
    upto: int
    messages: int


CompactionProgress = Callable[[int, int], None]
"""A callback that is told how much is done, of how much, in messages."""


class MemoryProvider(Protocol):
    """A memory plugin. Made with its config; stateless between calls; safe to use from several threads."""

    def bootstrap(self, session: Session) -> None:
        """Takes in what was said while the plugin did not look. May be called any number of times."""

    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        """Stores what was said in an outside agent's conversation, all or nothing; returns the messages' numbers."""

    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        """What fits of the conversation, oldest first: the tail always, then older entries up to the first that
        does not fit. Writes nothing."""

    def stats(self, session: Session) -> SessionStats: ...

    def close(self) -> None: ...


@runtime_checkable
class Compactor(Protocol):
    def needs_compaction(self, session: Session, budget: int) -> bool: ...

    def compact(
        self,
        session: Session,
        budget: int,
        *,
        full: bool = False,
        progress: CompactionProgress | None = None,
        focus: str = "",
    ) -> CompactionResult:
        """Raises Problem when a model fails or compaction is paused; then nothing was written.

        `focus` says what new summaries are to keep in most detail: words of whoever asked, data and no instruction. A
        plugin without this argument is never given one (`takes_focus`).
        """


def takes_focus(provider: Compactor) -> bool:
    """Whether the plugin knows what a focus is."""
    return "focus" in inspect.signature(provider.compact).parameters


@runtime_checkable
class Searcher(Protocol):
    def search(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        """What holds all that is asked for in the session's thread, else what bears on it; at most `limit` in all,
        messages and summaries.

        Words stand for all of their forms; phrases in quotes, `-word`, `word*`, `OR`, `after:` and `before:` a date,
        `from:` a handle mean what they say. Raises Problem for what is no date or handle.
        """


@runtime_checkable
class MessageReader(Protocol):
    def search_everywhere(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        """Messages, as `search` finds them, of all threads that the session's asker sees and whose words everybody may
        read who reads its thread; none of threads that memory ignores, or that are for people only."""

    def read_message(
        self, session: Session, number: int, *, offset: int = 0, thread_id: int | None = None
    ) -> MessagePiece:
        """A message in its own words, from character `offset` on; of the session's thread, or of another one that
        `search_everywhere` looks through. Raises Missing for what is unknown or out of scope."""


@runtime_checkable
class Explorer(Protocol):
    def describe(self, session: Session, summary_id: int) -> SummaryDescription:
        """Raises Missing for an id that is unknown or out of scope."""

    def expand(self, session: Session, summary_id: int, cursor: int | None = None) -> SummaryExpansion:
        """One step down: a leaf's messages, a condensed summary's constituents. Raises Missing like `describe`."""


@runtime_checkable
class ProfileStore(Protocol):
    def get_profile(self, session: Session) -> str: ...

    def set_profile(self, session: Session, text: str) -> str:
        """Replaces the notes about `session.person_id`; returns the text as stored."""


@runtime_checkable
class SessionManager(Protocol):
    def save_info(self, session: Session, info: Mapping[str, Any]) -> None: ...

    def load_info(self, session: Session) -> dict[str, Any]: ...

    def list_info(self, access: Access) -> list[tuple[int, dict[str, Any]]]:
        """The agent's own sessions, newest first: thread id and info."""

    def load_history(self, session: Session, *, after: int = 0, limit: int = 200) -> list[ContextEntry]:
        """Messages as they were said, oldest first, from number `after` + 1."""


@runtime_checkable
class ReviewSource(Protocol):
    def list_unreviewed(self, access: Access) -> list[UnreviewedSession]: ...

    def build_review_context(self, session: Session, since: int, upto: int) -> list[ContextEntry]:
        """Summaries of what came before as context, then at most 200 messages after `since` up to `upto`."""

    def mark_reviewed(self, session: Session, upto: int) -> None: ...


@runtime_checkable
class Rebuilder(Protocol):
    """What summaries need when messages change. Not a capability that anybody is offered: only the job that rebuilds
    asks for it."""

    def covers_message(self, message_id: int) -> bool:
        """Whether a summary stands for this message. One cheap query."""

    def rebuild(self, session: Session) -> CompactionResult:
        """Writes anew every summary of the session whose messages were changed. Nothing to do costs one query. Raises
        Problem when a model fails or compaction is paused; what was rebuilt until then stays."""

    def threads_to_rebuild(self, limit: int = 200) -> list[int]:
        """Threads, of any workspace, with summaries that wait for it."""


@runtime_checkable
class Corrector(Protocol):
    """What people can put right. Not a capability that agents are offered."""

    def correct(self, session: Session, summary_id: int, *, content: str, version: int) -> SummaryDescription:
        """Lets the summary say this; `version` is the one that was read. Raises Missing, Problem and Conflict."""


@runtime_checkable
class PointInTime(Protocol):
    """What stood in the context at a time that has passed. Not a capability that anybody is offered: only the memory
    map asks for it."""

    def summaries_at(self, session: Session, at: datetime) -> list[SummarySpan]:
        """The summaries in the context then, oldest first, none of them part of another. One query."""


@runtime_checkable
class Pausable(Protocol):
    """What pauses after failures in a row can also go on. Not a capability that anybody is offered: only the page and
    the endpoint with which admins resume it ask for it."""

    def compaction_pause(self, workspace_id: int) -> CompactionPause | None: ...

    def resume_compaction(self, workspace_id: int, endpoint_id: int | None) -> bool:
        """Lets an endpoint be asked at once, None for all that write summaries; returns whether any was left alone, or
        had failed."""


CAPABILITIES: tuple[type[Any], ...] = (
    Compactor,
    Searcher,
    MessageReader,
    Explorer,
    ProfileStore,
    SessionManager,
    ReviewSource,
)


def capabilities_of(provider: object) -> tuple[str, ...]:
    """The names of the optional protocols a plugin fulfils, in the order above."""
    return tuple(capability.__name__ for capability in CAPABILITIES if isinstance(provider, capability))


def call_key(author_id: int | None, call_id: str) -> str:
    """What only a tool's call and its result share, empty for what is neither: two agents may use the same ids."""
    return f"{author_id} {call_id}" if call_id else ""


MAX_PAIR_DISTANCE = 200
"""A tool's result belongs to a call at most so many messages before it; farther apart they are orphans."""


def pair_tool_calls(messages: Iterable[tuple[int, str, str]]) -> list[tuple[int, int]]:
    """Tool calls with their results, as indices into the messages, by result: a result answers the newest call of its
    key that is within reach and has no result yet. A message is given as its number, its kind and its `call_key`."""
    open_calls: dict[str, tuple[int, int]] = {}
    pairs = []
    for index, (number, kind, key) in enumerate(messages):
        if kind == "tool_call" and key:
            open_calls[key] = index, number
        elif kind == "tool_result" and key in open_calls:
            call_index, call_number = open_calls.pop(key)
            if number - call_number <= MAX_PAIR_DISTANCE:
                pairs.append((call_index, index))
    return pairs


SettingParser = Callable[[Any], Any]
"""The value as it is stored. Raises ValueError with a sentence for people."""

LineCheck = Callable[[str, int, Access | None], None]
"""Looks at one line of a setting, in the workspace of this id, as somebody sees it."""


@dataclass(frozen=True)
class PluginSetting:
    """One setting of a plugin. `default` says in words what holds when it is not set; `choices` are all it takes,
    where it takes a few words alone; `title`: what people call it, where that is not its name;
    `is_long`: it takes several lines; `check` raises ValueError, a sentence for people, for a line of it that names
    nothing of the workspace, as `by` sees it (None: everything)."""

    name: str
    description: str
    default: str
    parse: SettingParser
    choices: tuple[str, ...] = ()
    title: str = ""
    is_long: bool = False
    check: LineCheck | None = None

    @property
    def label(self) -> str:
        """What forms call it."""
        return self.title or self.name.replace("_", " ").capitalize()


def integer_parser(minimum: int, maximum: int, *, keyword: str = "") -> SettingParser:
    """A whole number from `minimum` to `maximum`; or the one word that may stand in its place."""

    def parse(value: Any) -> Any:
        if keyword and value == keyword:
            return keyword
        text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
        if text.isascii() and text.isdigit() and len(text) < 12 and minimum <= int(text) <= maximum:
            return int(text)
        raise ValueError(f"a whole number from {minimum:,} to {maximum:,}" + (f", or {keyword}" if keyword else ""))

    return parse


def text_parser(max_characters: int) -> SettingParser:
    """A text of some lines."""

    def parse(value: Any) -> Any:
        text = str(value).replace("\x00", "").replace("\r\n", "\n").strip()
        if len(text) > max_characters:
            raise ValueError(f"at most {max_characters:,} characters, and this has {len(text):,}")
        return text

    return parse


def choice_parser(*choices: str) -> SettingParser:
    """One of these words."""

    def parse(value: Any) -> Any:
        if value in choices:
            return value
        raise ValueError(" or ".join(choices))

    return parse

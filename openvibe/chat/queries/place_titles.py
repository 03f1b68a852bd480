"""What the places are called that messages name: channels by `#name`, threads, messages and entries by their address.

Read once for all messages of a page, each for who may see it."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import BigIntegerField, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast

from openvibe.base.params import MAX_ID
from openvibe.chat.models import Channel, Message, Thread, visible_threads
from openvibe.chat.wiring import LINK_KINDS
from openvibe.workspaces.access import Access

LOOPBACK_NAMES = ("localhost", "127.0.0.1")
MAX_PLACES = 100
"""Places of one page that are called by their names: the first."""

_ADDRESS = re.compile(
    r"/w/(?P<slug>[a-z0-9-]{1,100})/(?P<kind>t|m|knowledge)/(?P<pk>[0-9]{1,18})/?(?:\?at=[0-9]{1,18})?(?:#m-(?P<seq>[0-9]{1,18}))?(?![\w/?#-])"
)
CHANNEL_NAME = re.compile(r"(?<![\w#&/.\\-])#([a-z0-9][a-z0-9_-]{0,39})(?![\w-]|\.\w)")
_KINDS = {"t": "thread", "m": "message", "knowledge": "knowledge"}


class Place(NamedTuple):
    """A place as an address names it: `seq` of a message in its thread, 0 for none; `name` of a channel."""

    kind: str
    pk: int
    seq: int = 0
    name: str = ""


@dataclass(frozen=True)
class PlaceTitle:
    """A place that a message names, what it is called, and its path after the workspace's address."""

    place: Place
    title: str
    path: str


def parse_address(address: str, slug: str) -> Place | None:
    """The place of this workspace at an address, whole or by its path; None for any other."""
    origin = next((each for each in _own_origins(settings.PUBLIC_URL) if address.startswith(f"{each}/")), "")
    match = _ADDRESS.fullmatch(address.removeprefix(origin))
    return _place_of(match) if match and match["slug"] == slug else None


@lru_cache(maxsize=8)
def _own_origins(public_url: str) -> tuple[str, ...]:
    """The origins of this installation: on one's own machine it has two names."""
    origin = public_url.rstrip("/")
    url = urlsplit(origin)
    if url.hostname not in LOOPBACK_NAMES:
        return (origin,)
    return tuple(origin.replace(url.hostname, name, 1) for name in LOOPBACK_NAMES)


def _place_of(match: re.Match[str]) -> Place:
    kind, seq = _KINDS[match["kind"]], int(match["seq"] or 0)
    pk = min(int(match["pk"]), MAX_ID)
    return Place("message", pk, min(seq, MAX_ID)) if kind == "thread" and seq else Place(kind, pk)


def _named_places(body: str) -> Iterator[Place]:
    if "#" in body:
        for match in CHANNEL_NAME.finditer(body):
            yield Place("channel", 0, name=match[1])
    if "/w/" in body:
        for match in _ADDRESS.finditer(body):
            yield _place_of(match)


def read_place_titles(messages: Sequence[Message], access: Access) -> dict[int, tuple[PlaceTitle, ...]]:
    """The places that each of these messages names and the asker may see, by message id. One query, one more where
    entries are named; none without any."""
    named = {message.pk: list(dict.fromkeys(_named_places(message.body))) for message in messages}
    places = list(dict.fromkeys(place for row in named.values() for place in row))[:MAX_PLACES]
    if not places:
        return {}
    titles = {
        **_read_titles(places, access, {message.thread_id for message in messages}),
        **_read_entries(places, access),
    }
    return {pk: found for pk, row in named.items() if (found := tuple(titles[each] for each in row if each in titles))}


def _read_titles(places: Sequence[Place], access: Access, shown_threads: Collection[int]) -> dict[Place, PlaceTitle]:
    """Channels, threads and messages. `shown_threads`: those that the asker reads right now, whoever it is."""
    rows = [
        *_channel_rows(access, [place.name for place in places if place.kind == "channel"]),
        *_thread_rows(access, [place.pk for place in places if place.kind == "thread"], shown_threads),
        *_message_rows(access, [place for place in places if place.kind == "message"], shown_threads),
    ]
    if not rows:
        return {}
    titles: dict[Place, PlaceTitle] = {}
    for kind, pk, thread_id, seq, title, author in rows[0].union(*rows[1:], all=True):
        for place in _keys_of(kind, pk, thread_id, seq, title):
            words = {"channel": f"#{title}", "thread": title}.get(kind, f"{author} in “{title}”")
            titles[place] = PlaceTitle(place, words, _PATHS[kind].format(pk))
    return titles


_PATHS = {"channel": "c/{}/", "thread": "t/{}/", "message": "m/{}/"}


def _keys_of(kind: str, pk: int, thread_id: int, seq: int, title: str) -> tuple[Place, ...]:
    """All the ways in which a place may be named."""
    if kind == "channel":
        return (Place("channel", 0, name=title),)
    return (Place(kind, pk),) if kind == "thread" else (Place(kind, pk), Place(kind, thread_id, seq))


Rows = Iterator[QuerySet[Any, Any]]


def _columns(rows: QuerySet[Any, Any], kind: str, thread: str, seq: str, title: str, author: str) -> QuerySet[Any, Any]:
    """The rows as those of one table, in no order."""
    number, text = BigIntegerField(), TextField()
    nothing: dict[str, Any] = {"thread": Value(0, number), "seq": Value(0, number), "author": Value("", text)}
    annotations = {
        "place_kind": Value(kind, text),
        "place_thread": Cast(thread, number) if thread else nothing["thread"],
        "place_seq": Cast(seq, number) if seq else nothing["seq"],
        "place_title": Cast(title, text),
        "place_author": Cast(author, text) if author else nothing["author"],
    }
    names = ("place_kind", "pk", "place_thread", "place_seq", "place_title", "place_author")
    values: QuerySet[Any, Any] = rows.order_by().annotate(**annotations).values_list(*names)
    return values


def _channel_rows(access: Access, names: Sequence[str]) -> Rows:
    if names:
        rows = Channel.objects.visible_to(access).filter(name__in=names)
        yield _columns(rows, "channel", "", "", "name", "")


def _thread_rows(access: Access, ids: Sequence[int], shown_threads: Collection[int]) -> Rows:
    if ids:
        is_shown = visible_threads(access)
        if not access.is_agent:
            is_shown |= Q(pk__in=shown_threads)
        yield _columns(Thread.objects.filter(is_shown, pk__in=ids), "thread", "", "", "title", "")


def _message_rows(access: Access, places: Sequence[Place], shown_threads: Collection[int]) -> Rows:
    """Deleted ones too: the address of a tombstone leads somewhere."""
    if not places:
        return
    is_named = Q(pk__in=[place.pk for place in places if not place.seq])
    for place in places:
        if place.seq:
            is_named |= Q(thread=place.pk, seq=place.seq)
    is_seen = Q(pk__in=Message.objects.visible_to(access).filter(is_named).order_by().values("pk"))
    if not access.is_agent:
        is_seen |= Q(thread__in=shown_threads)
    rows = Message.objects.filter(is_named, is_seen)
    yield _columns(rows, "message", "thread_id", "seq", "thread__title", "author__label")


def _read_entries(places: Sequence[Place], access: Access) -> dict[Place, PlaceTitle]:
    ids = [place.pk for place in places if place.kind == "knowledge"]
    return {
        Place("knowledge", pk): PlaceTitle(Place("knowledge", pk), preview.title, f"knowledge/{pk}/")
        for kind in LINK_KINDS
        if ids and kind.name == "knowledge"
        for pk, preview in kind.read(access, ids).items()
    }

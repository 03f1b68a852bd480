"""An exact string that stands in one text finds it first, in every search, whatever its script and signs."""

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agents.agent.access import visible_to
from agents.models import Agent
from knowledge.search import find_entries
from memory.plugins.lcm.retrieval import search_conversation
from memory.plugins.sessions import open_session
from openvibe.chat.models import Thread
from openvibe.chat.queries import find_places, search_messages
from openvibe.chat.search.thread import find_messages
from openvibe.chat.search.workspace import best_messages
from openvibe.chat.wiring import PlaceQuery, embed_pending_messages
from openvibe.workspaces.models import Member
from tests.factories import access, make_entry, make_thread, say

pytestmark = pytest.mark.django_db

DATA: Sequence[Mapping[str, Any]] = json.loads((Path(__file__).parent / "strings.json").read_text(encoding="utf-8"))
TEXTS = [str(each["text"]) for each in DATA]
STRINGS = [(string, place) for place, each in enumerate(DATA) for string in each["strings"]]


def seen(text: str) -> str:
    """What is to be seen of a text: names are stored without invisible signs."""
    return "".join(character for character in text if unicodedata.category(character) != "Cf")


class World(NamedTuple):
    ana: Member
    vibe: Agent
    thread: Thread


@pytest.fixture
def world(ana: Member, vibe: Agent, thread: Thread) -> World:
    for text in TEXTS:
        say(thread, ana, text)
        make_thread(thread.channel, ana, title=text[:200])
        make_entry(ana, text, f"{text}\n\nKept.")
    embed_pending_messages()
    return World(ana, vibe, thread)


def page_best(world: World, string: str) -> list[str]:
    by = access(world.ana)
    hits = best_messages(by, string, search_messages(by, ""), has_operators=True)
    return [hit.body for hit in hits]


def page_newest(world: World, string: str) -> list[str]:
    return [hit.body for hit in search_messages(access(world.ana), string)]


def in_thread(world: World, string: str) -> list[str]:
    return [hit.body for hit in find_messages(access(world.ana), string, thread_id=world.thread.pk, budget=8_000).hits]


def in_knowledge(world: World, string: str) -> list[str]:
    return [hit.entry.topic for hit in find_entries(access(world.ana), string).hits]


def in_palette(world: World, string: str) -> list[str]:
    places = find_places(access(world.ana), PlaceQuery(world.ana.workspace.slug, string))
    return [place.name for place in places if place.key.startswith("t")]


def in_palette_knowledge(world: World, string: str) -> list[str]:
    places = find_places(access(world.ana), PlaceQuery(world.ana.workspace.slug, string))
    return [place.name for place in places if place.key.startswith("k")]


def by_memory_tool(world: World, string: str) -> list[str]:
    session = open_session(visible_to(world.vibe), world.thread.pk)
    return [hit.snippet for hit in search_conversation(session, string)]


SEARCHES: Mapping[str, Callable[[World, str], list[str]]] = {
    "page, best": page_best,
    "page and API, newest": page_newest,
    "thread": in_thread,
    "knowledge": in_knowledge,
    "palette, threads": in_palette,
    "palette, knowledge": in_palette_knowledge,
    "memory tool": by_memory_tool,
}


@pytest.mark.parametrize("name", SEARCHES)
def test_every_string_finds_its_text_first(world: World, name: str) -> None:
    missed = []
    for string, place in STRINGS:
        hits = SEARCHES[name](world, string)
        if not hits or not seen(TEXTS[place]).startswith(seen(hits[0])):
            missed.append((string, hits[:2]))
    assert not missed


def test_the_strings_are_of_many_kinds() -> None:
    assert len(STRINGS) >= 120
    assert len({each["kind"] for each in DATA}) >= 10

"""A place that closes after everything was written there: no page, endpoint or prompt says a word of it any more.

All that is written there holds one telling word, so that whatever is shown tells where it comes from."""

import re
from collections.abc import Callable, Iterable, Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from agents.agent.access import visible_to
from agents.agent.services import set_trust_level
from agents.models import Agent, Run, Snapshot
from agents.prompts.assembler.assemble import assemble
from agents.prompts.snapshots.content import pack_content
from agents.prompts.snapshots.redaction import read_snapshot
from agents.prompts.snapshots.store import load_content
from knowledge.models import Entry
from knowledge.services import update_entry
from memory.episodes.models import Episode
from memory.episodes.services import create_episode
from memory.plugins.base import Session
from memory.plugins.lcm.models import Summary
from memory.plugins.lcm.provider import LcmProvider
from memory.work.handoff import create_handoff
from memory.work.models import Handoff
from openvibe.api.services import issue_token
from openvibe.chat.models import Channel, Dive, Message
from openvibe.chat.services import (
    add_reaction,
    add_to_channel,
    publish_dive,
    remove_from_channel,
    save_message,
    set_thread_access,
)
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, calling, told
from tests.api.access_matrix import Place, make_place, write_block, write_dive, write_knowledge, write_work
from tests.factories import access, make_agent, make_channel, make_entry, make_thread, say, say_all, signed_in

WORD = "zq7x"
ARGUMENT = re.compile(r"<\w+:(\w+)>")
QUERIES = ("thread={thread}", "q=roses")
"""What lists are asked for besides."""


@pytest.fixture
def place(ana: Member, dora: Member, ben: Member) -> Place:
    """Everything there is to write, in a private channel that Dora, Ben and an agent read, too."""
    channel = make_channel(ana, "den", private=True)
    sage = make_agent(ana, "sage", level=3, channel=channel)
    for person in (dora, ben):
        add_to_channel(channel=channel, participant=person.participant, by=access(ana))
    place = make_place(ana, channel, sage, WORD)
    for write in (write_work, write_knowledge, write_dive, write_block):
        write(place, ana)
    Run.objects.filter(pk=place.run.pk).update(state=Run.State.DONE)  # or those after it would wait for it
    rows = [f"{WORD} roses want water and mulch and a little patience. " * 9] * 40
    say_all(place.thread, ana, rows)
    looks = calling(("memory", {"action": "search", "query": "roses"}), ("log_progress", {"checkpoint": WORD}))
    told(ask(place.thread, dora, f"@sage @ben what of {WORD}?"), looks, f"{WORD} is well.")
    say_all(place.thread, ana, rows)
    provider, session = LcmProvider({"summaries": "deterministic"}), Session(place.thread.pk, visible_to(sage))
    provider.bootstrap(session)
    assert provider.compact(session, 900).created
    create_handoff(thread=place.thread, trigger="milestone")
    for person in (dora, ben):
        save_message(message=place.message, by=access(person))
        add_reaction(message=place.message, by=access(person), emoji="👍")
    result = ResultDraft(f"{WORD} is done", ("One.", "Two.", "Three."), f"All of {WORD}.", (), ())
    publish_dive(dive=Dive.objects.get(pk=place.dive), by=access(ana), result=result)
    return place


def ids_by_name(place: Place) -> dict[str, set[object]]:
    """What may stand in an address, by its argument or by the part before it."""
    ids: dict[str, set[object]] = {name: {value} for name, value in place.ids().items()}
    ids["message"] |= {*ids["reply"], *Message.objects.filter(thread=place.thread).values_list("pk", flat=True)[40:46]}
    ids["run"] = set(Run.objects.filter(agent=place.run.agent).values_list("pk", flat=True))  # elsewhere, too
    ids["summary"] = set(Summary.objects.values_list("pk", flat=True))
    ids["handoff"] = set(Handoff.objects.values_list("pk", flat=True))
    ids["entry"] |= ids["suggestion"]
    ids |= {"item": ids["work"], "handle": ids["agent"], "label": {"notes"}, "tab": {"raw", "items", "tools"}}
    return ids | {"summarie": ids["summary"], "knowledge": ids["entry"], "progres": ids["progress"]}


def routes(patterns: Iterable[URLPattern | URLResolver], path: str = "") -> Iterator[str]:
    for pattern in patterns:
        here = path + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, here)
        elif here.startswith(("w/", "api/v1/")) and not here.endswith("/events/"):  # a stream has no end
            yield here


def addresses(place: Place) -> Iterator[str]:
    """Every page and endpoint, with every id of the place, and once more with each query where none stands in it."""
    ids = ids_by_name(place) | {"slug": {place.thread.workspace.slug}}
    for route in routes(get_resolver().url_patterns):
        paths = {f"/{route}"}
        for found in ARGUMENT.finditer(route):
            segment = route[: found.start()].rstrip("/").rpartition("/")[2].removesuffix("s")
            values = ids.get(found[1].removesuffix("_id")) or ids.get(segment, {1})
            paths = {path.replace(found[0], str(value)) for path in paths for value in values}
        yield from paths
        if not ARGUMENT.search(route.replace("<slug:slug>", "")):
            yield from (f"{path}?{query.format(thread=place.thread.pk)}" for path in paths for query in QUERIES)


def telling(client: Client, paths: Iterable[str], **headers: str) -> set[str]:
    """The addresses whose answer holds the word."""
    found = set()
    for path in paths:
        if WORD.encode() in client.get(path, headers=headers).getvalue():
            found.add(path)
    return found


def read_by(who: Member | Agent, place: Place) -> set[str]:
    """The doors through which the reader finds a word of the place: by a token in the API, people on pages, too."""
    _, secret = issue_token(participant=who.participant, name="tests", scopes=["read", "write", "memory", "knowledge"])
    paths = list(addresses(place))
    endpoints = [path for path in paths if path.startswith("/api/")]
    pages = [path for path in paths if not path.startswith("/api/")]
    found = telling(Client(), endpoints, Authorization=f"Bearer {secret}")
    return found | telling(signed_in(who), pages) if isinstance(who, Member) else found


@pytest.mark.parametrize("reader", ["dora", "ben", "sage"])
def test_who_is_taken_out_of_a_channel_reads_no_word_of_it(
    reader: str, ana: Member, dora: Member, ben: Member, place: Place
) -> None:
    readers: dict[str, Member | Agent] = {"dora": dora, "ben": ben, "sage": place.run.agent}
    who = readers[reader]
    assert len(read_by(who, place)) > 20
    remove_from_channel(channel=place.channel, participant=who.participant, by=access(ana))
    assert read_by(who, place) == set()


@pytest.fixture(params=["human_only", "agent_restricted"])
def closed(request: pytest.FixtureRequest, ana: Member, place: Place) -> Place:
    """The place, whose thread is for people or for another agent only by now."""
    kind: str = request.param
    others = [make_agent(ana, "rose", channel=place.channel).participant] if kind == "agent_restricted" else []
    set_thread_access(thread=place.thread, by=access(ana), access=kind, allowed_agents=others)
    return place


def test_an_agent_reads_no_word_of_a_thread_that_was_closed_to_it(closed: Place) -> None:
    assert read_by(closed.run.agent, closed) == set()


def words_in_prompts(place: Place, channel: Channel, by: Member) -> list[str]:
    """The telling parts of what the agent reads in a new thread of this channel."""
    question = say(make_thread(channel, by), by, "@sage what of the roses?")
    prompts = [
        assemble(agent=place.run.agent, thread=question.thread, task=task, request=question)
        for task in ("mention", "thread")
    ]
    return [item.text for prompt in prompts for item in prompt.included if WORD in item.text]


def test_prompts_beside_a_thread_that_was_closed_hold_no_word_of_it(ana: Member, closed: Place) -> None:
    assert words_in_prompts(closed, closed.channel, ana) == []


@pytest.mark.parametrize("is_private", [True, False])
def test_prompts_in_another_channel_hold_no_word_of_it(is_private: bool, ana: Member, place: Place) -> None:
    channel = make_channel(ana, "elsewhere", private=is_private)
    add_to_channel(channel=channel, participant=place.run.agent.participant, by=access(ana))
    assert words_in_prompts(place, place.channel, ana) != []
    assert words_in_prompts(place, channel, ana) == []


BESIDE, LEARNED = {"feedback", "episodes", "knowledge", "topics", "work"}, {"feedback", "episodes"}
"""Sections in which other threads speak: of all there is, and of what the agent learned itself."""


def ask_elsewhere(place: Place, by: Member) -> list[Run]:
    """Two runs of the place's agent in another public channel, whose prompts hold what there is to know of the place;
    its own words there say nothing of it."""
    channel = make_channel(by, "elsewhere")
    add_to_channel(channel=channel, participant=place.run.agent.participant, by=access(by))
    thread, handle = make_thread(channel, by, "Beds"), place.run.agent.handle
    runs = [ask(thread, by, f"@{handle} what of the roses in {month}?") for month in ("May", "June")]
    told(runs[0], calling(("knowledge_search", {"query": "roses"})), "They are well.")
    told(runs[1], "They are well.")
    return runs


def make_garden(by: Member, level: int, *, knowledge: bool, is_added: bool = True) -> Place:
    """A public channel with an agent of this level, what was learned there, and what was pinned."""
    channel = make_channel(by, "garden")
    agent = make_agent(by, "rose", level=level, channel=channel if is_added else None)
    place = make_place(by, channel, agent, WORD)
    create_episode(agent.participant, place.thread, Episode.Kind.LEARNING_ACQUIRED, f"Roses like {WORD}.")
    if knowledge:
        write_knowledge(place, by)
    return place


def sections_telling(run: Run) -> set[str]:
    return {item["section"] for item in load_content(Snapshot.objects.get(run=run))["items"] if WORD in item["text"]}


def close_place(place: Place, by: Member, way: str) -> None:
    asker, agent = access(by), place.run.agent
    if way in ("human_only", "agent_restricted"):
        others = [make_agent(by, "sage", channel=place.channel).participant] if way == "agent_restricted" else []
        set_thread_access(thread=place.thread, by=asker, access=way, allowed_agents=others)
    elif way == "taken out":
        remove_from_channel(channel=place.channel, participant=agent.participant, by=asker)
    elif way == "private":
        Channel.objects.filter(pk=place.channel.pk).update(is_private=True)
    else:
        set_trust_level(agent=agent, by=asker, level=2, note="Too eager.")


@pytest.mark.parametrize(
    ("level", "way", "kinds"),
    [
        (2, "human_only", LEARNED),
        (2, "agent_restricted", LEARNED),
        (2, "taken out", LEARNED),
        (3, "human_only", BESIDE),
        (3, "agent_restricted", BESIDE),
        (3, "private", LEARNED),
        (3, "lowered", BESIDE),
        (4, "human_only", BESIDE),
        (4, "agent_restricted", BESIDE),
    ],
)
def test_runs_in_other_threads_hold_no_word_of_a_thread_that_was_closed(
    level: int, way: str, kinds: set[str], ana: Member
) -> None:
    place = make_garden(ana, level, knowledge=kinds == BESIDE, is_added=way not in ("private", "lowered"))
    runs = ask_elsewhere(place, ana)
    agent = place.run.agent
    assert sections_telling(runs[1]) == kinds
    own = {f"/api/v1/runs/{run.pk}/context/" for run in runs}
    assert own <= read_by(agent, place)
    close_place(place, ana, way)
    agent.refresh_from_db()
    assert read_by(agent, place) == set()
    view = read_snapshot(runs[1], visible_to(agent))
    assert view is not None
    assert view.hidden_count >= len(kinds)
    assert any("hidden by your access" in message.content for message in view.messages)
    assert "what of the roses in June?" in "".join(message.content for message in view.messages)


def test_people_who_leave_a_place_read_no_word_of_it_in_other_runs(ana: Member, dora: Member) -> None:
    place = make_garden(ana, 3, knowledge=False)
    runs = ask_elsewhere(place, ana)
    paths = {f"/w/{ana.workspace.slug}/runs/{run.pk}/context/{tab}" for run in runs for tab in ("", "raw/", "dropped/")}
    client = signed_in(dora)
    assert len(telling(client, paths)) == 4
    close_place(place, ana, "private")
    assert telling(client, paths) == set()
    assert "hidden by your access" in client.get(sorted(paths)[0]).content.decode()
    assert len(telling(signed_in(ana), paths)) == 4


@pytest.mark.parametrize("change", ["renamed", "cut"])
def test_an_index_of_topics_is_withheld_in_doubt(change: str, ana: Member) -> None:
    """An entry of the closed thread may have stood there by an earlier name, or in part."""
    place = make_garden(ana, 3, knowledge=True)
    run = ask_elsewhere(place, ana)[1]
    for entry in Entry.objects.filter(source_thread=place.thread, status="active"):
        update_entry(entry=entry, by=access(ana), topic="Shrubs")
    if change == "cut":
        rewrite_items(run, lambda item: {"text": item["text"].replace(f"Roses in {WORD}", f"Roses in {WORD[:2]}\n…\n")})
    close_place(place, ana, "human_only")
    assert hidden_keys(run) >= {"topics:shared"}


def test_an_index_without_a_closed_entry_is_still_shown(ana: Member) -> None:
    place = make_garden(ana, 3, knowledge=False)
    make_entry(ana, "Tulips", "Roses and tulips like sun.")
    run = ask_elsewhere(place, ana)[1]
    write_knowledge(place, ana)  # after the prompt
    close_place(place, ana, "human_only")
    keys = hidden_keys(run)
    assert {key for key in keys if key.startswith("episode:")}
    assert "topics:shared" not in keys


def test_items_of_a_kind_that_nobody_knows_are_withheld(ana: Member) -> None:
    """A stored prompt of another version: where such an item came from cannot be told."""
    run = ask_elsewhere(make_garden(ana, 3, knowledge=False), ana)[1]
    rewrite_items(run, lambda item: {"key": f"rumour:{item['key'][8:]}"} if item["section"] == "feedback" else {})
    for reader in (access(ana), visible_to(run.agent)):
        view = read_snapshot(run, reader)
        assert view is not None
        shown = [(item.text, item.author) for section in view.sections for item in section.items]
        assert f"Too short in {WORD}" not in str((shown, view.messages))


def test_what_stands_in_another_form_in_the_prompt_as_sent_takes_the_whole_prompt_along(ana: Member) -> None:
    place = make_garden(ana, 3, knowledge=False)
    run = ask_elsewhere(place, ana)[1]
    rewrite_items(run, lambda item: {"text": item["text"].upper()} if item["section"] == "feedback" else {})
    close_place(place, ana, "human_only")
    view = read_snapshot(run, visible_to(run.agent))
    assert view is not None
    assert WORD not in "".join(message.content for message in view.messages)


def hidden_keys(run: Run) -> set[str]:
    view = read_snapshot(run, visible_to(run.agent))
    assert view is not None
    return {item.key for section in view.sections for item in section.items if item.hidden}


def rewrite_items(run: Run, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    """Stores the items otherwise than this version stores it."""
    snapshot = Snapshot.objects.get(run=run)
    content = load_content(snapshot)
    content["items"] = [item | change(item) for item in content["items"]]
    snapshot.content = pack_content(content)
    snapshot.save(update_fields=["content"])

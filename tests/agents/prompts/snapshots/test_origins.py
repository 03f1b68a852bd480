"""Each item of a stored prompt is judged by what it came from, whichever run it stands in."""

import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.agent.access import visible_to
from agents.agent.services import set_trust_level
from agents.models import Agent, Run, Snapshot
from agents.prompts.assembler.assemble import assemble
from agents.prompts.snapshots.content import pack_content
from agents.prompts.snapshots.origins import OF_ROWS, OF_THE_RUN, item_kind
from agents.prompts.snapshots.redaction import SnapshotView, read_snapshot
from agents.prompts.snapshots.store import load_content, store_snapshot
from knowledge.models import Entry
from knowledge.services import update_entry
from memory.blocks.services import update_notes
from memory.episodes.models import Episode
from memory.episodes.services import create_episode
from memory.work.services import create_work_item, log_progress
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel, remove_from_channel, set_thread_access
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, told
from tests.agents.test_closed_afterwards import WORD, ask_elsewhere, close_place, hidden_keys, make_garden
from tests.agents.test_closed_afterwards import place as place  # a fixture
from tests.api.access_matrix import Place
from tests.factories import access, make_agent, make_channel, make_entry, make_thread, say

RESTRICTED, SHARED = "topics:restricted", "topics:shared"


def seen(run: Run, reader: Access) -> SnapshotView:
    view = read_snapshot(run, reader)
    assert view is not None
    return view


def hidden(run: Run, reader: Access) -> set[str]:
    return {item.key for section in seen(run, reader).sections for item in section.items if item.hidden}


def words(view: SnapshotView) -> str:
    items = [(item.text, item.author, item.source) for section in view.sections for item in section.items]
    return str((items, [message.content for message in view.messages], view.dropped))


def stored_elsewhere(place: Place, by: Member, name: str = "elsewhere") -> tuple[Run, set[str]]:
    """All that the place's agent reads in the closed place, stored as what a run in another thread read; the keys of
    what came from there. No section takes so much along: whatever one will, it is judged the same."""
    channel = make_channel(by, name)
    add_to_channel(channel=channel, participant=place.run.agent.participant, by=access(by))
    run = ask(make_thread(channel, by, "Beds"), by, f"@{place.agent} what of the beds?")
    told(run, "They are well.")
    question = say(place.thread, by, f"What of {WORD}?")
    prompt = assemble(agent=place.run.agent, thread=place.thread, task="thread", request=question)
    store_snapshot(run, prompt)
    return run, {item.key for item in prompt.included if WORD in item.text and item_kind(item.key) in OF_ROWS}


@pytest.mark.parametrize("way", ["human_only", "agent_restricted", "taken out"])
def test_every_kind_of_item_is_hidden_from_an_agent_once_its_place_is_closed(
    way: str, ana: Member, place: Place
) -> None:
    run, keys = stored_elsewhere(place, ana)
    kinds = {item_kind(key) for key in keys}
    assert kinds >= {"message", "file", "observation", "episode", "work", "approval", "progress"}
    assert not hidden(run, visible_to(run.agent)) & keys
    if way == "agent_restricted":
        rose = make_agent(ana, "rose", channel=place.channel)
        set_thread_access(thread=place.thread, by=access(ana), access=way, allowed_agents=[rose.participant])
    else:
        close_place(place, ana, way)
    view = seen(run, visible_to(run.agent))
    assert hidden(run, visible_to(run.agent)) >= keys
    shown = [item for section in view.sections for item in section.items if WORD in item.text]
    assert {item_kind(item.key) for item in shown} <= OF_THE_RUN  # in truth that is of the other thread
    sent = "".join(message.content for message in view.messages)
    for item in shown:
        sent = sent.replace(item.text, "")
    assert WORD not in sent


def test_people_who_left_the_place_are_shown_no_item_of_it(ana: Member, dora: Member, place: Place) -> None:
    run, keys = stored_elsewhere(place, ana)
    assert not hidden(run, access(dora)) & keys
    remove_from_channel(channel=place.channel, participant=dora.participant, by=access(ana))
    assert hidden(run, access(dora)) >= keys
    assert not hidden(run, access(ana)) & keys


@pytest.fixture
def sage(ana: Member) -> Agent:
    return make_agent(ana, "sage", level=4)


def den_of(owner: Member, *others: Member | Agent) -> Thread:
    """A thread in a private channel of these."""
    channel = make_channel(owner, "den", private=True)
    for other in others:
        channel.memberships.create(participant=other.participant)
    return make_thread(channel, owner)


def index_run(thread: Thread, by: Member, key: str) -> Run:
    """A run whose prompt has this index of topics."""
    run = ask(thread, by, "@sage what is new?")
    told(run, "Nothing.")
    assert key in {item["key"] for item in load_content(Snapshot.objects.get(run=run))["items"]}
    return run


def test_a_member_is_shown_an_index_of_what_is_her_own(ana: Member, dora: Member, sage: Agent) -> None:
    make_entry(dora, "Salaries", "Dora earns 77,000.", visibility="restricted")
    make_entry(dora, "Salaries", "Dora earned 70,000 before.", visibility="restricted")  # one line of two entries
    make_entry(ana, "Layoffs", "They cost 99,000.", visibility="restricted")
    own = index_run(den_of(ana, dora, sage), ana, RESTRICTED)

    assert RESTRICTED not in hidden(own, access(dora))
    assert "Salaries" in words(seen(own, access(dora)))
    assert "Layoffs" not in words(seen(own, access(ana)))


def test_an_index_is_hidden_whole_from_who_may_not_see_all_that_it_names(
    ana: Member, dora: Member, sage: Agent
) -> None:
    make_entry(dora, "Salaries", "Dora earns 77,000.", visibility="restricted")
    make_entry(ana, "Layoffs", "They cost 99,000.", visibility="restricted")
    thread = den_of(ana, sage)
    run = index_run(thread, ana, RESTRICTED)
    thread.channel.memberships.create(participant=dora.participant)

    assert RESTRICTED in hidden(run, access(dora))
    assert "Layoffs" not in words(seen(run, access(dora)))
    assert RESTRICTED not in hidden(run, access(ana))


def test_an_index_is_hidden_from_members_once_an_entry_of_it_is_restricted(
    ana: Member, dora: Member, sage: Agent, thread: Thread
) -> None:
    thread.channel.memberships.create(participant=sage.participant)
    named = make_entry(ana, "Prices", "Starter costs 29.")
    run = index_run(thread, ana, SHARED)
    make_entry(ana, "Layoffs", "They cost 99,000.", visibility="restricted")  # not named there
    update_entry(entry=make_entry(ana, "Mulch", "It is dear."), by=access(ana), visibility="restricted")
    assert SHARED not in hidden(run, access(dora))

    update_entry(entry=named, by=access(ana), visibility="restricted")
    assert SHARED in hidden(run, access(dora))
    assert SHARED not in hidden(run, access(ana))
    update_entry(entry=Entry.objects.get(pk=named.pk), by=access(ana), visibility="shared")
    assert SHARED in hidden(run, access(dora))  # in between it could have said anything else


def test_a_lowered_agent_is_shown_no_index(ana: Member, sage: Agent) -> None:
    make_entry(ana, "Layoffs", "They cost 99,000.", visibility="restricted")
    make_entry(ana, "Prices", "Starter costs 29.")
    run = index_run(den_of(ana, sage), ana, RESTRICTED)
    assert not hidden(run, visible_to(sage)) & {RESTRICTED, SHARED}

    set_trust_level(agent=sage, by=access(ana), level=3, note="Too eager.")
    sage.refresh_from_db()
    assert hidden(run, visible_to(sage)) & {RESTRICTED, SHARED} == {RESTRICTED}
    set_trust_level(agent=sage, by=access(ana), level=2, note="Far too eager.")
    sage.refresh_from_db()
    assert hidden(run, visible_to(sage)) >= {RESTRICTED, SHARED}


def forget_origins(run: Run) -> None:
    """Stores the index as before an index said which entries it names."""
    snapshot = Snapshot.objects.get(run=run)
    content = load_content(snapshot)
    content["items"] = [{name: item[name] for name in item if name != "origins"} for item in content["items"]]
    snapshot.content = pack_content(content)
    snapshot.save(update_fields=["content"])


def test_an_index_that_does_not_say_what_it_names_is_hidden_in_doubt(
    ana: Member, dora: Member, sage: Agent, thread: Thread
) -> None:
    thread.channel.memberships.create(participant=sage.participant)
    make_entry(ana, "Prices", "Starter costs 29.")
    run = index_run(thread, ana, SHARED)
    forget_origins(run)

    assert SHARED in hidden(run, visible_to(sage))
    assert SHARED not in hidden(run, access(dora))
    update_entry(entry=make_entry(ana, "Mulch", "It is dear."), by=access(ana), visibility="restricted")
    assert SHARED not in hidden(run, access(ana))


def test_what_an_agent_noted_about_somebody_is_shown_to_her_and_those_who_administer(
    ana: Member, dora: Member, ben: Member, sage: Agent, thread: Thread
) -> None:
    for participant in (sage.participant, ben.participant):
        thread.channel.memberships.create(participant=participant)
    agent, text = sage.participant, "Fond of roses."
    update_notes(agent=agent, person=dora.participant, by=access(ana), text=text, how="page")
    run = ask(thread, dora, "@sage hello")
    told(run, "Hello.")
    key = f"profile:{dora.participant_id}"
    stored_keys = {item["key"] for item in load_content(Snapshot.objects.get(run=run))["items"]}
    assert key in stored_keys
    assert [key in hidden(run, access(reader)) for reader in (ana, dora, ben)] == [False, False, True]


def test_what_a_viewer_may_see_is_asked_at_one_price_however_many_items_there_are(ana: Member, place: Place) -> None:
    few, few_keys = stored_elsewhere(place, ana)
    for number in range(6):
        text = f"{WORD} {number}"
        create_work_item(thread=place.thread, by=access(ana), kind="todo", text=text)
        log_progress(thread=place.thread, by=access(ana), checkpoint=text)
        create_episode(place.run.agent.participant, place.thread, Episode.Kind.LEARNING_ACQUIRED, text)
        make_entry(ana, f"{text} roses", "They want water.")
    many, many_keys = stored_elsewhere(place, ana, "far away")
    assert len(many_keys) > len(few_keys) + 12
    counts = []
    for run in (few, many):
        reader = access(ana)
        with CaptureQueriesContext(connection) as queries:
            seen(run, reader)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 16


def shown_by_command(thread: Thread, agent: Agent) -> Any:
    output = io.StringIO()
    command = ("context", "show", "--agent", agent.handle, "--thread", str(thread.pk), "--request", "The roses?")
    call_command(*command, "--json", stdout=output)
    return json.loads(output.getvalue())


def test_the_command_line_shows_no_word_of_a_closed_thread_beside_another(ana: Member) -> None:
    place = make_garden(ana, 3, knowledge=True)
    thread = ask_elsewhere(place, ana)[1].thread
    assert WORD in str(shown_by_command(thread, place.run.agent))
    close_place(place, ana, "human_only")
    assert WORD not in str(shown_by_command(thread, place.run.agent)["messages"])
    assert hidden_keys(Run.objects.filter(thread=thread).latest("pk"))

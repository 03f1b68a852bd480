"""What is restricted stands in a prompt, and in what tools answer, only where everybody who reads the answer may see
it: the level says what an agent may know, its readers what it may say."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.agent.access import visible_to
from agents.agent.audience import shown_to_readers
from agents.agent.services import deactivate_agent, set_trust_level
from agents.connect.trials import ask_on_trial
from agents.models import Agent, Run, ToolCall
from agents.openai_api.conversations import asker_of, begin_turn
from agents.openai_api.requests import parse_chat
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.runs.external.lifecycle import ReportedUsage, begin_external_run, finish_external_run
from agents.tools.toolbox import Toolbox
from knowledge.models import Entry
from knowledge.queries import find_entries
from knowledge.services import pin_result
from memory.episodes.services import give_feedback
from memory.models import Block
from openvibe.api.services import issue_token
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import (
    add_to_channel,
    open_direct_messages,
    publish_dive,
    remove_from_channel,
    set_thread_access,
    start_dive,
)
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import participant_access
from tests.agents.runs.scripted_runs import ask, calling, meanwhile, results, told
from tests.agents.tools.tool_calls import call
from tests.factories import (
    access,
    make_agent,
    make_channel,
    make_entry,
    make_member,
    make_thread,
    say,
    signed_in,
    write_members,
)
from tests.memory.factories import BlockFactory, EpisodeFactory

QUESTION = "What do the Layoffs cost?"
SECRET = "77,000"
LOOK = ("knowledge_search", {"query": QUESTION})
UNSEEN = "not for everybody here"


@pytest.fixture
def sage(ana: Member) -> Agent:
    """An L4 agent."""
    return make_agent(ana, "sage", level=4)


@pytest.fixture
def entry(ana: Member) -> Entry:
    return make_entry(ana, "Layoffs", f"The Layoffs cost {SECRET} in March.", visibility="restricted")


def direct(by: Member, other: Member | Agent) -> Thread:
    thread, _ = open_direct_messages(by=access(by), recipient=other.participant)
    return thread


def den_of(owner: Member, *others: Member | Agent) -> Thread:
    """A thread in a private channel of these."""
    channel = make_channel(owner, "den", private=True)
    for other in others:
        channel.memberships.create(participant=other.participant)
    return make_thread(channel, owner)


def asked(agent: Agent, thread: Thread, by: Member, question: str = QUESTION, task: str = "mention") -> Prompt:
    tools = Toolbox.for_agent(agent, thread).specs
    return assemble(agent=agent, thread=thread, task=task, request=question, asked_by=by.participant, tools=tools)


def sent(prompt: Prompt) -> str:
    return "\n".join(message.content for message in prompt.messages)


def left_out(prompt: Prompt) -> list[str]:
    """The sections of what was left out because of who reads the answer."""
    return sorted(item.section for item in prompt.dropped if item.reason == UNSEEN)


def looked_up(agent: Agent, thread: Thread) -> str:
    return Toolbox.for_agent(agent, thread).execute(call("knowledge_search", query=QUESTION)).result


def test_what_two_keep_to_themselves_is_told_to_no_third_who_asks_an_agent_that_knows_it(
    ana: Member, dora: Member, sage: Agent
) -> None:
    eve = make_member("Eve", ana.workspace)
    message = say(direct(dora, eve), dora, f"The Layoffs cost {SECRET} in March.")
    entry = pin_result(message=message, by=access(dora), topic="Layoffs", content=message.body, visibility="restricted")
    finn = make_member("Finn", ana.workspace)
    browser, page = signed_in(finn), f"/w/{ana.workspace.slug}"
    assert browser.get(f"{page}/knowledge/{entry.pk}/").status_code == 404

    thread = direct(finn, sage)
    prompt = asked(sage, thread, finn)
    assert SECRET not in sent(prompt)
    assert "Layoffs" not in sent(prompt).replace(QUESTION, "")
    assert left_out(prompt) == ["knowledge", "topics"]
    assert SECRET not in looked_up(sage, thread)
    pages = [browser.get(f"{page}/t/{thread.pk}/preview/sage/{tab}").content.decode() for tab in ("raw/", "dropped/")]
    assert "Finn" in pages[0]
    assert UNSEEN in pages[1]
    assert not [each for each in pages if SECRET in each or "Layoffs" in each]

    prompt = asked(sage, direct(dora, sage), dora)
    assert SECRET in sent(prompt)
    assert "Decision: Layoffs" in sent(prompt)
    assert left_out(prompt) == []
    assert SECRET in looked_up(sage, direct(dora, sage))


@dataclass
class Cast:
    ana: Member
    dora: Member
    ben: Member
    sage: Agent
    entry: Entry


@pytest.fixture
def cast(ana: Member, dora: Member, ben: Member, sage: Agent, entry: Entry) -> Cast:
    """Ana owns the workspace, Dora is a member, Ben a guest."""
    return Cast(ana, dora, ben, sage, entry)


def admin(cast: Cast, name: str = "Ada") -> Member:
    return make_member(name, cast.ana.workspace, role="admin")


def public(cast: Cast, *others: Member | Agent) -> Thread:
    channel = make_channel(cast.ana, "garden")
    for other in (cast.sage, *others):
        channel.memberships.create(participant=other.participant)
    return make_thread(channel, cast.ana)


def of_owner_of_entry(cast: Cast) -> Thread:
    Entry.objects.filter(pk=cast.entry.pk).update(owner=cast.dora.participant)
    return direct(cast.dora, cast.sage)


def of_author_and_owner(cast: Cast, *others: Member) -> Thread:
    finn = make_member("Finn", cast.ana.workspace)
    Entry.objects.filter(pk=cast.entry.pk).update(author=finn.participant, owner=cast.dora.participant)
    return den_of(cast.dora, finn, cast.sage, *others)


def removed(cast: Cast, member: Member, **changes: object) -> Thread:
    thread = den_of(cast.ana, cast.sage, member)
    Member.objects.filter(pk=member.pk).update(**changes)
    return thread


def deactivated_account(cast: Cast) -> Thread:
    thread = den_of(cast.ana, cast.sage, cast.dora)
    cast.dora.user.is_active = False
    cast.dora.user.save()
    return thread


def without_members(cast: Cast) -> Cast:
    Member.objects.filter(pk=cast.dora.pk).update(removed_at="2026-01-01T00:00Z")
    return cast


def with_agent(cast: Cast, level: int) -> Thread:
    thread = den_of(cast.ana, cast.sage)
    make_agent(cast.ana, "other", level=level, channel=thread.channel)
    return thread


def with_agent_that_left(cast: Cast) -> Thread:
    thread = with_agent(cast, 2)
    deactivate_agent(agent=Agent.objects.get(participant__handle="other"), by=access(cast.ana))
    return thread


def listing(cast: Cast, *handles: str) -> Thread:
    """A thread that lists the agent and these, in a channel with an L2 agent."""
    thread = with_agent(cast, 2)
    agents = [cast.sage.participant, *(Agent.objects.get(participant__handle=each).participant for each in handles)]
    set_thread_access(thread=thread, by=access(cast.ana), access="agent_restricted", allowed_agents=agents)
    return thread


def dive_of(cast: Cast, thread: Thread) -> Thread:
    source = say(thread, cast.ana, "Let us look at money.")
    return start_dive(source=source, by=access(cast.ana), agent=cast.sage.participant).thread


def observed_dive(cast: Cast) -> Thread:
    """Agents at L1 see no dives."""
    return dive_of(cast, with_agent(cast, 1))


READERS: dict[str, tuple[Callable[[Cast], Thread], bool]] = {
    "the owner": (lambda c: direct(c.ana, c.sage), True),
    "an admin": (lambda c: direct(admin(c), c.sage), True),
    "a member": (lambda c: direct(c.dora, c.sage), False),
    "a guest": (lambda c: den_of(c.ana, c.sage, c.ben), False),
    "who owns the entry": (of_owner_of_entry, True),
    "its author and its owner": (of_author_and_owner, True),
    "both and a third": (lambda c: of_author_and_owner(c, c.ben), False),
    "owner and admin": (lambda c: den_of(c.ana, c.sage, admin(c)), True),
    "owner and member": (lambda c: den_of(c.ana, c.sage, c.dora), False),
    "somebody who was removed": (lambda c: removed(c, c.dora, removed_at="2026-01-01T00:00Z"), True),
    "somebody whose account is closed": (deactivated_account, True),
    "somebody who became an admin": (lambda c: removed(c, c.dora, role="admin"), True),
    "a public channel": (public, False),
    "a public channel of admins": (lambda c: public(without_members(c)), True),
    "a public channel with a guest": (lambda c: public(without_members(c), c.ben), False),
    "an observer": (lambda c: with_agent(c, 1), False),
    "an advisor": (lambda c: with_agent(c, 2), False),
    "an operator": (lambda c: with_agent(c, 3), False),
    "an autonomous agent": (lambda c: with_agent(c, 4), True),
    "an agent that is no more": (with_agent_that_left, True),
    "a thread that lists no other agent": (listing, True),
    "a thread that lists another agent": (lambda c: listing(c, "other"), False),
    "a dive of owner and member": (lambda c: dive_of(c, den_of(c.ana, c.sage, c.dora)), False),
    "a dive of the owner": (lambda c: dive_of(c, den_of(c.ana, c.sage)), True),
    "a dive that an observer does not see": (observed_dive, True),
}


@pytest.mark.parametrize("readers", READERS)
def test_restricted_knowledge_is_for_who_may_read_it_all_of_them(readers: str, cast: Cast) -> None:
    place, is_told = READERS[readers]
    thread = place(cast)
    make_entry(cast.ana, "Layoffs of the past", "The Layoffs cost 5 in May.")
    task = "dive" if thread.parent_id else "mention"
    prompt = asked(cast.sage, thread, cast.ana, task=task)
    assert (SECRET in sent(prompt)) == is_told
    assert "cost 5 in May" in sent(prompt)
    assert left_out(prompt) == ([] if is_told else ["knowledge", "topics"])
    answer = looked_up(cast.sage, thread)
    assert (SECRET in answer) == is_told
    assert "cost 5 in May" in answer


@pytest.fixture
def lair(cast: Cast) -> Thread:
    """A place where Ana, Dora and the agent read."""
    return den_of(cast.ana, cast.sage, cast.dora)


def by_api(cast: Cast, thread: Thread, who: Member | Agent, **body: str) -> str:
    _, secret = issue_token(participant=who.participant, name="tests", scopes=["read", "write", "knowledge"])
    body = {"task": "mention", "request": "What of money and roses?", **body}
    answer = Client().post(
        "/api/v1/context/assemble/",
        {"thread": thread.pk, **body},
        "application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert answer.status_code == 200, answer.content
    assert UNSEEN in answer.content.decode()
    if isinstance(who, Member):  # she may know what was left out
        return json.dumps(answer.json()["messages"])
    return answer.content.decode()


def by_run(cast: Cast, thread: Thread, task: str) -> str:
    question = say(thread, cast.ana, "What of money and roses?")
    Run.objects.filter(trigger=question).delete()
    run = Run.objects.create(
        workspace=cast.ana.workspace,
        agent=cast.sage,
        thread=thread,
        trigger=question,
        requested_by=cast.ana.participant,
        task=task,
    )
    model = told(run, calling(("knowledge_search", {"query": "money roses"})), "Nothing.")
    return json.dumps([[message.content for message in asked.messages] for asked in model.calls])


def by_preview(cast: Cast, thread: Thread) -> str:
    cast.dora.participant.refresh_from_db()
    browser, address = signed_in(cast.dora), f"/w/{thread.workspace.slug}/t/{thread.pk}/preview/sage/"
    return "".join(browser.get(address + tab).content.decode() for tab in ("", "raw/", "dropped/"))


def by_dive(cast: Cast, thread: Thread, task: str) -> str:
    dive = dive_of(cast, thread)
    Run.objects.filter(thread=dive).update(state=Run.State.STOPPED)
    return by_run(cast, dive, task)


def by_chat_client(cast: Cast, thread: Thread) -> str:
    """A request through the OpenAI-compatible door, in the channel it names."""
    body = {"model": "@sage", "messages": [{"role": "user", "content": "What of money and roses?"}]}
    request = parse_chat({**body, "metadata": {"channel": f"#{thread.channel.name}"}})
    run = begin_turn(asker_of(cast.dora.participant, access(cast.dora), request.user), cast.sage, request)
    assert run.thread.channel == thread.channel
    (first,) = told(run, "Nothing.").calls
    return "\n".join(message.content for message in first.messages)


def by_trial(cast: Cast, thread: Thread) -> str:
    """The offline model quotes what bears on the question."""
    answer = ask_on_trial(
        draft=lambda: cast.sage,
        channel=thread.channel,
        question="What of money and roses?",
        by=access(cast.ana),
        asked_by=cast.ana.participant,
    )
    return answer.text


DOORS: dict[str, Callable[[Cast, Thread], str]] = {
    **{
        task: lambda cast, thread, task=task: by_run(cast, thread, task)  # type: ignore[misc]
        for task in ("mention", "thread", "scheduled")
    },
    **{
        task: lambda cast, thread, task=task: by_dive(cast, thread, task)  # type: ignore[misc]
        for task in ("dive", "publish")
    },
    "preview": by_preview,
    "assemble, by an admin": lambda cast, thread: by_api(cast, thread, cast.ana, agent="sage"),
    "assemble, by the agent": lambda cast, thread: by_api(cast, thread, cast.sage),
    "a chat client": by_chat_client,
    "a trial": by_trial,
}

WORD = "zqsecretx"


def restrict(cast: Cast) -> None:
    make_entry(cast.ana, f"Money {WORD}", f"The roses bring {WORD} money.", visibility="restricted")


def pin_result_of_closed_place(cast: Cast) -> None:
    """A result of a dive in direct messages."""
    dive = dive_of(cast, direct(cast.ana, cast.sage)).dive
    Run.objects.filter(thread=dive.thread).update(state=Run.State.STOPPED)
    result = ResultDraft(f"Money of roses {WORD}", ("One.", "Two.", "Three."), f"Roses bring {WORD} money.", (), ())
    message = publish_dive(dive=dive, by=access(cast.ana), result=result)
    assert message.kind == Message.Kind.DIVE_RESULT
    pin_result(message=message, by=access(cast.ana), topic=f"Money {WORD}", content=f"Roses bring {WORD} money.")
    Entry.objects.filter(topic__contains=WORD).update(visibility="restricted")


def name_many_topics(cast: Cast) -> None:
    """None of them bears on the question."""
    for number in range(3):
        make_entry(cast.ana, f"Holidays {number} {WORD}", "We are closed in August.", visibility="restricted")


def give_feedback_in_private(cast: Cast) -> None:
    thread = direct(cast.ana, cast.sage)
    reply = Message(thread=thread, author=cast.sage.participant, body="In March.", token_count=4)
    Message.objects.bulk_create([reply])
    give_feedback(message=reply, by=access(cast.ana), verdict="down", text=f"Say {WORD} with money and roses.")


def learn_in_private(cast: Cast) -> None:
    thread = direct(cast.ana, cast.sage)
    EpisodeFactory.create(
        agent=cast.sage.participant,
        kind="learning_acquired",
        summary=f"Money and roses mean {WORD}.",
        channel=thread.channel,
        thread=thread,
    )


KINDS: dict[str, Callable[[Cast], None]] = {
    "an entry": restrict,
    "a result of a closed place": pin_result_of_closed_place,
    "topics": name_many_topics,
    "feedback": give_feedback_in_private,
    "an episode": learn_in_private,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", DOORS)
def test_no_door_says_what_not_everybody_there_may_see(door: str, kind: str, cast: Cast, lair: Thread) -> None:
    Entry.objects.filter(pk=cast.entry.pk).update(status="archived")
    KINDS[kind](cast)
    assert WORD not in DOORS[door](cast, lair)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_left_out_so_is_counted(kind: str, cast: Cast, lair: Thread) -> None:
    Entry.objects.filter(pk=cast.entry.pk).update(status="archived")
    KINDS[kind](cast)
    question = "What of money and roses?"
    run = ask(lair, cast.dora, f"@sage {question}")
    told(run, "Nothing.")
    expected = {
        "an entry": ["knowledge", "topics"],
        "a result of a closed place": ["episodes", "knowledge", "topics"],
        "topics": ["topics"],
        "feedback": ["feedback"],
        "an episode": ["episodes"],
    }[kind]
    assert left_out(asked(cast.sage, lair, cast.dora, question)) == expected
    page = signed_in(cast.dora).get(f"/w/{lair.workspace.slug}/runs/{run.pk}/context/dropped/").content.decode()
    assert page.count(UNSEEN) == len(expected)
    assert WORD not in page
    own = asked(cast.sage, direct(cast.ana, cast.sage), cast.ana, question)
    assert WORD in sent(own)
    assert left_out(own) == []


def test_what_a_tool_answered_among_few_is_in_no_prompt_for_more(cast: Cast) -> None:
    lair = den_of(cast.ana, cast.sage)
    told(ask(lair, cast.ana, f"@sage {QUESTION}"), calling(LOOK), "That much.")
    assert f"{SECRET} in March" in sent(asked(cast.sage, lair, cast.ana, "And then?"))

    add_to_channel(channel=lair.channel, participant=cast.dora.participant, by=access(cast.ana))
    prompt = asked(cast.sage, lair, cast.ana, "And then?")
    assert f"{SECRET} in March" not in sent(prompt)
    assert "work" in left_out(prompt)
    remove_from_channel(channel=lair.channel, participant=cast.dora.participant, by=access(cast.ana))
    assert f"{SECRET} in March" in sent(asked(cast.sage, lair, cast.ana, "And then?"))


@pytest.mark.django_db(transaction=True)
def test_somebody_who_comes_while_the_agent_answers_is_not_told(cast: Cast) -> None:
    """Neither what stood in the prompt nor what tools answered before."""
    lair = den_of(cast.ana, cast.sage)

    def come() -> None:
        add_to_channel(channel=lair.channel, participant=cast.dora.participant, by=access(cast.ana))

    run = ask(lair, cast.ana, f"@sage {QUESTION}")
    first, second, third = told(run, calling(LOOK), meanwhile(come, calling(LOOK)), "Nothing.").calls
    said = [json.dumps([message.content for message in each.messages]) for each in (first, second, third)]
    assert [SECRET in each for each in said] == [True, True, False]
    assert all("somebody reads along by now" in result for result in results(third))
    assert ToolCall.objects.get(run=run, round=2).decision == "refused"
    assert run.state == "done"


@pytest.mark.django_db(transaction=True)
def test_somebody_who_comes_where_nothing_restricted_stands_changes_nothing(cast: Cast) -> None:
    thread = den_of(cast.ana, cast.sage, *write_members(cast.ana.workspace, 4))

    def come() -> None:
        add_to_channel(channel=thread.channel, participant=cast.dora.participant, by=access(cast.ana))

    look = calling(("log_progress", {"checkpoint": "Looked"}))
    _, second = told(ask(thread, cast.ana, f"@sage {QUESTION}"), meanwhile(come, look), "Nothing.").calls
    assert "Logged as progress" in results(second)[0]


def test_an_agent_that_answers_through_the_api_finds_what_its_readers_may_see(cast: Cast) -> None:
    Agent.objects.filter(pk=cast.sage.pk).update(answers_itself=True)
    cast.sage.refresh_from_db()
    thread = direct(cast.dora, cast.sage)
    _, secret = issue_token(participant=cast.sage.participant, name="tests", scopes=["read", "write", "knowledge"])

    def found() -> str:
        headers = {"Authorization": f"Bearer {secret}"}
        paths = (f"knowledge/search/?q={QUESTION}", "knowledge/", f"knowledge/{cast.entry.pk}/", "knowledge/index/")
        return "".join(Client().get(f"/api/v1/{path}", headers=headers).content.decode() for path in paths)

    assert SECRET in found()
    run = begin_external_run(agent=cast.sage, message=say(thread, cast.dora, f"@sage {QUESTION}"))
    assert SECRET not in found()
    assert "Layoffs" not in found().replace(QUESTION, "")
    finish_external_run(run=run, words="Nothing.", usage=ReportedUsage("", 0, 0))
    assert SECRET in found()


def test_users_of_a_program_with_the_agents_token_are_no_admins(cast: Cast) -> None:
    den_of(cast.ana, cast.sage)
    own = participant_access(cast.sage.participant)
    assert own is not None
    body = {"model": "@sage", "messages": [{"role": "user", "content": QUESTION}], "metadata": {"channel": "#den"}}
    request = parse_chat(body)
    run = begin_turn(asker_of(cast.sage.participant, own, "Somebody"), cast.sage, request)
    (first,) = told(run, "Nothing.").calls
    assert SECRET not in "\n".join(message.content for message in first.messages)


def test_what_stands_everywhere_is_not_written_by_who_read_restricted_knowledge(cast: Cast) -> None:
    thread = public(without_members(cast))
    BlockFactory.create(agent=cast.sage.participant, label="notes", content="", max_tokens=200)
    write = ("update_context_block", {"label": "notes", "content": "The Layoffs."})
    note = ("memory", {"action": "profile_update", "text": "Knows of the Layoffs."})
    suggest = ("knowledge_suggest", {"topic": "Costs", "content": "Layoffs cost much.", "why": "It was said."})
    model = told(ask(thread, cast.ana, f"@sage {QUESTION}"), calling(write, note, suggest), "Done.")
    answers = results(model.calls[1])
    assert "restricted knowledge" in answers[0]
    assert "restricted knowledge" in answers[1]
    assert Block.objects.get().content == ""
    assert Entry.objects.get(topic="Costs").visibility == "restricted"

    other = make_thread(thread.channel, cast.ana, "Weather")
    told(ask(other, cast.ana, "@sage is it raining?"), calling(write), "Done.")
    assert Block.objects.get().content == "The Layoffs."


def learned(agent: Agent, thread: Thread, text: str) -> None:
    EpisodeFactory.create(
        agent=agent.participant, kind="learning_acquired", summary=text, channel=thread.channel, thread=thread
    )


def test_a_guest_is_not_told_what_was_learned_in_a_public_channel_of_others(cast: Cast) -> None:
    learned(cast.sage, public(cast), f"Roses mean {WORD}.")
    with_guest = den_of(cast.ana, cast.sage, cast.ben)
    prompt = asked(cast.sage, with_guest, cast.ben, "Roses?")
    assert WORD not in sent(prompt)
    assert left_out(prompt).count("episodes") == 1
    assert WORD in sent(asked(cast.sage, direct(cast.dora, cast.sage), cast.dora, "Roses?"))

    add_to_channel(channel=Channel.objects.get(name="garden"), participant=cast.ben.participant, by=access(cast.ana))
    assert WORD in sent(asked(cast.sage, with_guest, cast.ben, "Roses?"))


def test_an_agent_that_a_thread_does_not_list_is_not_told_of_it_by_another(cast: Cast) -> None:
    learned(cast.sage, listing(cast), f"Roses mean {WORD}.")
    channel = Channel.objects.get(name="den")
    beside = make_thread(channel, cast.ana, "Beside")
    prompt = asked(cast.sage, beside, cast.ana, "Roses?")
    assert WORD not in sent(prompt)
    assert left_out(prompt).count("episodes") == 1

    remove_from_channel(
        channel=channel, participant=Agent.objects.get(participant__handle="other").participant, by=access(cast.ana)
    )
    assert WORD in sent(asked(cast.sage, beside, cast.ana, "Roses?"))


def test_an_agent_below_knows_nothing_restricted_whoever_reads(cast: Cast) -> None:
    set_trust_level(agent=cast.sage, by=access(cast.ana), level=3, note="Too eager.")
    cast.sage.refresh_from_db()
    prompt = asked(cast.sage, direct(cast.ana, cast.sage), cast.ana)
    assert SECRET not in sent(prompt)
    assert [item.reason for item in prompt.dropped if item.section == "knowledge"] == ["trust L3"]


def test_it_takes_as_many_statements_however_many_read(cast: Cast) -> None:
    thread = public(cast)

    def statements() -> int:
        with CaptureQueriesContext(connection) as caught:
            asked(cast.sage, thread, cast.ana)
        return len(caught)

    statements()
    of_few = statements()
    members = write_members(cast.ana.workspace, 60)
    for member in members[:30]:
        thread.channel.memberships.create(participant=member.participant)
    assert statements() == of_few
    narrowed = shown_to_readers(visible_to(cast.sage), thread.pk)
    assert narrowed.shut_out.count(",") < 6


def test_rows_and_sql_agree_on_what_readers_may_see(cast: Cast) -> None:
    Entry.objects.filter(pk=cast.entry.pk).update(author=cast.dora.participant)
    for thread in (direct(cast.dora, cast.sage), direct(cast.ana, cast.sage), den_of(cast.ana, cast.sage, cast.ben)):
        narrowed = shown_to_readers(visible_to(cast.sage), thread.pk)
        hits = {hit.entry.pk for hit in find_entries(narrowed, QUESTION).hits}
        assert hits == set(Entry.objects.visible_to(narrowed).current().values_list("pk", flat=True))

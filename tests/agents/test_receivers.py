"""A mention makes a run in the same transaction; who may not answer leaves a reason."""

from agents.agent.services import set_trust_level
from agents.models import Agent, Run
from agents.runs.lifecycle import request_run
from openvibe.chat.models import Mention, Thread
from openvibe.chat.services import set_thread_access
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_channel, make_paid_endpoint, make_thread, say


def test_a_mention_makes_one_run(ana: Member, vibe: Agent, thread: Thread) -> None:
    message = say(thread, ana, "@vibe when do I prune?")
    run = Run.objects.get(trigger=message)
    assert (run.task, run.state, run.agent) == ("mention", "queued", vibe)


def test_two_mentions_in_one_message_make_two_runs(ana: Member, vibe: Agent, thread: Thread) -> None:
    make_agent(ana, "fern", channel=thread.channel)
    message = say(thread, ana, "@vibe and @fern, what do you think? @vibe?")
    assert Run.objects.filter(trigger=message).count() == 2


def test_posting_the_same_message_again_makes_no_second_run(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "@vibe hello", client_id="one")
    say(thread, ana, "@vibe hello", client_id="one")
    assert Run.objects.count() == 1


def test_a_message_that_asks_twice_is_asked_once(ana: Member, vibe: Agent, thread: Thread) -> None:
    message = say(thread, ana, "@vibe hello")
    first = Run.objects.get()
    assert request_run(agent=vibe, message=message, task="mention") == first
    assert Run.objects.get() == first


def test_a_people_only_thread_tells_no_agent_and_says_why(ana: Member, vibe: Agent, thread: Thread) -> None:
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    message = say(thread, ana, "@vibe are you there?")
    assert not Run.objects.exists()
    assert "people only" in Mention.objects.get(message=message).note


def test_an_agent_outside_the_channel_says_why(ana: Member, vibe: Agent) -> None:
    elsewhere = make_thread(make_channel(ana, "elsewhere"), ana)
    message = say(elsewhere, ana, "@vibe are you there?")
    assert not Run.objects.exists()
    assert "not in this channel" in Mention.objects.get(message=message).note


def test_at_l3_it_answers_in_public_channels_without_being_added(ana: Member, vibe: Agent) -> None:
    set_trust_level(agent=vibe, by=access(ana), level=3, note="Did well")
    elsewhere = make_thread(make_channel(ana, "elsewhere"), ana)
    assert Run.objects.filter(trigger=say(elsewhere, ana, "@vibe hello")).exists()


def test_at_l1_it_does_not_follow_a_thread(ana: Member, thread: Thread) -> None:
    fern = make_agent(ana, "fern", level=1, channel=thread.channel)
    thread.following_agents.add(fern.participant)
    say(thread, ana, "What now?")
    assert not Run.objects.exists()


def test_a_follower_answers_every_message(ana: Member, vibe: Agent, thread: Thread) -> None:
    thread.following_agents.add(vibe.participant)
    assert Run.objects.filter(trigger=say(thread, ana, "What now?"), task="thread").exists()


def test_a_spent_budget_says_so(ana: Member, vibe: Agent, thread: Thread) -> None:
    make_paid_endpoint(ana)
    Agent.objects.update(daily_token_budget=0)
    message = say(thread, ana, "@vibe hello")
    assert not Run.objects.exists()
    assert "budget for today" in Mention.objects.get(message=message).note


def test_what_an_agent_elsewhere_is_asked_waits_for_its_program(ana: Member, vibe: Agent, thread: Thread) -> None:
    Agent.objects.update(answers_itself=True)
    message = say(thread, ana, "@vibe hello")
    run = Run.objects.get(trigger=message)
    assert (run.task, run.state, run.is_external) == ("mention", "queued", True)
    assert Mention.objects.get(message=message).note == ""
    thread.following_agents.add(vibe.participant)
    say(thread, ana, "Nobody is named")
    assert Run.objects.count() == 1, "it may say nothing to what it only follows"

"""The tokens that agents may use in a channel in a day: counted, held, and said on the message."""

import pytest

from agents.agent.permissions import reply_denied_reason, unasked_denied_reasons
from agents.agent.token_budgets import check_budgets_left, read_tokens_used, tokens_left
from agents.models import Agent, Run
from memory.plugins.models import ReviewMark
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel, Mention, Thread
from openvibe.chat.services import start_dive
from openvibe.engines.llm.errors import BudgetExceeded
from openvibe.workspaces.models import Member, Spending
from tests.agents.factories import SpendingFactory
from tests.agents.runs.scripted_runs import LOG, ask, calling, reply_of
from tests.agents.runs.scripted_runs import told as run_with
from tests.factories import access, make_agent, make_channel, make_paid_endpoint, make_thread, say
from tests.memory.episodes.sample_reviews import LEARNING, review, suggesting

USED_UP = "the token budget of #general for today is used up"


def cap(channel: Channel, tokens: int | None) -> None:
    Channel.objects.filter(pk=channel.pk).update(daily_token_budget=tokens)


@pytest.fixture
def spent(ana: Member, vibe: Agent, channel: Channel) -> Spending:
    """100 tokens in #general, with a model that costs something."""
    make_paid_endpoint(ana)
    cap(channel, 100)
    return SpendingFactory.create(workspace=vibe.workspace, channel=channel, purpose="summaries", input_tokens=100)


def fresh(thread: Thread) -> Thread:
    return Thread.objects.select_related("channel").get(pk=thread.pk)


def reason(agent: Agent, thread: Thread) -> str:
    return reply_denied_reason(agent, fresh(thread), "mention") or ""


def test_a_used_up_channel_keeps_every_agent_from_answering_there_alone(
    spent: Spending, ana: Member, vibe: Agent, thread: Thread
) -> None:
    assert USED_UP in reason(vibe, thread)
    beds = make_channel(ana, "beds")
    sage = make_agent(ana, "sage", level=3)
    assert USED_UP in reason(sage, thread)
    assert not reason(sage, make_thread(beds, ana))
    message = say(fresh(thread), ana, "@vibe when do I prune?")
    mention = Mention.objects.get(message=message)
    assert USED_UP in mention.note
    assert not Run.objects.filter(trigger=message).exists()
    cap(thread.channel, None)
    assert not reason(vibe, thread)


def test_what_costs_nothing_is_not_stopped(channel: Channel, vibe: Agent, thread: Thread) -> None:
    cap(channel, 0)
    assert not reason(vibe, thread)


def test_what_runs_and_the_background_use_counts(ana: Member, vibe: Agent, channel: Channel, thread: Thread) -> None:
    run = ask(thread, ana)
    run_with(run, "In March.")
    in_runs = read_tokens_used(vibe.workspace_id).by_channel[channel.pk]
    assert in_runs > 0
    review(vibe, thread, suggesting(LEARNING))
    (row,) = Spending.objects.all()
    assert row.channel_id == channel.pk
    used = read_tokens_used(vibe.workspace_id)
    assert used.by_channel == {channel.pk: in_runs + row.input_tokens + row.output_tokens}
    assert used.total == used.by_agent[vibe.participant_id] == used.by_channel[channel.pk]


def test_a_dive_counts_where_its_thread_stands(ana: Member, vibe: Agent, channel: Channel, thread: Thread) -> None:
    dive = start_dive(source=say(thread, ana, "Roses."), agent=vibe.participant, by=access(ana), body="Look closer.")
    run_with(Run.objects.get(thread=dive.thread), "In March.")
    assert read_tokens_used(vibe.workspace_id).by_channel[channel.pk] > 0


def test_a_run_stops_between_two_turns(ana: Member, vibe: Agent, channel: Channel, thread: Thread) -> None:
    cap(channel, 200)
    run = ask(thread, ana, "@vibe when do I prune?")
    model = run_with(run, calling(LOG, text="Let me note that."), "In March.")
    assert (run.state, run.error_code, len(model.calls)) == ("failed", "budget_used_up", 1)
    assert f"did not go on: {USED_UP}" in run.error
    assert reply_of(run).body == "Let me note that."


def test_a_budget_set_while_an_agent_answers_holds_from_its_next_turn(
    spent: Spending, vibe: Agent, channel: Channel
) -> None:
    cap(channel, 150)
    assert check_budgets_left(vibe, channel.pk) == 50
    cap(channel, 100)
    with pytest.raises(Problem, match=f"@vibe did not go on: {USED_UP}"):
        check_budgets_left(vibe, channel.pk)
    cap(channel, None)
    assert check_budgets_left(vibe, channel.pk) > 1_000


def test_the_background_waits(spent: Spending, ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "@vibe please always name the source. Roses like sun.")
    model = suggesting(LEARNING)
    with pytest.raises(BudgetExceeded, match="channel's"):
        review(vibe, thread, model)
    assert (model.calls, ReviewMark.objects.count(), Spending.objects.count()) == ([], 0, 1)
    assert tokens_left(vibe.workspace_id, vibe.participant_id, thread.channel_id) == 0
    assert tokens_left(vibe.workspace_id, vibe.participant_id) > 0


def test_schedules_and_agents_elsewhere_are_held(spent: Spending, ana: Member, thread: Thread) -> None:
    sage = make_agent(ana, "sage", level=3, channel=thread.channel)
    threads = [fresh(thread), make_thread(make_channel(ana, "beds"), ana)]
    here, elsewhere = unasked_denied_reasons(sage, threads, "scheduled")
    assert USED_UP in (here or "")
    assert elsewhere is None
    reed = make_agent(ana, "reed", channel=thread.channel, answers_itself=True)
    assert USED_UP in reason(reed, thread)


def test_where_only_added_agents_answer(ana: Member, vibe: Agent, channel: Channel, thread: Thread) -> None:
    sage = make_agent(ana, "sage", level=3)
    assert not reason(sage, thread)
    Channel.objects.update(added_agents_only=True)
    assert "only agents answer that were added" in reason(sage, thread)
    assert not reason(vibe, thread)
    mention = Mention.objects.get(message=say(fresh(thread), ana, "@sage when do I prune?"))
    assert "only agents answer that were added" in mention.note

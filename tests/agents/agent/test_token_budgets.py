"""What models are asked counts against the day's budgets unless it costs nothing, and in the background it waits when
they are used up."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from agents.agent.permissions import reply_denied_reason
from agents.agent.token_budgets import tokens_left, tokens_used_today
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.runs.lifecycle import retry_run
from agents.statistics.admin_dashboard import _token_spend
from agents.statistics.statistics import tokens_per_day
from agents.wiring import iter_reviewer_agents
from knowledge.contradictions.detect import detect_contradictions
from knowledge.models import Contradiction
from memory.episodes.models import Proposal
from memory.plugins.compaction import execute_compaction, request_compaction
from memory.plugins.lcm.models import Summary
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.models import Compaction, ReviewMark
from openvibe.chat.models import Thread
from openvibe.engines.llm.endpoints.endpoints import client_for
from openvibe.engines.llm.errors import BudgetExceeded, ModelUnavailable
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member, Spending, Workspace
from openvibe.workspaces.services import meter_client
from tests.agents.runs.scripted_runs import LOG, ask, calling, reply_of
from tests.agents.runs.scripted_runs import told as run_with
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel
from tests.factories import access, make_entry, make_paid_endpoint, say, say_all
from tests.memory.episodes.sample_reviews import LEARNING, review, suggesting

SUMMARY = "Ana says that roses like sun, water and mulch."


def cap(ana: Member, tokens: int) -> None:
    Workspace.objects.filter(pk=ana.workspace_id).update(daily_token_budget=tokens)


@pytest.fixture
def told(ana: Member, thread: Thread) -> Thread:
    say(thread, ana, "@vibe please always name the source. Roses like sun.")
    return thread


@pytest.fixture
def long_thread(ana: Member, vibe: Agent, thread: Thread) -> Thread:
    say_all(
        thread,
        ana,
        (f"Row {number}. " + "The roses want sun, water, mulch and a little patience. " * 40 for number in range(40)),
    )
    return thread


def compacted(thread: Thread, model: ScriptedModel) -> Compaction:
    compaction = request_compaction(thread=thread, trigger="threshold")
    assert compaction is not None
    execute_compaction(compaction.pk, provider=LcmProvider(client=model))
    compaction.refresh_from_db()
    return compaction


# --- it counts ----------------------------------------------------------------------------------------------
def test_a_review_counts_for_the_agent_and_its_workspace(ana: Member, vibe: Agent, told: Thread) -> None:
    before = tokens_used_today(agent=vibe), tokens_used_today(workspace_id=vibe.workspace_id)
    review(vibe, told, suggesting(LEARNING))
    (row,) = Spending.objects.all()
    cost = row.input_tokens + row.output_tokens
    assert (row.purpose, row.agent_id, row.model) == ("review", vibe.participant_id, "scripted")
    assert min(row.input_tokens, row.output_tokens) > 0
    after = tokens_used_today(agent=vibe), tokens_used_today(workspace_id=vibe.workspace_id)
    assert (after[0] - before[0], after[1] - before[1]) == (cost, cost)
    assert tokens_per_day(agent=vibe)[-1].tokens == after[0]
    assert tokens_per_day(workspace_ids=[vibe.workspace_id])[-1].tokens == after[1]
    (shown,) = _token_spend([vibe.workspace_id])
    assert (shown["used"], shown["background"]) == (after[1], cost)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_days_are_those_of_utc_wherever_the_reader_is(vibe: Agent, zone: str) -> None:
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    spent = {"workspace": vibe.workspace, "agent": vibe.participant, "purpose": "review", "model": "scripted"}
    for tokens, at in ((1, midnight - timedelta(minutes=1)), (20, midnight), (300, midnight + timedelta(hours=23))):
        Spending.objects.create(input_tokens=tokens, created_at=at, **spent)
    with timezone.override(zone):
        days = tokens_per_day(agent=vibe)
    assert [day.tokens for day in days[-2:]] == [1, 320]


def test_summaries_count_for_the_workspace(vibe: Agent, long_thread: Thread) -> None:
    compaction_result = compacted(long_thread, ScriptedModel([SUMMARY]))
    assert (compaction_result.state, compaction_result.note) == ("done", "")
    assert set(Spending.objects.values_list("purpose", flat=True)) == {"summaries"}
    assert not Spending.objects.filter(agent__isnull=False).exists()
    assert tokens_used_today(workspace_id=vibe.workspace_id) > 5_000
    assert tokens_used_today(agent=vibe) == 0


def test_judging_counts_for_the_workspace(ana: Member) -> None:
    make_entry(ana)
    make_entry(ana, content="Starter costs $39 a month.")
    detect_contradictions(client=ScriptedModel(['{"contradictions": []}']))
    assert set(Spending.objects.values_list("purpose", flat=True)) == {"contradictions"}


def test_a_call_that_fails_counts_what_was_sent(vibe: Agent, told: Thread) -> None:
    with pytest.raises(ModelUnavailable):
        review(vibe, told, ScriptedModel([ModelUnavailable("down")]))
    assert Spending.objects.get().input_tokens > 0


def test_the_offline_model_costs_nothing(vibe: Agent, told: Thread) -> None:
    assert review(vibe, told)
    assert not Spending.objects.exists()


def test_answers_that_cost_nothing_use_no_budget(ana: Member, vibe: Agent, thread: Thread) -> None:
    Agent.objects.update(daily_token_budget=1)
    for question in ("@vibe when do I prune?", "@vibe and the roses?"):
        run = Run.objects.get(trigger=say(thread, ana, question))
        execute_run(run.pk)
        run.refresh_from_db()
        assert (run.state, run.is_free) == ("done", True)
        assert min(run.input_tokens, run.output_tokens) > 0
    assert (tokens_used_today(agent=vibe), tokens_used_today(workspace_id=vibe.workspace_id)) == (0, 0)


def test_a_model_that_only_has_the_offline_models_name_is_metered(ana: Member, vibe: Agent, thread: Thread) -> None:
    namesake = ScriptedModel(["In March."], model="offline")
    run = Run.objects.get(trigger=say(thread, ana, "@vibe when do I prune?"))
    execute_run(run.pk, client=namesake)
    assert tokens_used_today(agent=vibe) > 0
    meter_client(namesake, workspace_id=vibe.workspace_id, purpose=Spending.Purpose.REVIEW).complete([])
    assert Spending.objects.exists()


@pytest.mark.parametrize(("price", "is_free"), [(0, True), (Decimal("0.5"), False), (None, False)])
def test_an_endpoint_whose_prices_are_nought_is_free(ana: Member, price: Decimal | None, is_free: bool) -> None:
    """A model whose price is not known is metered."""
    endpoint = EndpointFactory.create(
        workspace=ana.workspace,
        name="Ours",
        base_url="https://models.example/v1",
        model="m",
        price_in=price,
        price_out=0,
    )
    assert client_for(endpoint).is_free == is_free
    assert client_for(None).is_free


def test_what_was_paid_for_counts_though_the_next_attempt_is_free(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = Run.objects.get(trigger=say(thread, ana, "@vibe when do I prune?"))
    execute_run(run.pk, client=ScriptedModel([ScriptedAnswer("In Ma", then=ModelUnavailable("It is gone."))]))
    paid = tokens_used_today(agent=vibe)
    execute_run(retry_run(run=run, by=access(ana)).pk)
    assert tokens_used_today(agent=vibe) >= paid > 0


def test_what_the_background_used_keeps_agents_from_answering(ana: Member, vibe: Agent, thread: Thread) -> None:
    make_paid_endpoint(ana)
    Spending.objects.create(workspace=vibe.workspace, agent=vibe.participant, purpose="review", input_tokens=500_000)
    assert "used up" in (reply_denied_reason(vibe, thread, "mention") or "")
    assert tokens_left(vibe.workspace_id, vibe.participant_id) == 0
    assert tokens_left(vibe.workspace_id) == 1_500_000
    assert list(iter_reviewer_agents()) == []
    Endpoint.objects.update(price_in=0, price_out=0)
    assert reply_denied_reason(vibe, thread, "mention") is None, "what costs nothing is not stopped"
    assert [participant for participant, _ in iter_reviewer_agents()] == [vibe.participant]


@pytest.mark.parametrize("whose", ["its token budget", "the workspace's token budget"])
def test_a_run_stops_between_two_turns_once_a_budget_is_used_up(
    ana: Member, vibe: Agent, thread: Thread, whose: str
) -> None:
    """What was said so far is kept, and the page says why it goes no further."""
    (Agent if whose.startswith("its") else Workspace).objects.update(daily_token_budget=200)
    run = ask(thread, ana, "@vibe when do I prune?")
    model = run_with(run, calling(LOG, text="Let me note that."), "In March.")
    assert (run.state, run.error_code, len(model.calls)) == ("failed", "budget_used_up", 1)
    assert f"did not go on: {whose} for today is used up" in run.error
    assert reply_of(run).body == "Let me note that."


# --- it waits -----------------------------------------------------------------------------------------------
def test_a_review_waits_for_the_next_day(ana: Member, vibe: Agent, told: Thread) -> None:
    Agent.objects.update(daily_token_budget=100)
    model = suggesting(LEARNING)
    with pytest.raises(BudgetExceeded):
        review(vibe, told, model)
    assert (model.calls, ReviewMark.objects.count(), Spending.objects.count()) == ([], 0, 0)
    Agent.objects.update(daily_token_budget=100_000)
    assert review(vibe, told, model)
    assert Proposal.objects.exists()


def test_without_tokens_the_rule_judges_alone(ana: Member) -> None:
    make_entry(ana)
    make_entry(ana, content="Starter costs $39 a month.")
    model = ScriptedModel(['{"contradictions": []}'])
    cap(ana, 50)
    assert detect_contradictions(client=model) == 2
    assert (model.calls, Spending.objects.count()) == ([], 0)
    assert Contradiction.objects.get().found_by == "rule"


def test_a_compaction_over_the_budget_asks_no_model_and_says_so(ana: Member, long_thread: Thread) -> None:
    cap(ana, 200)
    model = ScriptedModel([SUMMARY])
    compaction_result = compacted(long_thread, model)
    assert compaction_result.state == "done"
    assert compaction_result.tokens_after is not None
    assert compaction_result.tokens_before is not None
    assert compaction_result.tokens_after < compaction_result.tokens_before / 2
    assert "token budget for today is used up" in compaction_result.note
    assert (model.calls, Spending.objects.count()) == ([], 0)
    assert set(Summary.objects.values_list("level", flat=True)) == {"fallback"}

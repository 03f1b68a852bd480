"""How much of each prompt a cache can serve and did serve, over time and around compactions."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import DjangoAssertNumQueries, Settings

from agents.models import Agent, Run, Snapshot
from agents.runs.executor import execute_run
from agents.statistics.cache_rates import agent_cache, cache_history, thread_caches, visible_runs
from agents.statistics.charts import Rate, build_rate_chart, total_rate
from memory.models import Compaction
from openvibe.chat.models import Thread
from openvibe.engines.charts.charts import CHART_HEIGHT, CHART_WIDTH
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, serving
from tests.factories import access, make_channel, make_thread, signed_in
from tests.memory.factories import CompactionFactory

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
parts = st.none() | st.integers(0, 50_000)
rates = st.builds(Rate, parts, parts)


def percents(around: object) -> tuple[float | None, ...]:
    return tuple(getattr(around, name).percent for name in ("before", "first", "after"))


@pytest.fixture
def endpoint(ana: Member, settings: Settings) -> Iterator[None]:
    """A model that says of every other answer what it read from its cache."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer("In March.", cached_tokens=None), Answer("In May.", cached_tokens=10)) as server:
        EndpointFactory.create(
            workspace=ana.workspace, name="Near", base_url=server.base_url, model="gpt-4o", is_default=True
        )
        yield


def answered(thread: Thread, by: Member) -> Run:
    run = ask(thread, by)
    execute_run(run.pk)
    run.refresh_from_db()
    assert run.state == "done", run.error
    return run


def seen(thread: Thread, vibe: Agent, by: Member, shares: list[tuple[int | None, int | None]]) -> None:
    """Runs of 1,000 tokens, an hour apart from BEGIN on, with so many tokens shared and cached."""
    for hour, (shared, cached) in enumerate(shares):
        run = ask(thread, by, f"@vibe question {hour}")
        Run.objects.filter(pk=run.pk).update(state="done", input_tokens=1_000, cached_tokens=cached)
        Snapshot.objects.create(
            run=run,
            task="mention",
            model="m",
            assembler_version=1,
            budget=8_000,
            tokens=1_000,
            counter="c",
            prefix_shared=shared,
            created_at=BEGIN + timedelta(hours=hour),
        )


def compacted(thread: Thread, at: datetime, state: str = "done") -> Compaction:
    compaction = CompactionFactory.create(
        thread=thread, plugin="memory/lcm", trigger="threshold", state=state, tokens_before=12_000, tokens_after=6_000
    )
    Compaction.objects.filter(pk=compaction.pk).update(finished_at=at)
    return compaction


def test_what_the_provider_says_is_kept_and_what_it_does_not_say_stays_unknown(
    endpoint: None, ana: Member, vibe: Agent, thread: Thread
) -> None:
    first, second = answered(thread, ana), answered(thread, ana)
    assert (first.cached_tokens, second.cached_tokens) == (None, 10)
    one, two = cache_history(visible_runs(access(ana))).points
    assert (one.shared.percent, one.cached.percent) == (None, None)
    assert two.shared.percent is not None
    assert two.shared.percent > 50
    assert two.cached == Rate(10, second.input_tokens)


def test_rates_before_and_after_a_compaction(ana: Member, vibe: Agent, thread: Thread) -> None:
    seen(thread, vibe, ana, [(None, None), (900, 800), (920, 820), (100, 0), (950, 900), (970, None)])
    compacted(thread, BEGIN + timedelta(hours=2, minutes=30))
    compacted(thread, BEGIN + timedelta(hours=4, minutes=30), state="nothing")
    (cache,) = thread_caches(thread, access(ana))
    (around,) = cache.compactions
    assert percents(around.shared) == (91.0, 10.0, 96.0)
    assert percents(around.cached) == (81.0, 0.0, 90.0)
    (mark,) = cache.chart.marks
    assert mark.x == CHART_WIDTH / 2
    assert cache.chart.shared.startswith("120.0,10.0 240.0,8.0 360.0,90.0")
    assert cache.shared.percent == 76.8


def test_pages_and_api_show_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    seen(thread, vibe, ana, [(None, None), (900, None), (100, None)])
    Snapshot.objects.update(created_at=timezone.now() - timedelta(hours=1))
    compacted(thread, timezone.now() - timedelta(minutes=30))
    client = signed_in(ana)
    for path in ("agents/vibe/", f"t/{thread.pk}/memory/"):
        page = client.get(f"/w/{ana.workspace.slug}/{path}").content.decode()
        assert "share their first <strong>50.0 %</strong>" in page
        assert "The provider does not say what it read from its cache." in page
        assert "Compaction, " in page
    history = client.get(f"/api/v1/agents/vibe/cache/?thread={thread.pk}").json()
    assert [point["shared"]["percent"] for point in history["points"]] == [None, 90.0, 10.0]
    assert history["points"][0]["cached"] == {"part": None, "whole": 1_000, "percent": None}
    (around,) = history["compactions"]
    assert (around["shared"]["before"]["percent"], around["tokens_after"]) == (50.0, 6_000)
    run = Run.objects.latest("pk")
    viewer = client.get(f"/w/{ana.workspace.slug}/runs/{run.pk}/context/compared/").content.decode()
    assert "the provider did not say" in viewer


def test_other_peoples_threads_are_not_told_of(
    ana: Member, dora: Member, vibe: Agent, thread: Thread, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    private = make_thread(make_channel(ana, "private", private=True), ana, "Salaries")
    private.channel.memberships.create(participant=vibe.participant)
    seen(thread, vibe, ana, [(None, None), (900, 800)])
    seen(private, vibe, ana, [(None, None), (500, 400)])
    compacted(private, BEGIN + timedelta(minutes=30))
    assert {point.thread_id for point in cache_history(visible_runs(access(ana))).points} == {thread.pk, private.pk}
    history = cache_history(visible_runs(access(dora)))
    assert ({point.thread_id for point in history.points}, history.compactions) == ({thread.pk}, ())
    dora_access = access(dora)
    with django_assert_num_queries(4):
        titles = [one.thread_title for one in agent_cache(vibe, dora_access).threads]
    assert titles == [thread.title]


def test_nothing_measured_is_not_nought() -> None:
    assert total_rate([]).percent is None
    assert total_rate([Rate(None, 100), Rate(30, 100), Rate(0, 100)]).percent == 15.0


@given(st.lists(st.tuples(st.integers(0, 10_000), rates, rates), max_size=20), st.integers(0, 20_000))
def test_lines_stay_inside_the_drawing_and_run_to_the_right(history: list[tuple[int, Rate, Rate]], ends: int) -> None:
    points = [(BEGIN + timedelta(minutes=at), one, two) for at, one, two in sorted(history, key=lambda row: row[0])]
    chart = build_rate_chart(points, [], starts_at=BEGIN, ends_at=BEGIN + timedelta(minutes=ends))
    for line in (chart.shared, chart.cached):
        drawn = [tuple(map(float, point.split(","))) for point in line.split()]
        assert len(drawn) != 1
        assert all(0 <= x <= CHART_WIDTH and 0 <= y <= CHART_HEIGHT for x, y in drawn)
        assert [x for x, _ in drawn] == sorted(x for x, _ in drawn)

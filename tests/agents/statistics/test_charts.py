"""The prompts of a thread as one chart: bars of what each was made of, within the frame, whatever the sizes."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.models import Agent, Snapshot
from agents.runs.executor import execute_run
from agents.statistics.charts import BARS_HEIGHT, MAX_BARS, PromptPoint, Rate, build_prompt_chart
from openvibe.chat.models import Thread
from openvibe.engines.charts.charts import CHART_WIDTH, even_ticks
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask
from tests.factories import signed_in

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LAYERS = st.dictionaries(st.sampled_from(["P0", "P1", "P6", "frame"]), st.integers(0, 20_000))


def point(
    layers: dict[str, int], budget: int = 8_000, *, shared: int | None = None, at: datetime = BEGIN
) -> PromptPoint:
    tokens = sum(layers.values())
    return PromptPoint(1, "vibe", 1, "Roses", at, Rate(shared, tokens), Rate(), tokens, budget, layers, {})


@pytest.mark.django_db
def test_sections_are_kept_with_the_numbers_and_drawn_after_the_text_is_gone(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, ana)
    execute_run(run.pk)
    snapshot = Snapshot.objects.get(run=run)
    assert sum(snapshot.sections.values()) == sum(snapshot.layers.values()) - snapshot.layers.get("frame", 0)
    assert snapshot.sections["tools"] > 0
    Snapshot.objects.update(content=None)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{thread.pk}/memory/").content.decode()
    assert f"of {snapshot.budget:,} tokens. Tools: {snapshot.sections['tools']:,} tokens" in page
    assert f'href="/w/{ana.workspace.slug}/runs/{run.pk}/context/"' in page
    viewer = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/context/").content.decode()
    assert f"Tools: {snapshot.sections['tools']} tokens" in viewer
    assert f"/t/{thread.pk}/memory/prompts/{run.pk}/" in viewer


@given(st.lists(st.tuples(LAYERS, st.integers(1, 40_000), st.none() | st.integers(0, 50_000)), max_size=80))
def test_bars_stand_side_by_side_within_the_frame(prompts: list[tuple[dict[str, int], int, int | None]]) -> None:
    points = [
        point(layers, budget, shared=shared, at=BEGIN + timedelta(hours=hour))
        for hour, (layers, budget, shared) in enumerate(prompts)
    ]
    chart = build_prompt_chart(points, [BEGIN + timedelta(hours=70.5)])
    if chart is None:
        assert not prompts
        return
    assert [bar.prompt for bar in chart.bars] == points[-MAX_BARS:]
    assert chart.has_older is (len(points) > MAX_BARS)
    edges = [edge for bar in chart.bars for edge in (bar.x, bar.end)]
    assert edges == sorted(edges)
    assert edges[-1] <= CHART_WIDTH
    for bar in chart.bars:
        assert sum(box.tokens for box in bar.boxes) == max(bar.prompt.tokens, bar.prompt.budget)
        assert all(box.y >= -0.1 and box.y + box.height <= BARS_HEIGHT + 0.1 for box in bar.boxes)
        assert 0 <= bar.shared_height <= chart.height - bar.shared_y + 0.1
    assert [0 <= mark.x <= CHART_WIDTH for mark in chart.marks] == [True]


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        ([2_153], "1 prompt of 2,153 tokens, 27 % of the budget"),
        ([2_153, 2_153], "2 prompts of 2,153 tokens, at most 27 % of the budget"),
        ([900, 2_153, 1_000], "3 prompts of 900 to 2,153 tokens, at most 27 % of the budget"),
        ([900] * (MAX_BARS + 1), f"The newest {MAX_BARS} prompts of 900 tokens, at most 11 % of the budget"),
    ],
)
def test_one_sentence_says_how_many_and_how_large(tokens: list[int], sentence: str) -> None:
    chart = build_prompt_chart([point({"P1": number}) for number in tokens], [])
    assert chart is not None
    assert chart.summary == sentence


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, (1, 0)),
        (4, (4, 3, 2, 1, 0)),
        (8_000, (8_000, 6_000, 4_000, 2_000, 0)),
        (8_001, (10_000, 8_000, 6_000, 4_000, 2_000, 0)),
        (24_000, (25_000, 20_000, 15_000, 10_000, 5_000, 0)),
    ],
)
def test_the_axis_has_round_numbers_at_even_distances(highest: int, ticks: tuple[int, ...]) -> None:
    chart = build_prompt_chart([point({}, highest)], [])
    assert chart is not None
    assert tuple(tick.tokens for tick in chart.ticks) == ticks
    heights = [tick.y for tick in chart.ticks]
    assert (heights[0], heights[-1]) == (0, BARS_HEIGHT)
    assert {round(below - above) for above, below in pairwise(heights)} == {round(BARS_HEIGHT / (len(ticks) - 1))}


@given(st.integers(1, 10**7))
def test_no_axis_is_much_higher_than_what_it_shows(highest: int) -> None:
    top, *rest = even_ticks(highest)
    assert highest <= top
    assert len(rest) <= 5
    assert top - highest < top - rest[0]

"""The drawing of tokens over time stays inside its frame and shows what was measured."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.plugins.map.token_chart import CHART_HEIGHT, CompactionStep, Growth, build_token_chart
from openvibe.engines.charts.charts import CHART_WIDTH

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
sizes = st.integers(0, 10_000_000)
steps = st.lists(st.tuples(st.integers(0, 10_000), sizes, sizes), max_size=20).map(
    lambda found: [CompactionStep(BEGIN + timedelta(minutes=at), before, after) for at, before, after in sorted(found)]
)


growths = st.lists(st.tuples(st.integers(0, 20_000), sizes), max_size=20).map(
    lambda found: [Growth(BEGIN + timedelta(minutes=at), tokens) for at, tokens in sorted(found)]
)


@given(steps, growths, sizes, st.integers(0, 20_000))
@settings(deadline=None)
def test_every_point_is_inside_and_time_runs_to_the_right(
    history: list[CompactionStep], growth: list[Growth], tokens: int, ends: int
) -> None:
    chart = build_token_chart(
        history,
        growth,
        starts_at=BEGIN,
        now=BEGIN + timedelta(minutes=ends),
        tokens=tokens,
        threshold=11_250,
        target=7_500,
    )
    points = [tuple(map(float, point.split(","))) for point in chart.line.split()]
    assert all(0 <= x <= CHART_WIDTH and 0 <= y <= CHART_HEIGHT for x, y in points)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert len(chart.marks) == len(history)


def test_a_compaction_is_a_step_down() -> None:
    at = BEGIN + timedelta(hours=1)
    chart = build_token_chart(
        [CompactionStep(at, 12_000, 7_000)],
        starts_at=BEGIN,
        now=at + timedelta(hours=1),
        tokens=9_000,
        threshold=11_250,
        target=7_500,
    )
    (mark,) = chart.marks
    assert mark.x == CHART_WIDTH / 2
    assert mark.before_y < chart.threshold_y < chart.target_y < mark.after_y
    assert chart.max_tokens == 12_000


def test_what_came_in_seconds_rises_in_seconds() -> None:
    at = BEGIN + timedelta(hours=1)
    chart = build_token_chart(
        [CompactionStep(at, 12_000, 7_000)],
        [Growth(BEGIN, 12_500), Growth(at + timedelta(minutes=30), 1_000)],
        starts_at=BEGIN,
        now=at + timedelta(hours=1),
        tokens=8_000,
        threshold=11_250,
        target=7_500,
    )
    (mark,) = chart.marks
    points = [tuple(map(float, point.split(","))) for point in chart.line.split()]
    assert (0.0, mark.before_y) in points  # at once, and not above what the compaction measured
    assert [x for x, y in points if mark.after_y > y > mark.before_y] == [
        CHART_WIDTH * 3 / 4,
        CHART_WIDTH,
        CHART_WIDTH,
        CHART_WIDTH,
    ]

"""The prompts of a thread as one chart: bars of what each was made of, within the frame, whatever the sizes."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.charts import CHART_WIDTH
from agents.models import Agent, Snapshot
from agents.prompt_chart import BARS_HEIGHT, MAX_BARS, CompactionMark, PromptSize, build_prompt_chart
from agents.runs.executor import execute_run
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask
from tests.agents.web.conftest import signed_in

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
layers = st.dictionaries(st.sampled_from(["P0", "P1", "P6", "frame"]), st.integers(0, 20_000))


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


@given(st.lists(st.tuples(layers, st.integers(1, 40_000), st.none() | st.floats(0, 100)), max_size=80))
def test_bars_stand_side_by_side_within_the_frame(prompts: list[tuple[dict[str, int], int, float | None]]) -> None:
    sizes = [
        PromptSize(at, BEGIN + timedelta(hours=at), sum(layers.values()), budget, layers, {}, shared, None)
        for at, (layers, budget, shared) in enumerate(prompts)
    ]
    chart = build_prompt_chart(sizes, [CompactionMark(0, BEGIN + timedelta(hours=70.5), 9, 3)])
    if chart is None:
        assert not prompts
        return
    assert [bar.size for bar in chart.bars] == sizes[-MAX_BARS:]
    edges = [edge for bar in chart.bars for edge in (bar.x, bar.end)]
    assert edges == sorted(edges)
    assert edges[-1] <= CHART_WIDTH
    for bar in chart.bars:
        assert sum(box.tokens for box in bar.boxes) == max(bar.size.tokens, bar.size.budget)
        assert all(box.y >= -0.1 and box.y + box.height <= BARS_HEIGHT + 0.1 for box in bar.boxes)
        assert 0 <= bar.shared_height <= chart.height - bar.shared_y + 0.1
    assert all(0 <= mark.x <= CHART_WIDTH for mark in chart.marks)

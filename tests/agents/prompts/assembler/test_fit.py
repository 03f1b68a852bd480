"""What fits into a prompt, and what waits outside."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agents.prompts.assembler.fit import RequiredPartsTooLarge, fit
from agents.prompts.assembler.items import AtomicGroup, FitResult, SectionCandidates
from agents.prompts.assembler.stack import BUDGETS, LAYER_NAMES, LayerName
from tests.agents.prompts.assembler.prompt_factories import caps, offer, offers, sized

NO_CAPS: Mapping[LayerName, int | None] = dict.fromkeys(LAYER_NAMES)
Caps = Mapping[LayerName, int | None]


def keys(fitted: FitResult) -> list[str]:
    return [item.key for item in fitted.included]


def try_fit(offered: Sequence[SectionCandidates], ceiling: int, limits: Caps, overhead: int = 0) -> FitResult:
    try:
        return fit(offered, ceiling=ceiling, caps=limits, overhead=overhead)
    except RequiredPartsTooLarge:
        assume(False)
        raise


def test_lower_layers_wait_for_higher_ones_however_they_are_offered() -> None:
    fit_result = fit([offer("P6", 60), offer("P3", 50), offer("P1", 40)], ceiling=100, caps=NO_CAPS, overhead=0)
    assert keys(fit_result) == ["P1:0", "P3:0"]
    assert [(item.key, item.reason) for item in fit_result.dropped] == [("P6:0", "over budget")]
    assert fit_result.tokens == 90


def test_a_layer_stops_at_its_cap_and_takes_a_smaller_bundle_instead() -> None:
    fit_result = fit([offer("P3", 60, 60, 40)], ceiling=500, caps={"P3": 100}, overhead=0)
    assert keys(fit_result) == ["P3:0", "P3:2"]


def test_an_offers_own_cap_counts_beside_its_layers() -> None:
    feedback, skills = offer("P2", 30, 30, name="feedback", cap=30), offer("P2", 60, 20, name="skills")
    fit_result = fit([feedback, skills], ceiling=500, caps={"P2": 60}, overhead=0)
    assert keys(fit_result) == ["feedback:0", "skills:1"]


def test_blocks_stand_beside_the_cap_of_their_layer() -> None:
    blocks, feedback = offer("P2", 80, name="blocks", beyond_layer_cap=True), offer("P2", 50, name="feedback")
    fit_result = fit([blocks, feedback], ceiling=500, caps={"P2": 50}, overhead=0)
    assert keys(fit_result) == ["blocks:0", "feedback:0"]


def test_history_has_no_holes() -> None:
    fit_result = fit([offer("P1", 40, 90, 10, contiguous=True)], ceiling=100, caps=NO_CAPS, overhead=0)
    assert keys(fit_result) == ["P1:0"]


def test_what_is_left_goes_back_to_history_past_its_cap() -> None:
    history = offer("P1", 40, 40, 40, 40, contiguous=True, extendable=True)
    fit_result = fit([history, offer("P3", 30)], ceiling=160, caps={"P1": 50, "P3": 30}, overhead=10)
    assert keys(fit_result) == ["P1:0", "P3:0", "P1:1", "P1:2"]
    assert [item.key for item in fit_result.dropped] == ["P1:3"]
    assert fit_result.tokens == 160


def test_the_request_stands_whatever_the_caps() -> None:
    request = offer("P1", 90, name="request", required=True)
    fit_result = fit([offer("P0", 50), request], ceiling=100, caps={"P0": 100, "P1": 10}, overhead=5)
    assert keys(fit_result) == ["request:0"]


def test_required_parts_over_the_ceiling_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(RequiredPartsTooLarge, match="need 120 tokens, but the prompt has only 100") as error:
        fit([offer("P0", 110, required=True)], ceiling=100, caps=NO_CAPS, overhead=10)
    assert (error.value.needed, error.value.ceiling) == (120, 100)


def test_a_bundle_comes_whole_or_not_at_all() -> None:
    pair = AtomicGroup((sized("P1", "call", 30), sized("P1", "result", 80)))
    fit_result = fit([SectionCandidates("P1", "history", (pair,))], ceiling=100, caps=NO_CAPS, overhead=0)
    assert keys(fit_result) == []
    assert [item.key for item in fit_result.dropped] == ["call", "result"]


def test_the_same_message_never_stands_twice() -> None:
    history = SectionCandidates("P1", "history", (AtomicGroup((sized("P1", "message:7", 30),)),))
    recall = SectionCandidates(
        "P6", "recall", (AtomicGroup((sized("P6", "message:7", 30), sized("P6", "message:8", 30))),)
    )
    fit_result = fit([recall, history], ceiling=60, caps=NO_CAPS, overhead=0)
    assert keys(fit_result) == ["message:7", "message:8"]
    assert [(item.layer, item.key, item.reason) for item in fit_result.dropped] == [("P6", "message:7", "superseded")]


def test_a_full_mention_keeps_the_published_numbers() -> None:
    mention = BUDGETS["mention"]
    stack = [offer(name, *[100] * 200) for name in LAYER_NAMES]
    fit_result = fit(stack, ceiling=mention.ceiling, caps=mention.caps, overhead=0)
    used = Counter(item.layer for item in fit_result.included)
    assert used == {"P0": 20, "P1": 35, "P2": 5, "P3": 10, "P4": 2, "P5": 5, "P6": 3}


@given(offers(), st.integers(0, 600), caps, st.integers(0, 40))
def test_never_over_the_ceiling_and_always_counted_right(
    offered: Sequence[SectionCandidates], ceiling: int, limits: Caps, overhead: int
) -> None:
    fit_result = try_fit(offered, ceiling, limits, overhead)
    assert fit_result.tokens == overhead + sum(item.tokens for item in fit_result.included)
    assert fit_result.tokens <= ceiling


@given(offers(), st.integers(0, 600), caps)
def test_required_parts_always_stand(offered: Sequence[SectionCandidates], ceiling: int, limits: Caps) -> None:
    fit_result = try_fit(offered, ceiling, limits)
    required = {item.key for one in offered if one.required for bundle in one.groups for item in bundle.items}
    assert required <= set(keys(fit_result))


@given(offers(), st.integers(0, 600), caps)
def test_everything_offered_is_included_or_dropped_once(
    offered: Sequence[SectionCandidates], ceiling: int, limits: Caps
) -> None:
    fit_result = try_fit(offered, ceiling, limits)
    every = Counter((i.layer, i.key, i.tokens) for one in offered for b in one.groups for i in b.items)
    inside = Counter((i.layer, i.key, i.tokens) for i in fit_result.included)
    outside = Counter((item.layer, item.key, item.tokens) for item in fit_result.dropped)
    assert inside + outside == every
    assert len(set(keys(fit_result))) == len(fit_result.included)


@given(offers(), st.integers(0, 600), caps)
def test_superseded_means_that_it_stands_there_already(
    offered: Sequence[SectionCandidates], ceiling: int, limits: Caps
) -> None:
    fit_result = try_fit(offered, ceiling, limits)
    inside = set(keys(fit_result))
    assert all((item.key in inside) == (item.reason == "superseded") for item in fit_result.dropped)


@given(offers(), st.integers(0, 600), caps, st.sampled_from(LAYER_NAMES))
def test_lower_layers_never_take_room_from_higher_ones(
    offered: Sequence[SectionCandidates], ceiling: int, limits: Caps, lowest: LayerName
) -> None:
    """Priority, said precisely: without the optional offers below a layer, the layers down to it keep all they
    had, save what the extension of history gave; and that only ever gives to P1."""
    fit_result = try_fit(offered, ceiling, limits)
    higher = [one for one in offered if one.required or one.layer <= lowest]
    alone = try_fit([unextended(one) for one in higher], ceiling, limits)
    together = try_fit([unextended(one) for one in offered], ceiling, limits)
    assert [item for item in together.included if item.layer <= lowest or item in alone.included] == list(
        alone.included
    )
    assert fit_result.included[: len(together.included)] == together.included
    assert all(item.layer == "P1" for item in fit_result.included[len(together.included) :])


@given(offers(), st.integers(0, 600), caps)
def test_the_same_offers_give_the_same_prompt(offered: Sequence[SectionCandidates], ceiling: int, limits: Caps) -> None:
    assert try_fit(offered, ceiling, limits) == try_fit(list(offered), ceiling, dict(limits))


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(0, 300), st.integers(0, 300))
def test_contiguous_history_is_always_the_newest_part(sizes: list[int], ceiling: int, cap: int) -> None:
    history = offer("P1", *sizes, contiguous=True, extendable=True)
    fit_result = fit([history], ceiling=ceiling, caps={"P1": cap}, overhead=0)
    assert keys(fit_result) == [f"P1:{rank}" for rank in range(len(fit_result.included))]
    if fit_result.dropped:
        assert fit_result.tokens + fit_result.dropped[0].tokens > ceiling


def unextended(one: SectionCandidates) -> SectionCandidates:
    return SectionCandidates(
        one.layer, one.section, one.groups, one.cap, one.required, one.contiguous, False, one.beyond_layer_cap
    )

"""The layout of the memory map: each message has its place once, nothing leaves the frame, it never grows too fine."""

from hypothesis import given
from hypothesis import strategies as st

from memory.plugins.base import SummarySpan
from memory.plugins.map.map_layout import MAX_PIECES, WIDTH, Measure, build_map_layout, split_thread
from memory.plugins.map.timeline import PromptPart


def part(kind: str, first: int, last: int, tokens: int = 10, row_id: int = 0) -> PromptPart:
    return PromptPart(kind, first, last, tokens, row_id or first)  # type: ignore[arg-type]  # kinds are drawn at random


def test_a_thread_reads_from_summaries_to_what_was_said_afterwards() -> None:
    spans = [SummarySpan(1, 1, 4, 1, 30), SummarySpan(2, 5, 8, 0, 40)]
    parts = [part("summary", 1, 4, 30), part("message", 11, 11), part("message", 12, 12), part("recalled", 3, 3)]
    pieces = split_thread(parts, spans, end=12, last=15)
    assert [(piece.key, piece.first, piece.last) for piece in pieces] == [
        ("condensed-1", 1, 4),
        ("unseen", 5, 8),
        ("unseen", 9, 10),
        ("whole", 11, 12),
        ("later", 13, 15),
        ("recalled", 3, 3),
    ]
    measures = {piece.first: Measure(piece.last - piece.first + 1, 100, piece.first) for piece in pieces}
    layout = build_map_layout(pieces, measures, tokens=80, budget=200)
    assert (
        layout.sentence
        == "2 messages word for word, 1 summary of 4 older ones, 1 recalled for this question, 6 not read."
    )
    assert [piece.words for piece in layout.pieces][:2] == [
        "Summary of summaries of messages 1–4: 100 → 30 tokens",
        "Not read, messages 5–8: the summary was left out; 100 tokens were said",
    ]
    assert (layout.used_tokens, layout.rest_tokens, layout.free) == (60, 20, 120)
    assert [word for _, word in layout.legend] == ["Whole", "Summarised", "Not read"]


def test_passages_of_one_message_are_one_that_was_recalled() -> None:
    parts = [
        part("message", 9, 9),
        part("recalled", 9, 9, 300),
        part("recalled", 3, 3, 300),
        part("recalled", 3, 3, 300),
    ]
    pieces = split_thread(parts, (), end=9, last=10)
    measures = {1: Measure(8, 100, 1), 9: Measure(1, 900, 9), 10: Measure(1, 20, 10)}
    layout = build_map_layout(pieces, measures, tokens=1_000, budget=2_000)
    assert layout.sentence == "1 message word for word, 2 recalled for this question, 7 not read."
    assert layout.source_tokens == 1_020
    assert not any(" 0 tokens" in piece.words for piece in layout.all_pieces)


@given(
    kinds=st.lists(st.sampled_from(["message", "recalled", "nothing", "deleted"]), max_size=400),
    tail=st.integers(0, 30),
    budget=st.integers(1, 3_000),
)
def test_every_message_has_its_place_once(kinds: list[str], tail: int, budget: int) -> None:
    last = len(kinds) + tail
    parts = [part(kind, at, at) for at, kind in enumerate(kinds, 1) if kind in ("message", "recalled")]
    pieces = split_thread(parts, (), end=len(kinds), last=last)
    base = [piece for piece in pieces if piece.kind != "recalled"]
    assert [n for piece in base for n in range(piece.first, piece.last + 1)] == list(range(1, last + 1))
    said = [kind != "deleted" for kind in kinds] + [True] * tail
    measures = {
        piece.first: Measure(count, 7 * count, piece.first)
        for piece in base
        if (count := sum(said[piece.first - 1 : piece.last]))
    }
    layout = build_map_layout(pieces, measures, tokens=10 * len(parts) + 5, budget=budget)
    assert layout.messages == sum(said)
    assert max(len(layout.pieces), len(layout.recalled)) <= MAX_PIECES
    places = [place for piece in layout.all_pieces for place in (piece.above, piece.below) if place]
    assert all(place.x >= 0 and place.end <= WIDTH + 3 for place in places)
    if layout.pieces:
        assert layout.used_tokens == 10 * len(parts)

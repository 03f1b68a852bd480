"""The layout of the memory map, a thread drawn to scale: above, what was said, by its own tokens; below, what a prompt
holds of it, within the prompt's budget. Plain values, no database."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from memory.plugins.base import SummarySpan
from memory.plugins.map.timeline import PromptPart
from openvibe.engines.text.cleaning import pluralize

WIDTH = 1000
"""Units of the drawing, whatever its width on the page."""

MAX_PIECES = 60
"""Pieces above, and clusters of recalled messages: beyond that neighbours are drawn as one."""

MIN_WIDTH = 2.0
"""Units at which a piece can still be seen."""

PieceKind = Literal["whole", "summary", "recalled", "unseen", "later"]


class Measure(NamedTuple):
    """What was said in a stretch of a thread: messages that prompts may hold, their tokens as memory counts them (with
    author and time), and the first one's id."""

    messages: int = 0
    tokens: int = 0
    message_id: int | None = None


class Interval(NamedTuple):
    """Place and width in units of the drawing."""

    x: float
    width: float

    @property
    def end(self) -> float:
        return round(self.x + self.width, 2)


NO_MESSAGES, NOWHERE = Measure(), Interval(0, 0)


@dataclass(frozen=True)
class Piece:
    """A stretch of the thread, message numbers `first` to `last`, seen in one way. `tokens`: in the prompt; `source`:
    what its messages take. `above` is its place among what was said, `below` in the prompt where it is there."""

    kind: PieceKind
    first: int
    last: int
    tokens: int = 0
    depth: int = 0
    summary_ids: tuple[int, ...] = ()
    source: Measure = NO_MESSAGES
    is_new: bool = False
    above: Interval = NOWHERE
    below: Interval | None = None

    @property
    def key(self) -> str:
        """How it looks: `whole`, `leaf`, `condensed-1` to `condensed-3`, `recalled`, `unseen`, `later`."""
        if self.kind != "summary":
            return self.kind
        return f"condensed-{min(self.depth, 3)}" if self.depth else "leaf"

    @property
    def title(self) -> str:
        return PIECE_TITLES[self.key]

    @property
    def words(self) -> str:
        """What it is, in one line: of the drawing for who points at it, and of the list for who does not see it."""
        which = f"message {self.first}" if self.first == self.last else f"messages {self.first}–{self.last}"
        if self.kind == "summary":
            new = ", new" if self.is_new else ""
            count = len(self.summary_ids)
            name = f"{count} summaries" if count > 1 else "Summary of summaries" if self.depth else "Summary"
            return f"{name} of {which}{new}: {self.source.tokens:,} → {pluralize(self.tokens, 'token')}"
        if self.kind == "recalled":
            return f"{self.title}, {which}: {pluralize(self.tokens, 'token')}"
        if self.kind == "unseen" and self.summary_ids:
            return f"{self.title}, {which}: the summary was left out; {self.source.tokens:,} tokens were said"
        return f"{self.title}, {which}: {pluralize(self.source.tokens, 'token')}"

    @property
    def link(self) -> str:
        """A polygon that joins its two places: what was said, and what the prompt has of it."""
        if self.below is None:
            return ""
        top, bottom = 48 if self.kind == "recalled" else 36, 104  # edges of the lanes, as the template has them
        return f"{self.above.x},{top} {self.above.end},{top} {self.below.end},{bottom} {self.below.x},{bottom}"


PIECE_TITLES: Mapping[str, str] = {
    "whole": "Word for word",
    "leaf": "Summaries of messages",
    "condensed-1": "Summaries of summaries, level 1",
    "condensed-2": "Summaries of summaries, level 2",
    "condensed-3": "Summaries of summaries, level 3 and above",
    "recalled": "Recalled for this question",
    "unseen": "Not read",
    "later": "Said afterwards",
}


class KindTotal(NamedTuple):
    """How many pieces of one kind there are, and messages in them."""

    key: str
    pieces: int
    messages: int


class LegendKey(NamedTuple):
    """A colour of the drawing, and its word."""

    key: str
    word: str


@dataclass(frozen=True)
class MapLayout:
    """`pieces` stand above in the order of the thread, `recalled` under them. `used_tokens` is what a prompt
    holds of the thread, `rest_tokens` what it holds besides, `free` what is left of its `budget`; all in tokens."""

    pieces: tuple[Piece, ...]
    recalled: tuple[Piece, ...]
    source_tokens: int
    messages: int
    budget: int
    used_tokens: int
    rest: Interval
    rest_tokens: int
    free: int
    budget_x: float

    @property
    def all_pieces(self) -> tuple[Piece, ...]:
        return (*self.pieces, *self.recalled)

    @property
    def totals(self) -> tuple[KindTotal, ...]:
        return tuple(
            _kind_total(key, own, self.recalled if key == "unseen" else ())
            for key in PIECE_TITLES
            if (own := [piece for piece in self.all_pieces if piece.key == key])
        )

    @property
    def legend(self) -> tuple[LegendKey, ...]:
        """Three words at most; shades of one colour share theirs."""
        keys = {piece.key for piece in self.all_pieces}
        legend = [LegendKey("whole", "Whole")] if keys & {"whole", "recalled"} else []
        if any(piece.kind == "summary" for piece in self.pieces):
            legend.append(LegendKey("leaf", "Summarised"))
        if "unseen" in keys:
            legend.append(LegendKey("unseen", "Not read"))
        elif "later" in keys:
            legend.append(LegendKey("later", "Said later"))
        return tuple(legend)

    @property
    def sentence(self) -> str:
        """How the messages were seen."""
        counts = {total.key: total.messages for total in self.totals}
        summaries = [total for total in self.totals if total.key == "leaf" or total.key.startswith("condensed")]
        parts = [pluralize(counts.get("whole", 0), "message") + " word for word"]
        if summaries:
            pieces, messages = sum(total.pieces for total in summaries), sum(total.messages for total in summaries)
            parts.append(f"{pluralize(pieces, 'summary', 'summaries')} of {messages:,} older ones")
        if counts.get("recalled"):
            parts.append(f"{counts['recalled']:,} recalled for this question")
        if counts.get("unseen"):
            parts.append(f"{counts['unseen']:,} not read")
        return ", ".join(parts) + "."


def _kind_total(key: str, pieces: Sequence[Piece], recalled_pieces: Iterable[Piece]) -> KindTotal:
    """`recalled_pieces` lie outside of them, wherever it was said."""
    inside = [each for each in recalled_pieces if any(piece.first <= each.first <= piece.last for piece in pieces)]
    return KindTotal(
        key,
        sum(max(len(piece.summary_ids), 1) for piece in pieces),
        max(sum(piece.source.messages for piece in pieces) - sum(each.source.messages for each in inside), 0),
    )


def split_thread(
    parts: Iterable[PromptPart], spans: Sequence[SummarySpan], *, end: int, last: int, created: Iterable[int] = ()
) -> list[Piece]:
    """The thread's messages 1 to `last` as pieces: those of the prompt, what it left out up to message `end`, and what
    was said afterwards. Recalled messages come last; they may stand in a summary, too. `created`: ids of new summaries.
    """
    parts = sorted(parts, key=lambda each: (each.first, each.kind != "summary"))
    depths, new = {span.id: span.depth for span in spans}, set(created)
    counted: set[int] = set()  # of one message several passages may be recalled
    pieces: list[Piece] = []
    recalled_pieces: list[Piece] = []
    last_seq = 0
    for part in parts:
        if part.kind == "recalled" or part.first <= last_seq:
            measure = Measure(int(part.kind != "recalled" or part.row_id not in counted), 0, part.row_id)
            recalled_pieces.append(Piece("recalled", part.first, part.last, part.tokens, source=measure))
            counted.add(part.row_id)
            continue
        pieces += _gap(last_seq + 1, part.first - 1, spans, end)
        if part.kind == "summary":
            is_new, ids = part.row_id in new, (part.row_id,)
            depth = depths.get(part.row_id, 0)
            pieces.append(Piece("summary", part.first, part.last, part.tokens, depth, ids, is_new=is_new))
        else:
            pieces.append(Piece("whole", part.first, part.last, part.tokens))
        last_seq = part.last
    pieces += _gap(last_seq + 1, min(end, last), spans, end)
    pieces += _gap(max(last_seq, end) + 1, last, (), end)
    clusters = _join(recalled_pieces, lambda before, after: after.first <= before.last + 1)
    return [*_join(pieces, _is_same_stretch), *_merge_nearest(clusters, _messages_between)]


def _gap(first: int, last: int, spans: Sequence[SummarySpan], end: int) -> Iterator[Piece]:
    """What the prompt has nothing of; where a summary stands for it that was left out, with that summary."""
    kind: PieceKind = "unseen" if first <= end else "later"
    for span in spans:
        if first <= span.first and span.last <= last:
            if first < span.first:
                yield Piece(kind, first, span.first - 1)
            yield Piece(kind, span.first, span.last, summary_ids=(span.id,))
            first = span.last + 1
    if first <= last:
        yield Piece(kind, first, last)


def _is_same_stretch(before: Piece, after: Piece) -> bool:
    return before.kind == after.kind != "summary" and not (before.summary_ids or after.summary_ids)


def _join(pieces: Iterable[Piece], is_one: Callable[[Piece, Piece], bool]) -> list[Piece]:
    joined_pieces: list[Piece] = []
    for piece in pieces:
        if joined_pieces and is_one(joined_pieces[-1], piece):
            joined_pieces[-1] = _merge(joined_pieces[-1], piece)
        else:
            joined_pieces.append(piece)
    return joined_pieces


def _merge(before: Piece, after: Piece) -> Piece:
    larger = max(before, after, key=lambda piece: piece.source.tokens)
    measure = Measure(
        before.source.messages + after.source.messages,
        before.source.tokens + after.source.tokens,
        before.source.message_id or after.source.message_id,
    )
    return replace(
        larger,
        first=before.first,
        last=max(before.last, after.last),
        tokens=before.tokens + after.tokens,
        summary_ids=before.summary_ids + after.summary_ids,
        source=measure,
        is_new=before.is_new or after.is_new,
    )


def _merge_nearest(pieces: list[Piece], distance: Callable[[Piece, Piece], int]) -> list[Piece]:
    """The pieces, at most MAX_PIECES: the nearest neighbours become one."""
    reach = 1
    while len(pieces) > MAX_PIECES:
        reach *= 2
        pieces = _join(pieces, partial(_is_near, distance, reach))
    return pieces


def _is_near(distance: Callable[[Piece, Piece], int], reach: int, before: Piece, after: Piece) -> bool:
    return distance(before, after) < reach


def _messages_between(before: Piece, after: Piece) -> int:
    return after.first - before.last


def _smaller_tokens(before: Piece, after: Piece) -> int:
    return min(before.source.tokens, after.source.tokens)


def build_map_layout(
    pieces: Sequence[Piece], measures: Mapping[int, Measure], *, tokens: int, budget: int
) -> MapLayout:
    """The layout. `measures`: what was said, by the first message of each piece that is not recalled; `tokens` is the
    size of the whole prompt."""
    stretches = [_measure_piece(piece, measures) for piece in pieces if piece.kind != "recalled"]
    stretches = _merge_nearest(
        _join([piece for piece in stretches if piece.source.messages], _is_same_stretch), _smaller_tokens
    )
    source_tokens = sum(piece.source.tokens for piece in stretches)
    placed_pieces = list(_place(stretches, max(source_tokens, 1)))
    recalled_pieces = [
        _place_recalled_piece(piece, placed_pieces) for piece in pieces if piece.kind == "recalled" and placed_pieces
    ]
    prompt_tokens = sum(piece.tokens for piece in (*placed_pieces, *recalled_pieces))
    scale = WIDTH / max(budget, tokens, prompt_tokens, 1)
    bars, x = [], 0.0
    for piece in (*placed_pieces, *recalled_pieces):
        if piece.tokens:
            width = piece.tokens * scale
            piece = replace(piece, below=Interval(round(x, 2), round(width, 2)))
            x += width
        bars.append(piece)
    rest = max(tokens - prompt_tokens, 0)
    return MapLayout(
        tuple(bars[: len(placed_pieces)]),
        tuple(bars[len(placed_pieces) :]),
        source_tokens,
        sum(piece.source.messages for piece in stretches),
        budget,
        prompt_tokens,
        Interval(round(x, 2), round(rest * scale, 2)),
        rest,
        max(budget - max(tokens, prompt_tokens), 0),
        round(budget * scale, 2),
    )


def _measure_piece(piece: Piece, measures: Mapping[int, Measure]) -> Piece:
    """What no prompt has measured takes what it says."""
    measure = measures.get(piece.first, Measure())
    tokens = measure.tokens if piece.kind == "whole" and not piece.tokens else piece.tokens
    return replace(piece, source=measure, tokens=tokens)


def _place(pieces: Iterable[Piece], source_tokens: int) -> Iterator[Piece]:
    x = 0.0
    for piece in pieces:
        width = WIDTH * piece.source.tokens / source_tokens
        yield replace(piece, above=Interval(round(x, 2), round(max(width, MIN_WIDTH), 2)))
        x += width


def _place_recalled_piece(piece: Piece, placed_pieces: Sequence[Piece]) -> Piece:
    """Places a piece about where it was said: within its stretch, by the numbers of messages."""
    stretch = next((each for each in placed_pieces if each.first <= piece.first <= each.last), placed_pieces[-1])
    unit = stretch.above.width / (stretch.last - stretch.first + 1)
    x = min(stretch.above.x + unit * max(piece.first - stretch.first, 0), WIDTH - MIN_WIDTH)
    width = max(min(unit * (piece.last - piece.first + 1), WIDTH - x), MIN_WIDTH)
    return replace(piece, above=Interval(round(x, 2), round(width, 2)))

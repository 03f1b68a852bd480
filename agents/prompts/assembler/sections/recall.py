"""Recall (P6): messages of this thread that are no longer in view but bear on the request, long ones as excerpts.

Searched with `openvibe.chat.search`: words and meaning, with what stands beside a good message, chosen into the room
that the rest of the prompt leaves. What was said long ago stands before the newest messages, so that time runs one way
up to the question. Of a long message in view, which stands there with head and tail alone, it looks for
passages of the middle. What was recalled for an earlier request keeps its place while what bears on this
one has room beside it, so that providers need not read it again."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import accumulate, takewhile
from types import MappingProxyType
from typing import NamedTuple

from agents.prompts.assembler.excerpts import choose_passages, count_question_words, join_passages
from agents.prompts.assembler.items import (
    Item,
    SectionCandidates,
    TrustLabel,
    begin_transcript,
    format_minute,
    middle_of_message,
    opening_tokens,
    section_candidates,
)
from agents.prompts.assembler.sections.history import message_line_item
from agents.prompts.assembler.sections.recall_blocks import (
    RecallBlock,
    ShownMessage,
    StandingBlock,
    block_items,
    block_opening,
    history_checksum,
    line_item,
    passages_note,
    reopening_tokens,
    standing_blocks,
    with_reopening,
)
from agents.prompts.assembler.sections.request import PromptRequest
from agents.prompts.assembler.sections.situation import local_asking_time
from memory.queries import MAX_ENTRY_TOKENS, ContextEntry, message_entries, messages_for_prompts
from openvibe.chat.queries import MessageHit, find_messages
from openvibe.engines.llm.tokens import TokenCounter

MIN_SHOWN_TOKENS, MAX_SHOWN_TOKENS, SHOWN_DIVISOR = 300, 600, 8
"""Tokens one recalled message may take: one in so many of the room, between these two. Of a longer one the passages
that bear on the request are shown: whole ones answer better, where there is room for several."""

LINE_TOKENS = 2
"""Tokens of a line besides name and text, as the search reckons with them: its number. Some lines say when, too; to
reckon with that for all of them kept a twelfth of what was found out of a small room."""

SHORTEST_LINE_TOKENS = 6
"""The tokens that the shortest line takes, name and word included: with less room nothing more is tried."""

SEARCH_SURPLUS = 1.1
"""How much more than the room the search is asked to fill."""

NEWEST_MESSAGES = 5
"""Messages of a running history that always stand after what is recalled for the request. Before all of the history
time would run one way everywhere, and a provider would read all of it anew with every request; a mention has hardly
more history than these."""

MIN_EXCERPT_TOKENS = 60
"""The least room in which an excerpt of a long message still says something."""

RELEVANT_SCORE, RELEVANT_SHARE, MAX_RELEVANT_MESSAGES = 1.2, 0.75, 40
"""What bears on a request always stands in its prompt: messages that stand out by about so many standard deviations
(`search.ranking.rank`), up to so much of the room and so many: of thousands, hundreds stand out. The rest of the room
is for what was recalled before, then for what else was found."""

BEARING_SHARE = 0.6
"""Share of the messages of a block that bear on a mention for the block to stay."""

MIDDLES_DIVISOR = 3
"""Passages of messages in view take at most one in so many tokens of the room: the rest is for what is out of view."""

MAX_PARTS, MAX_MENTION_PARTS, MIN_PART_TOKENS = 3, 2, 400
"""Blocks of one request, the best first, and tokens of each: the next prompt may keep the first and not the last."""


class Recall(NamedTuple):
    """What is recalled, and the blocks in which it stands, as they are stored."""

    candidates: SectionCandidates
    blocks: tuple[RecallBlock, ...]


NO_RECALL = Recall(section_candidates("recall", ()), ())


def recall_messages(
    request: PromptRequest, history: Iterable[Item], room: int, headlines: Mapping[int, int] = MappingProxyType({})
) -> Recall:
    """What fills `room` tokens of what was said out of view: what bears on the request first, then the newest.

    `history` stands in the prompt; nothing is lifted out of what runs on from its last summary to the request. Nothing
    is bounded by a count, and everything given fits. `headlines`: the tokens that the prompt gets back for the headline
    of a dive's result once that is recalled, by its number.
    """
    history = sorted(history, key=lambda item: item.order)
    window_start, in_view = _running_window(request, history)
    room -= reopening_tokens(request.counter)
    if window_start <= 1 or room <= MIN_EXCERPT_TOKENS:
        return NO_RECALL
    place = _place_of_recall(history, window_start)
    hits = _find_hits(request, window_start, in_view, room)
    standing = standing_blocks(request, history, window_start=window_start, in_view=in_view)
    if request.task == "mention":
        standing = list(takewhile(lambda each: _bears(each, hits), standing))
    kept_blocks = _keep(standing, hits, room)
    kept_seqs = {seq for each in kept_blocks for seq, _ in each.block.messages}
    new_room = room - sum(_net_tokens(each, headlines) for each in kept_blocks)
    new_hits = packing_order([hit for hit in hits if hit.seq not in kept_seqs], new_room)
    entries = [_hit_entry(hit) for hit in new_hits]
    unseen = _MessagesOutOfView(request, window_start, {*in_view, *kept_seqs})
    checksum = history_checksum(history, place)
    new_blocks = list(_new_blocks(request, entries, unseen, new_room, headlines, (place, checksum)))
    if new_blocks:
        new_blocks[0] = replace(new_blocks[0], items=with_reopening(request, new_blocks[0].items))
    blocks = [*kept_blocks, *new_blocks]
    items = (item for each in blocks for item in each.items)
    return Recall(section_candidates("recall", items), tuple(each.block for each in blocks))


def middle_candidates(
    request: PromptRequest, entries: Sequence[ContextEntry], history: Iterable[Item], room: int
) -> SectionCandidates:
    """Passages that bear on the request of messages that stand cut in the `history`: first of those that hold most of
    its words, and of none that holds not one."""
    limit, tokens_left = _shown_limit(room), room // MIDDLES_DIVISOR
    lines: list[Item] = []
    openings: set[str] = set()
    for entry, middle in _middles(request, entries, history):
        line = _middle_line(request, entry, middle, min(limit, tokens_left))
        if line is None:
            continue
        if line.opening not in openings:
            line = begin_transcript(request.counter, line)
        if line.tokens + line.opening_tokens <= tokens_left:
            tokens_left -= line.tokens + line.opening_tokens
            openings.add(line.opening)
            lines.append(line)
    lines.sort(key=lambda line: (line.opening, int(line.ref)))
    return section_candidates("recall", lines)


def _middles(
    request: PromptRequest, entries: Sequence[ContextEntry], history: Iterable[Item]
) -> list[tuple[ContextEntry, str]]:
    """What the history leaves out of messages in it, the best first."""
    seqs_in_view = {item.order for item in history if item.key.startswith("message:")}
    long_messages = (entry for entry in entries if entry.tokens >= MAX_ENTRY_TOKENS and entry.ordinal in seqs_in_view)
    middles = [(entry, _middle(request.counter, entry)) for entry in long_messages]
    word_counts = {entry.ordinal: count_question_words(text, request.message.text) for entry, text in middles}
    with_words = (pair for pair in middles if word_counts[pair[0].ordinal])
    return sorted(with_words, key=lambda pair: (-word_counts[pair[0].ordinal], -pair[0].ordinal))


@lru_cache(maxsize=256)
def _middle(counter: TokenCounter, entry: ContextEntry) -> str:
    return middle_of_message(entry.text, MAX_ENTRY_TOKENS, counter, ref=str(entry.ordinal))


def _middle_line(request: PromptRequest, entry: ContextEntry, middle: str, room: int) -> Item | None:
    """A line of passages of what the history leaves out of a message; None where not one fits."""
    counter, ref = request.counter, str(entry.ordinal)
    note = f"[… from the middle of message {ref}, which is stored whole …]"
    limit = room - MIN_EXCERPT_TOKENS  # for the transcript, name and time
    passages = choose_passages(middle, request.message.text, limit, counter, note=note) if limit > 0 else ()
    body = f"{middle}\n{note}" if passages is None else join_passages(middle, passages, note)
    if not body:
        return None
    is_own = entry.author_id == request.agent.participant_id
    at = format_minute(datetime.fromisoformat(entry.at))
    attributes = {"part": "middles of messages above"}
    line = message_line_item(counter, entry, body, section="recall", is_own=is_own, note=at, **attributes)
    source = f"message {ref}, from its middle"
    return replace(line, key=f"middle:{entry.message_id}", source=source, order=request.end_seq)


def _running_window(request: PromptRequest, history: Sequence[Item]) -> tuple[int, set[int]]:
    """The seq at which the window that runs up to the request begins, and the seqs of the messages that stand before
    it."""
    window_start, seqs = request.end_seq, set()
    is_running = True
    for item in reversed(history):
        is_running = is_running and item.key.startswith("message:")
        if is_running:
            window_start = item.order
        elif item.key.startswith("message:"):
            seqs.add(item.order)
    return window_start, seqs


def _place_of_recall(history: Sequence[Item], window_start: int) -> int:
    """The number of the message that what is recalled stands before: the first of the newest in view."""
    running = [item.order for item in history if item.order >= window_start]
    if len(running) <= NEWEST_MESSAGES:
        return window_start
    return running[-NEWEST_MESSAGES]


def _find_hits(request: PromptRequest, window_start: int, in_view: Collection[int], room: int) -> Sequence[MessageHit]:
    """What bears on the request, the best first; a little more than fits, since lines differ in what is around them."""
    return find_messages(
        request.access,
        request.message.text,
        thread_id=request.thread.thread_id,
        budget=int(room * SEARCH_SURPLUS),
        before=window_start,
        exclude_seqs=in_view,
        max_message_tokens=_shown_limit(room),
        overhead=LINE_TOKENS,
        asked_at=local_asking_time(request),
    ).hits


def _shown_limit(room: int) -> int:
    return min(max(room // SHOWN_DIVISOR, MIN_SHOWN_TOKENS), MAX_SHOWN_TOKENS)


def _keep(standing: Sequence[StandingBlock], hits: Sequence[MessageHit], room: int) -> Sequence[StandingBlock]:
    """The first blocks, as many as leave room for what bears on the request and does not stand there."""
    bearing = dict(_relevant_messages(hits, room))
    block_tokens, kept_count = 0, 0
    needed = sum(bearing.values())
    for count, each in enumerate(standing, 1):
        block_tokens += each.tokens
        needed -= sum(bearing.get(seq, 0) for seq, _ in each.block.messages)
        if block_tokens + needed <= room:
            kept_count = count
    return standing[:kept_count]


def _bears(block: StandingBlock, hits: Iterable[MessageHit]) -> bool:
    """Whether most of what a block shows would be recalled for this request as well: the room of a mention is small."""
    found = {hit.seq for hit in hits}
    seqs = [seq for seq, _ in block.block.messages]
    return sum(seq in found for seq in seqs) >= BEARING_SHARE * len(seqs)


def _relevant_messages(hits: Sequence[MessageHit], room: int) -> Iterator[tuple[int, int]]:
    """The numbers of the messages that bear on the request, each with the tokens it takes."""
    limit, tokens_left = _shown_limit(room), room * RELEVANT_SHARE
    for hit in hits[:MAX_RELEVANT_MESSAGES]:
        cost = _line_tokens(hit, limit)
        tokens_left -= cost
        if hit.score < RELEVANT_SCORE or tokens_left < 0:
            return
        yield hit.seq, cost


class _MessagesOutOfView(NamedTuple):
    """The messages out of view of which none was found: what was said and called just before the window."""

    request: PromptRequest
    window_start: int
    in_view: Collection[int]

    def newest(self, chosen_seqs: Collection[int], room: int) -> Sequence[ContextEntry]:
        """The newest entries, as many as may fill the room, without those chosen already, the newest first."""
        if room < MIN_EXCERPT_TOKENS:
            return ()
        thread = {"thread_id": self.request.thread.thread_id, "seq__lt": self.window_start}
        messages = messages_for_prompts(self.request.access, **thread)
        unseen = messages.exclude(seq__in={*chosen_seqs, *self.in_view})
        return message_entries(unseen.order_by("-seq")[: room // SHORTEST_LINE_TOKENS])


def packing_order(hits: Sequence[MessageHit], room: int) -> Sequence[MessageHit]:
    """Those that a search for so much room finds, the best first, then the surplus in the order of its choice.

    Packed by score alone, a long message of the surplus took the room of several short ones that tell more.
    """
    by_rank, limit = sorted(hits, key=lambda hit: hit.selection_rank), _shown_limit(room)
    fit_count = sum(cost <= room for cost in accumulate(_line_tokens(hit, limit) for hit in by_rank))
    return [*sorted(by_rank[:fit_count], key=lambda hit: -hit.score), *by_rank[fit_count:]]


def _line_tokens(hit: MessageHit, limit: int) -> int:
    return min(hit.tokens, limit) + LINE_TOKENS


def _net_tokens(block: StandingBlock, headlines: Mapping[int, int]) -> int:
    """What the prompt grows by with this block, the headlines of its results left out."""
    return block.tokens - sum(headlines.get(seq, 0) for seq, _ in block.block.messages)


def _new_blocks(
    request: PromptRequest,
    entries: Sequence[ContextEntry],
    unseen: _MessagesOutOfView,
    room: int,
    headlines: Mapping[int, int],
    place: tuple[int, int],
) -> Iterator[StandingBlock]:
    """What fills `room` tokens, in blocks that hold the best, the next best and the rest. `place`: the number of the
    message that they stand before, and the checksum of what stands before that."""
    most = MAX_MENTION_PARTS if request.task == "mention" else MAX_PARTS
    parts = min(max(room // MIN_PART_TOKENS, 1), most)
    limit = _shown_limit(room)
    chosen_seqs: set[int] = set()
    for part in range(1, parts + 1):
        is_last = part == parts
        packer = _Packer(request, room // (parts - part + 1), limit, headlines, part, place[0])
        entries = packer.add(entries, shorten=is_last)
        if is_last:
            packer.add(unseen.newest({*chosen_seqs, *packer.shown}, packer.room), shorten=True)
        if packer.shown:
            chosen_seqs.update(packer.shown)
            block = packer.block(place[1])
            room -= _net_tokens(block, headlines)
            yield block


def _hit_entry(hit: MessageHit) -> ContextEntry:
    return ContextEntry(
        hit.seq,
        hit.seq,
        hit.kind,
        hit.body,
        hit.tokens,
        hit.at.isoformat(),
        hit.message_id,
        hit.author_id,
        hit.author_name,
        hit.author_kind,
        is_unfinished=hit.is_unfinished,
    )


class _Packer:
    """Fills `room` tokens with lines, the first given first, each with its time where it jumps between those chosen."""

    def __init__(
        self, request: PromptRequest, room: int, limit: int, headlines: Mapping[int, int], part: int, before: int
    ) -> None:
        self.request = request
        self.room = room
        self.limit = limit
        self.headlines = headlines
        self.part = part
        self.before = before
        self.seqs: list[int] = []
        self.shown: dict[int, ShownMessage] = {}
        self.labels: set[TrustLabel] = set()

    def add(self, entries: Sequence[ContextEntry], *, shorten: bool) -> list[ContextEntry]:
        """Adds as many of them as fit, with `shorten` what fits of a long one; returns the others."""
        left_over: list[ContextEntry] = []
        for place, entry in enumerate(entries):
            if self.room < SHORTEST_LINE_TOKENS:
                return [*left_over, *entries[place:]]
            if not self._add_entry(entry, shorten):
                left_over.append(entry)
        return left_over

    def _add_entry(self, entry: ContextEntry, shorten: bool) -> bool:
        counter, question = self.request.counter, self.request.message.text
        place = bisect(self.seqs, entry.ordinal)
        before = self.shown[self.seqs[place - 1]].entry if place else None
        message = _shown_message(counter, entry, question, self.limit)
        line, cost = self._cost(message, before)
        if shorten and cost > self.room >= MIN_EXCERPT_TOKENS and entry.tokens >= MIN_EXCERPT_TOKENS:
            message = _shown_message(counter, entry, question, self.room - cost + counter.count(message.body))
            line, cost = self._cost(message, before)
        cost -= self._saved_by(entry, before, place)
        if not message.body or cost > self.room:
            return False
        self.room -= cost - self.headlines.get(entry.ordinal, 0)
        self.labels.add(line.trust)
        self.shown[entry.ordinal] = message
        self.seqs.insert(place, entry.ordinal)
        return True

    def _cost(self, message: ShownMessage, before: ContextEntry | None) -> tuple[Item, int]:
        """The line, and its tokens with those of the transcript that it would begin."""
        line = self._line(message, before)
        if line.trust in self.labels:
            return line, line.tokens
        opening = block_opening(line.trust, self.before, self.part)
        return line, line.tokens + opening_tokens(self.request.counter, line.slot, opening)

    def _saved_by(self, entry: ContextEntry, before: ContextEntry | None, place: int) -> int:
        """Tokens that the line after it needs less, its time told from this one; below zero where it needs more."""
        if place == len(self.seqs):
            return 0
        after = self.shown[self.seqs[place]]
        return self._line(after, before).tokens - self._line(after, entry).tokens

    def _line(self, message: ShownMessage, before: ContextEntry | None) -> Item:
        return line_item(self.request, message.entry, message.body, before)

    def block(self, checksum: int) -> StandingBlock:
        """The lines chosen, and what is stored of them."""
        messages_shown = [self.shown[seq] for seq in self.seqs]
        messages = tuple((each.entry.ordinal, each.passages) for each in messages_shown)
        block = RecallBlock(self.before, self.part, checksum, messages)
        return StandingBlock(block, block_items(self.request, self.before, self.part, messages_shown))


@lru_cache(maxsize=4_096)
def _shown_message(counter: TokenCounter, entry: ContextEntry, question: str, limit: int) -> ShownMessage:
    """The message, or of a long one what bears on the question within `limit` tokens."""
    if entry.tokens <= limit:
        return ShownMessage(entry, entry.text, None)
    note = passages_note(entry)
    passages = choose_passages(entry.text, question, limit, counter, note=note)
    if passages is None:
        return ShownMessage(entry, entry.text, None)
    return ShownMessage(entry, join_passages(entry.text, passages, note), passages)

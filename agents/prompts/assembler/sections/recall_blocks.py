"""Blocks of recalled messages: each stands in the history, before the newest messages of the prompt that recalled it.

Where blocks stood is stored with the prompt, by the numbers of messages and passages, never their words. The next
prompt shows them again at the same place, byte for byte, as its reader may see them now."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import NamedTuple

from agents.prompts.assembler.excerpts import join_passages
from agents.prompts.assembler.items import Item, TrustLabel, begin_transcript, format_minute, opening_tokens
from agents.prompts.assembler.sections.history import MESSAGE_LABELS, message_line_item, time_note
from agents.prompts.assembler.sections.request import PromptRequest
from agents.prompts.assembler.sections.work import previous_answer
from memory.queries import ContextEntry, message_entries, messages_for_prompts
from openvibe.engines.llm.tokens import TokenCounter
from openvibe.engines.llm.transcripts import opening


class RecallBlock(NamedTuple):
    """The place of a block and what of which messages it showed: as stored in Snapshot.recall.

    `before`: the number of the message it stands before. `part`: which of one request's blocks. `checksum`: of the
    history that stood before it. `messages`: their numbers, each with the passages shown, None for all of it.
    """

    before: int
    part: int
    checksum: int
    messages: Sequence[tuple[int, Sequence[int] | None]]


class ShownMessage(NamedTuple):
    """A recalled message, what stands of it in the prompt, and of which of its passages that is made; None for all."""

    entry: ContextEntry
    body: str
    passages: tuple[int, ...] | None


@dataclass(frozen=True)
class StandingBlock:
    """A block with the lines that show it."""

    block: RecallBlock
    items: tuple[Item, ...]

    @property
    def tokens(self) -> int:
        return sum(item.tokens + item.opening_tokens for item in self.items)


def standing_blocks(
    request: PromptRequest, history: Sequence[Item], *, window_start: int, in_view: Collection[int]
) -> list[StandingBlock]:
    """The blocks of the newest prompt that stand after the same history in this one and show the same, in their order.

    `history`: the items in view in their order; nothing that stands there, before or since `window_start`, is recalled
    as well. One query where there are any.
    """
    previous = previous_answer(request)
    stored = map(RecallBlock._make, previous.recall if previous else ())
    unchanged_blocks = list(
        takewhile(
            lambda block: (
                block.before < request.end_seq
                and block.checksum == history_checksum(history, block.before)
                and all(seq < window_start and seq not in in_view for seq, _ in block.messages)
            ),
            stored,
        )
    )
    if not unchanged_blocks:
        return []
    seqs = [seq for block in unchanged_blocks for seq, _ in block.messages]
    messages = messages_for_prompts(request.access, thread_id=request.thread.thread_id, seq__in=seqs)
    entries = {entry.ordinal: entry for entry in message_entries(messages)}
    return _show_again(request, unchanged_blocks, entries)


def _show_again(
    request: PromptRequest, blocks: Iterable[RecallBlock], entries: Mapping[int, ContextEntry]
) -> list[StandingBlock]:
    """The first blocks, as many as still show what they showed. The history goes on in a new transcript after each."""
    standing: list[StandingBlock] = []
    for block in blocks:
        try:
            messages = [_shown_again(entries[seq], passages) for seq, passages in block.messages]
        except (KeyError, IndexError):  # deleted, hidden or shortened since
            break
        items = block_items(request, block.before, block.part, messages)
        if not standing or standing[-1].block.before != block.before:
            items = with_reopening(request, items)
        standing.append(StandingBlock(block, items))
    return standing


def reopening_tokens(counter: TokenCounter) -> int:
    """Tokens of the transcript in which the history goes on after a block."""
    return max(opening_tokens(counter, "history", opening(label)) for label in MESSAGE_LABELS)


def with_reopening(request: PromptRequest, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The lines of a block, the first of those at its place: what the history needs to go on is reckoned with it."""
    first = replace(items[0], opening_tokens=items[0].opening_tokens + reopening_tokens(request.counter))
    return (first, *items[1:])


def _shown_again(entry: ContextEntry, passages: Sequence[int] | None) -> ShownMessage:
    if passages is None:
        return ShownMessage(entry, entry.text, None)
    indices = tuple(passages)
    return ShownMessage(entry, join_passages(entry.text, indices, passages_note(entry)), indices)


def passages_note(entry: ContextEntry) -> str:
    """What ends an excerpt of a message."""
    return f"[… passages of message {entry.ordinal}, which is stored whole …]"


def history_checksum(history: Iterable[Item], before: int) -> int:
    """CRC-32 of what stands in the history before a message of this number: which messages and summaries."""
    return zlib.crc32("\n".join(item.key for item in history if item.order < before).encode())


def block_items(request: PromptRequest, before: int, part: int, messages: Iterable[ShownMessage]) -> tuple[Item, ...]:
    """The lines of a block, each trust label in a transcript of its own, oldest first."""
    sorted_messages = sorted(messages, key=lambda each: each.entry.ordinal)
    previous = {later.entry.ordinal: earlier.entry for earlier, later in pairwise(sorted_messages)}
    lines = []
    for entry, body, _ in sorted_messages:
        line = line_item(request, entry, body, previous.get(entry.ordinal))
        lines.append(replace(line, opening=block_opening(line.trust, before, part), order=before))
    lines.sort(key=lambda line: line.opening)
    openings = [None, *(line.opening for line in lines)]
    return tuple(
        line if line.opening == last else begin_transcript(request.counter, line)
        for line, last in zip(lines, openings, strict=False)
    )


@lru_cache(maxsize=64)
def block_opening(trust: TrustLabel, before: int, part: int) -> str:
    """What opens the transcript of a block's lines of this label."""
    parts = {"part": str(part)} if part > 1 else {}
    return opening(trust, recalled=f"from before {before}", **parts)


def line_item(request: PromptRequest, entry: ContextEntry, body: str, previous: ContextEntry | None) -> Item:
    """A recalled message as a line, in no block yet; it says when it was said where that jumps after `previous`."""
    at = datetime.fromisoformat(entry.at)
    note = day_note(at, datetime.fromisoformat(previous.at)) if previous else format_minute(at)
    return _line_item(request.counter, entry, body, entry.author_id == request.agent.participant_id, note)


def day_note(at: datetime, before: datetime) -> str:
    """The day where it jumps (`2026-03-05`); the minute where time jumps within a day. UTC.

    What is recalled comes from many days: to the minute each would cost as much as the words of a short message."""
    if at.date() == before.date():
        return time_note(at, before)
    return f"{at:%Y-%m-%d}"


@lru_cache(maxsize=8_192)
def _line_item(counter: TokenCounter, entry: ContextEntry, body: str, is_own: bool, note: str) -> Item:
    item = message_line_item(counter, entry, body, section="recall", is_own=is_own, note=note)
    return replace(item, source=f"{item.source}, recalled")

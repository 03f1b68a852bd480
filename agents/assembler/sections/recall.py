"""Recall (P6): messages of this thread that are no longer in view but bear on the request, long ones as excerpts.

Searched with `openvibe.chat.search`: words and meaning, with what stands beside a good message, chosen into the room
that the rest of the prompt leaves."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

import numpy as np

from agents.assembler.items import Item, SectionCandidates, format_minute, opening_tokens, section_candidates
from agents.assembler.sections.history import MESSAGE_LABELS, message_line_item, time_note
from agents.assembler.sections.request import PromptRequest
from memory.queries import ContextEntry, message_entries, messages_for_prompts
from openvibe.base.masking import mask_secrets
from openvibe.chat.queries import MessageHit, find_messages
from openvibe.llm.extractive_summary import stem_words
from openvibe.llm.tokens import TokenCounter
from openvibe.llm.transcripts import opening
from openvibe.search.lexical import query_terms, strip_stop_words
from openvibe.search.passages import split_passages
from openvibe.search.ranking import z_scores
from openvibe.search.spaces import BUILT_IN_EMBEDDER
from openvibe.search.values import Floats

MIN_SHOWN_TOKENS, MAX_SHOWN_TOKENS, SHOWN_DIVISOR = 300, 600, 8
"""Tokens one recalled message may take: one in so many of the room, between these two. Of a longer one the passages
that bear on the request are shown: whole ones answer better, where there is room for several."""

LINE_TOKENS = 6
"""Tokens of a line besides name and text, as the search reckons with them."""

SEARCH_SURPLUS = 1.15
"""How much more than the room the search is asked to fill."""

MIN_EXCERPT_TOKENS = 60
"""The least room in which an excerpt of a long message still says something."""

_OPENINGS = {label: opening(label, recalled="yes") for label in MESSAGE_LABELS}


def recall_candidates(request: PromptRequest, history: Iterable[Item], room: int) -> SectionCandidates:
    """What fills `room` tokens of what was said out of view: what bears on the request first, then the newest.

    `history` stands in the prompt; nothing is lifted out of what runs on from its last summary to the request. Nothing
    is bounded by a count, and everything given fits.
    """
    before, in_view = _running_window(request, history)
    frame = sum(opening_tokens(request.counter, "dynamic", each) for each in _OPENINGS.values())
    if before <= 1 or room <= frame + MIN_EXCERPT_TOKENS:
        return section_candidates("recall", ())
    packer = _Packer(request, room - frame)
    packer.add(map(_hit_entry, _find_hits(request, before, in_view, packer.room)))
    packer.add(_newest_entries(request, before, in_view, packer))
    return replace(section_candidates("recall", packer.items()), frame=frame)


def _running_window(request: PromptRequest, history: Iterable[Item]) -> tuple[int, set[int]]:
    """Where the window that runs up to the request begins, and the seqs of the messages that stand before it."""
    before, seqs = request.end_seq, set()
    is_running = True
    for item in sorted(history, key=lambda item: -item.order):
        is_running = is_running and item.key.startswith("message:")
        if is_running:
            before = item.order
        elif item.key.startswith("message:"):
            seqs.add(item.order)
    return before, seqs


def _find_hits(request: PromptRequest, before: int, in_view: Collection[int], room: int) -> Sequence[MessageHit]:
    """What bears on the request, the best first; a little more than fits, since lines differ in what is around them."""
    return find_messages(
        request.access,
        request.message.text,
        thread_id=request.thread.thread_id,
        budget=int(room * SEARCH_SURPLUS),
        before=before,
        exclude_seqs=in_view,
        max_message_tokens=_shown_limit(room),
        overhead=LINE_TOKENS,
    ).hits


def _shown_limit(room: int) -> int:
    return min(max(room // SHOWN_DIVISOR, MIN_SHOWN_TOKENS), MAX_SHOWN_TOKENS)


def _newest_entries(
    request: PromptRequest, before: int, in_view: Collection[int], packer: _Packer
) -> Sequence[ContextEntry]:
    """What was said and called just before the window, the newest first: as much as may fill what the search left."""
    if packer.room < MIN_EXCERPT_TOKENS:
        return ()
    thread = {"thread_id": request.thread.thread_id, "seq__lt": before}
    messages = messages_for_prompts(request.access, **thread)
    unseen = messages.exclude(seq__in={*packer.seqs, *in_view})
    return message_entries(unseen.order_by("-seq")[: packer.room // LINE_TOKENS])


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
    )


class _Packer:
    """Fills `room` tokens with lines, the first given first, each with its time where it jumps between those chosen."""

    def __init__(self, request: PromptRequest, room: int) -> None:
        self.request = request
        self.room = room
        self.limit = _shown_limit(room)
        self.seqs: list[int] = []
        self.chosen: dict[int, tuple[ContextEntry, str]] = {}

    def add(self, entries: Iterable[ContextEntry]) -> None:
        """As many of them as fit; of a long one what fits of it."""
        for entry in entries:
            if self.room < LINE_TOKENS:
                return
            self._add_entry(entry)

    def _add_entry(self, entry: ContextEntry) -> None:
        counter, question = self.request.counter, self.request.message.text
        place = bisect(self.seqs, entry.ordinal)
        before = self.chosen[self.seqs[place - 1]][0] if place else None
        body = _shown_text(counter, entry, question, self.limit)
        cost = _line(self.request, entry, body, before).tokens
        if cost > self.room >= MIN_EXCERPT_TOKENS and entry.tokens >= MIN_EXCERPT_TOKENS:
            body = _shown_text(counter, entry, question, self.room - cost + counter.count(body))
            cost = _line(self.request, entry, body, before).tokens if body else self.room + 1
        if body and cost <= self.room:
            self.room -= cost - self._saved_by(entry, before, place)
            self.chosen[entry.ordinal] = (entry, body)
            self.seqs.insert(place, entry.ordinal)

    def _saved_by(self, entry: ContextEntry, before: ContextEntry | None, place: int) -> int:
        """Tokens that the line after it needs less, once its time jumps from this one."""
        if place == len(self.seqs):
            return 0
        after, body = self.chosen[self.seqs[place]]
        return _line(self.request, after, body, before).tokens - _line(self.request, after, body, entry).tokens

    def items(self) -> list[Item]:
        """The lines in the order in which they were added."""
        before = {seq: self.chosen[previous][0] for previous, seq in pairwise(self.seqs)}
        return [_line(self.request, entry, body, before.get(seq)) for seq, (entry, body) in self.chosen.items()]


def _line(request: PromptRequest, entry: ContextEntry, body: str, before: ContextEntry | None) -> Item:
    at = datetime.fromisoformat(entry.at)
    note = time_note(at, datetime.fromisoformat(before.at)) if before else format_minute(at)
    return _line_item(request.counter, entry, body, entry.author_id == request.agent.participant_id, note)


@lru_cache(maxsize=8_192)
def _line_item(counter: TokenCounter, entry: ContextEntry, body: str, is_own: bool, note: str) -> Item:
    item = message_line_item(counter, entry, body, section="recall", is_own=is_own, note=note, recalled="yes")
    return replace(item, source=f"{item.source}, recalled")


@lru_cache(maxsize=4_096)
def _shown_text(counter: TokenCounter, entry: ContextEntry, question: str, limit: int) -> str:
    """The message, or of a long one what bears on the question within `limit` tokens."""
    if entry.tokens <= limit:
        return entry.text
    note = f"[… passages of message {entry.ordinal}, which is stored whole …]"
    return excerpt(entry.text, question, limit, counter, note=note)


PASSAGE_BYTES = 240
"""Bytes (UTF-8), about 60 tokens: a few sentences, or a short paragraph."""

MAX_PASSAGES = 120
"""Of one message; those of a longer one are longer."""

GAP_MARKER = "[…]"
GAP_TOKENS = 6


def excerpt(text: str, question: str, limit: int, counter: TokenCounter, *, note: str) -> str:
    """The text when it fits `limit` tokens, else its passages that bear most on the question, in their order.

    Cut where lines, sentences or words end; `[…]` stands for what is left out, and `note` at the end says so. Secrets
    are masked first, so that no cut leaves half of one. Empty where not even one passage fits.
    """
    safe = mask_secrets(text)
    if counter.count(safe) <= limit:
        return safe
    passages = split_passages(safe, size=PASSAGE_BYTES, max_passages=MAX_PASSAGES)
    tokens_left = limit - counter.count(note) - GAP_TOKENS
    chosen: list[int] = []
    scores = _passage_scores(passages, question)
    for index in np.argsort(-scores, kind="stable").tolist():
        cost = counter.count(passages[index]) + GAP_TOKENS
        if cost > tokens_left or (chosen and scores[index] <= 0):
            break
        tokens_left -= cost
        chosen.append(index)
    return _join_passages(passages, chosen, note) if chosen else ""


def _passage_scores(passages: Sequence[str], question: str) -> Floats:
    """How much each passage bears on the question: words and meaning on one scale, 0 for the average passage."""
    terms = _question_patterns(question)
    lowered = [passage.lower() for passage in passages]
    term_matrix = np.array([[bool(term.search(each)) for term in terms] for each in lowered]).reshape(
        len(lowered), len(terms)
    )
    by_words = term_matrix @ np.log1p(len(lowered) / (term_matrix.sum(axis=0) + 0.5))
    by_meaning = BUILT_IN_EMBEDDER.embed(passages) @ _question_vector(question)
    return z_scores(by_words.astype(np.float32)) + z_scores(by_meaning)


@lru_cache(maxsize=64)
def _question_vector(question: str) -> Floats:
    vector: Floats = BUILT_IN_EMBEDDER.embed([strip_stop_words(question)])[0]
    return vector


@lru_cache(maxsize=64)
def _question_patterns(question: str) -> list[re.Pattern[str]]:
    """For each telling word: words that begin as it does without its ending; without blanks, what holds it."""
    stems = dict.fromkeys(next(iter(stem_words(term)), term) for term in query_terms(question))
    return [re.compile(rf"(?<![^\W_]){re.escape(stem)}" if stem.isascii() else re.escape(stem)) for stem in stems]


def _join_passages(passages: Sequence[str], chosen: Collection[int], note: str) -> str:
    """The chosen passages in their order, with a sign where something is left out."""
    last = -1
    pieces: list[str] = []
    for index in sorted(chosen):
        if index - last > 1:
            pieces.append(f"\n{GAP_MARKER}\n" if pieces else f"{GAP_MARKER}\n")
        pieces.append(passages[index])
        last = index
    if last < len(passages) - 1:
        pieces.append(f"\n{GAP_MARKER}")
    return f"{''.join(pieces)}\n{note}"

"""Recall (P6): messages of this thread that are no longer in view but bear on the request, long ones as excerpts.

Searched with `openvibe.chat.search`: words and meaning, with what stands beside a good message, chosen into the room
that the rest of the prompt leaves."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from agents.assembler.items import Item, SectionCandidates, make_item, section_candidates
from agents.assembler.sections.history import message_block
from agents.assembler.sections.request import PromptRequest, author_trust
from memory.queries import ContextEntry
from openvibe.base.masking import mask_secrets
from openvibe.chat.queries import MessageHit, find_messages
from openvibe.llm.extractive_summary import stem_words
from openvibe.llm.tokens import TokenCounter
from openvibe.search.lexical import query_terms, strip_stop_words
from openvibe.search.passages import split_passages
from openvibe.search.ranking import z_scores
from openvibe.search.spaces import BUILT_IN_EMBEDDER
from openvibe.search.values import Floats

MAX_RECALLED = 60

MAX_MESSAGE_TOKENS = 300
"""Tokens one recalled message may take; of a longer one the passages that bear on the request are shown."""

MIN_SCORE_RATIO = 0.12
"""Share of the best score below which a message no longer bears on the request."""

FENCE_TOKENS = 40
"""Tokens of the fence around one."""


def recall_candidates(request: PromptRequest, in_view: Collection[int], room: int) -> SectionCandidates:
    """The best of what others said out of view, within `room` tokens. `in_view`: seqs."""
    before = min(in_view, default=request.end_seq)
    if before <= 1 or room <= FENCE_TOKENS:
        return section_candidates("recall", ())
    results = find_messages(
        request.access,
        request.message.text,
        thread_id=request.thread.thread_id,
        budget=room,
        before=before,
        exclude_author_id=request.agent.participant_id,
        max_hits=MAX_RECALLED,
        max_message_tokens=MAX_MESSAGE_TOKENS,
        overhead=FENCE_TOKENS,
    )
    min_score = max(MIN_SCORE_RATIO * max((hit.score for hit in results.hits), default=0.0), 0.0)
    return section_candidates("recall", (_hit_item(request, hit) for hit in results.hits if hit.score > min_score))


def _hit_item(request: PromptRequest, hit: MessageHit) -> Item:
    entry = ContextEntry(
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
    return _recalled_item(request.counter, entry, request.message.text if hit.tokens > MAX_MESSAGE_TOKENS else "")


@lru_cache(maxsize=8_192)
def _recalled_item(counter: TokenCounter, message: ContextEntry, question: str) -> Item:
    """A message as it is quoted; of a long one, what bears on the question."""
    ref = str(message.ordinal)
    body = message.text
    if message.tokens > MAX_MESSAGE_TOKENS:
        note = f"[… passages of message {ref}, which is stored whole …]"
        body = excerpt(body, question, MAX_MESSAGE_TOKENS, counter, note=note)
    return make_item(
        counter,
        section="recall",
        key=f"message:{message.message_id}",
        text=message_block(message, body, is_own=False),
        trust=author_trust(message.author_kind, is_own=False),
        source=f"message {ref}, recalled",
        author=message.author_name,
        ref=ref,
        order=message.ordinal,
    )


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

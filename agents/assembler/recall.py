"""P6: messages of this thread that are no longer in view but bear on the request.

Three bounded steps, so that the cost does not grow with the thread. The newest messages out of view are looked
through for the telling words of the request, all at once. Words that are rare there are looked up in all that was
said before. Words that many messages hold weigh little, and what stands next to a hit shares its weight. Then only
the best are read.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from django.db import connection
from psycopg import sql

from agents.assembler.gather import Scene, one_each, shortened, trust_of
from agents.assembler.history import message_block
from agents.assembler.items import item
from agents.assembler.values import Item, Offer
from memory.providers.base import Entry
from openvibe.base.prepared import prepared_rows
from openvibe.llm.tokens import TokenCounter
from openvibe.search.lexical import question_terms

TERMS = 10
"""Telling words of a request that are looked for, the longest first."""

HITS = 100
"""Messages that count for each word, the newest first; a word that has more of them tells little anyway."""

SPAN = 1_300
"""Messages out of view that are looked through for all words at once."""

RARE = 3
"""A word that fewer of these hold is looked up in the whole thread."""

STRONGEST = 150
"""Hits that share their weight with their neighbours; weaker ones are forgotten."""

REACH = 3
"""How many messages before and after a hit share its weight, half of it at each step."""

RECALLED = 60

LONGEST = 600
"""Tokens one recalled message may take."""

WEAKEST = 0.12
"""Share of the best score below which a message no longer bears on the request."""

# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), a word counted once.
_K1, _B = 1.2, 0.75

_SHARES = [(place, 0.5 ** abs(place)) for place in range(-REACH, REACH + 1)]

# What may be recalled: text of others, whole and not deleted.
_HOLDING = """(SELECT %s AS term, seq, token_count FROM chat_message
WHERE thread_id = %s AND seq < %s AND search @@ to_tsquery('english', %s)
AND kind = 'text' AND state = 'complete' AND deleted_at IS NULL AND author_id <> %s
ORDER BY seq DESC LIMIT %s)"""

_LOOKING_THROUGH = sql.SQL("""SELECT seq, token_count, {held} FROM chat_message
WHERE thread_id = %s AND seq < %s AND seq >= %s AND (search @@ (SELECT to_tsquery('english', %s))) IS TRUE
AND kind = 'text' AND state = 'complete' AND deleted_at IS NULL AND author_id <> %s
ORDER BY seq DESC""")

_HELD = sql.SQL("CASE WHEN search @@ (SELECT to_tsquery('english', %s)) THEN {} ELSE 0 END")

_BEST = """SELECT coalesce(json_agg(json_build_array(
    m.seq, m.seq, m.kind, m.body, m.token_count, m.created_at, m.id, m.author_id, p.name, p.kind)), '[]')
FROM chat_message m JOIN workspaces_participant p ON p.id = m.author_id
WHERE m.thread_id = %s AND m.seq = ANY(%s)
AND m.kind = 'text' AND m.state = 'complete' AND m.deleted_at IS NULL AND m.author_id <> %s"""


class Hit(NamedTuple):
    """Message `seq` holds word number `term`; `tokens` is the message's size."""

    term: int
    seq: int
    tokens: int


def recalled(scene: Scene, in_view: Collection[int]) -> Offer:
    """The best of what was said out of view. `in_view`: seqs."""
    terms = question_terms(scene.asked.text)[:TERMS]
    before = min(in_view, default=scene.asked.before or scene.place.last_seq + 1)
    if not terms or before <= 1:
        return Offer("P6", "recall", ())
    scores = bearing(_hits(scene, terms, before), before)
    best = sorted(scores, key=lambda seq: (-scores[seq], seq))[:RECALLED]
    rows = prepared_rows(_BEST, [scene.place.thread_id, best, scene.agent.participant_id])
    found = {row[0]: Entry(*row) for row in rows[0][0]}
    return Offer("P6", "recall", one_each(recalled_item(scene.counter, found[seq]) for seq in best if seq in found))


def bearing(hits: Sequence[Hit], before: int) -> dict[int, float]:
    """How much each message bears on the words, by number; only hits and their neighbours below `before`. Pure."""
    holding = Counter(hit.term for hit in hits)
    mean = sum(hit.tokens for hit in hits) / len(hits) if hits else 1.0
    weights = {term: (_K1 + 1) * math.log(1 + (2 * HITS - found) / found) for term, found in holding.items()}
    least, per_token = 1 + _K1 * (1 - _B), _K1 * _B / (mean or 1.0)
    scores: defaultdict[int, float] = defaultdict(float)
    for term, seq, tokens in hits:
        scores[seq] += weights[term] / (least + per_token * tokens)
    strongest = sorted(scores.items(), key=lambda found: (-found[1], found[0]))[:STRONGEST]
    near: defaultdict[int, float] = defaultdict(float)
    for seq, score in strongest:
        for place, share in _SHARES:
            near[seq + place] += score * share
    spread = {seq: score for seq, score in near.items() if 0 < seq < before}
    weakest = WEAKEST * max(spread.values(), default=0.0)
    return {seq: score for seq, score in spread.items() if score >= weakest}


def _hits(scene: Scene, terms: Sequence[str], before: int) -> list[Hit]:
    """At most HITS messages for each term, the newest first: from the newest SPAN, rare terms from all before too."""
    thread, own = scene.place.thread_id, scene.agent.participant_id
    asked = [f"'{term}'" for term in terms]
    since = before - SPAN
    rows = prepared_rows(_looking_through(len(asked)), [*asked, thread, before, since, " | ".join(asked), own])
    hits: list[Hit] = []
    holding = [0] * len(asked)
    for seq, tokens, held in rows:
        for number in _terms_in(held):
            if holding[number] < HITS:
                holding[number] += 1
                hits.append(Hit(number, seq, tokens))
    rare = [number for number, found in enumerate(holding) if found < RARE] if since > 1 else []
    if rare:
        parts = [(number, thread, since, asked[number], own, HITS) for number in rare]
        with connection.cursor() as cursor:  # planned anew each time: how to look a word up depends on the word
            cursor.execute(" UNION ALL ".join([_HOLDING] * len(rare)), [value for part in parts for value in part])
            hits += [Hit(*row) for row in cursor.fetchall()]
    return sorted(hits)  # sums of weights in the same order every time


@cache
def _looking_through(terms: int) -> str:
    """For each message of a stretch that holds any of the terms: its number, its size, and which ones as bits."""
    held = sql.SQL(" | ").join(_HELD.format(1 << number) for number in range(terms))
    return _LOOKING_THROUGH.format(held=held).as_string()


@cache
def _terms_in(bits: int) -> tuple[int, ...]:
    return tuple(number for number in range(TERMS) if bits >> number & 1)


@lru_cache(maxsize=8_192)
def recalled_item(counter: TokenCounter, message: Entry) -> Item:
    ref = str(message.ordinal)
    body = message.text
    if message.tokens > LONGEST:
        body = shortened(body, LONGEST, counter, ref=ref)
    return item(
        counter,
        section="recall",
        key=f"message:{message.message_id}",
        text=message_block(message, body, is_own=False),
        trust=trust_of(message.author_kind, is_own=False),
        source=f"message {ref}, recalled",
        author=message.author_name,
        ref=ref,
        order=message.ordinal,
    )

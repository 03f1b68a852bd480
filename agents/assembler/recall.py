"""P6: messages of this thread that are no longer in view but bear on the request.

Two steps, so that the cost does not grow with the thread. The database names, for each telling word of the request,
the newest messages that hold it: numbers only, a bounded list per word. Words that many messages hold weigh little,
and what stands next to a hit shares its weight. Then only the best are read.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import nlargest

from django.db import connection

from agents.assembler.gather import Said, Scene, message_block, one_each, said, shortened, trust_of
from agents.assembler.items import item
from agents.assembler.values import Item, Offer
from openvibe.chat.models import Message
from openvibe.search.lexical import question_terms
from openvibe.search.neighbours import smooth

TERMS = 10
"""Telling words of a request that are looked for, the longest first."""

HITS = 100
"""Messages looked at for each word, the newest first; a word that has more of them tells little anyway."""

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

_HOLDING = """(SELECT %s AS term, seq, token_count FROM chat_message
WHERE thread_id = %s AND seq < %s AND search @@ to_tsquery('english', %s)
AND kind = 'text' AND state = 'complete' AND deleted_at IS NULL AND author_id <> %s
ORDER BY seq DESC LIMIT %s)"""


@dataclass(frozen=True, slots=True)
class Hit:
    """Message `seq` holds word number `term`; `tokens` is the message's size."""

    term: int
    seq: int
    tokens: int


def recalled(scene: Scene, in_view: Collection[int]) -> Offer:
    """The best of what was said out of view. `in_view`: seqs."""
    terms = question_terms(scene.asked.text)[:TERMS]
    before = min(in_view, default=scene.asked.before or scene.thread.last_seq + 1)
    if not terms:
        return Offer("P6", "recall", ())
    scores = bearing(_hits(scene, terms, before), before)
    best = sorted(scores, key=lambda seq: (-scores[seq], seq))[:RECALLED]
    found = _messages(scene, best)
    return Offer("P6", "recall", one_each(_entry(scene, found[seq]) for seq in best if seq in found))


def bearing(hits: Sequence[Hit], before: int) -> dict[int, float]:
    """How much each message bears on the words, by number; only hits and their neighbours below `before`. Pure."""
    holding = Counter(hit.term for hit in hits)
    mean = sum(hit.tokens for hit in hits) / len(hits) if hits else 1.0
    weights = {term: math.log(1 + (2 * HITS - found) / found) for term, found in holding.items()}
    scores: defaultdict[int, float] = defaultdict(float)
    for hit in hits:
        length = 1 - _B + _B * hit.tokens / (mean or 1.0)
        scores[hit.seq] += weights[hit.term] * (_K1 + 1) / (1 + _K1 * length)
    strongest = nlargest(STRONGEST, scores.items(), key=lambda found: (found[1], -found[0]))
    scores = defaultdict(float, strongest)
    for seq, _ in strongest:
        for near in range(max(seq - REACH, 1), min(seq + REACH + 1, before)):
            scores[near] += 0.0
    spread = smooth(scores, reach=REACH)
    weakest = WEAKEST * max(spread.values(), default=0.0)
    return {seq: score for seq, score in spread.items() if score >= weakest}


def _hits(scene: Scene, terms: Sequence[str], before: int) -> list[Hit]:
    """At most HITS messages for each term, the newest first. One query."""
    own = scene.agent.participant_id
    asked = [(number, scene.thread.pk, before, f"'{term}'", own, HITS) for number, term in enumerate(terms)]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([_HOLDING] * len(terms)), [value for part in asked for value in part])
        return [Hit(*row) for row in sorted(cursor.fetchall())]  # sums of weights in the same order every time


def _messages(scene: Scene, seqs: Sequence[int]) -> dict[int, Said]:
    wanted = Message.objects.filter(
        thread=scene.thread, seq__in=seqs, deleted_at=None, state="complete", kind=Message.Kind.TEXT
    ).exclude(author_id=scene.agent.participant_id)
    return {message.seq: message for message in said(wanted)}


def _entry(scene: Scene, message: Said) -> Item:
    ref = str(message.seq)
    body = message.body
    if message.token_count > LONGEST:
        body = shortened(body, LONGEST, scene.counter, ref=ref)
    return item(
        scene.counter,
        section="recall",
        key=f"message:{message.pk}",
        text=message_block(scene, message, body),
        trust=trust_of(message.author_id, message.author_kind, scene.agent),
        source=f"message {ref}, recalled",
        author=message.author_name,
        ref=ref,
        order=message.seq,
    )

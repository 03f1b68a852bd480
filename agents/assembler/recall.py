"""P6: messages of this thread that are no longer in view but bear on the request."""

from collections.abc import Collection

from django.contrib.postgres.search import SearchQuery, SearchRank
from django.db.models import F

from agents.assembler.gather import Scene, message_block, one_each, shortened, trust_of
from agents.assembler.items import item
from agents.assembler.values import Item, Offer
from openvibe.chat.models import Message
from openvibe.search.lexical import question_terms
from openvibe.search.selection import Passage, rank_passages

CANDIDATES = 200
"""Messages the database proposes; the ranking below looks at these and their neighbours."""

RECALLED = 36
LONGEST = 600
"""Tokens one recalled message may take."""

WEAKEST = 0.2
"""Share of the best score below which a message no longer bears on the request."""


def recalled(scene: Scene, in_view: Collection[int]) -> Offer:
    """The best of what was said out of view, ranked by shared words and their neighbours'. `in_view`: seqs."""
    terms = question_terms(scene.asked.text)
    if not terms:
        return Offer("P6", "recall", ())
    found = _candidates(scene, terms, in_view)
    passages = [Passage(seq=m.seq, text=m.body, tokens=m.token_count) for m in found.values()]
    ranked = rank_passages(scene.asked.text, passages, limit=RECALLED)
    best = ranked[0].score if ranked else 0.0
    entries = [_entry(scene, found[r.seq]) for r in ranked if r.seq in found and r.score >= WEAKEST * best]
    return Offer("P6", "recall", one_each(entries))


def _candidates(scene: Scene, terms: tuple[str, ...], in_view: Collection[int]) -> dict[int, Message]:
    query = SearchQuery(" | ".join(f"'{term}'" for term in terms), config="english", search_type="raw")
    out_of_view = Message.objects.filter(
        thread=scene.thread, deleted_at=None, state="complete", kind=Message.Kind.TEXT
    ).exclude(author_id=scene.agent.participant_id)
    if scene.asked.before is not None:
        out_of_view = out_of_view.filter(seq__lt=scene.asked.before)
    if in_view:
        out_of_view = out_of_view.filter(seq__lt=min(in_view))
    hits = list(
        out_of_view.filter(search=query)
        .annotate(rank=SearchRank(F("search"), query))
        .order_by("-rank", "-seq")
        .values_list("seq", flat=True)[:CANDIDATES]
    )
    wanted = {near for seq in hits for near in (seq - 1, seq, seq + 1)}
    near = out_of_view.filter(seq__in=wanted).select_related("author").defer("search").order_by("seq")
    return {message.seq: message for message in near}


def _entry(scene: Scene, message: Message) -> Item:
    ref = str(message.seq)
    body = message.body
    if message.token_count > LONGEST:
        body = shortened(body, LONGEST, scene.counter, ref=ref)
    return item(
        scene.counter,
        section="recall",
        key=f"message:{message.pk}",
        text=message_block(scene, message, body),
        trust=trust_of(message.author, scene.agent),
        source=f"message {ref}, recalled",
        author=message.author.name,
        ref=ref,
        order=message.seq,
    )

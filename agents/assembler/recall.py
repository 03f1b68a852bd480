"""P6: messages of this thread that are no longer in view but bear on the request.

Found by the one search there is (`openvibe.chat.searching`): words and meaning, with what stands beside a good
message, chosen into the room that the rest of the prompt leaves.
"""

from collections.abc import Collection
from functools import lru_cache

from agents.assembler.excerpts import excerpt
from agents.assembler.gather import Scene, one_each, trust_of
from agents.assembler.history import message_block
from agents.assembler.items import item
from agents.assembler.values import Item, Offer
from memory.providers.base import Entry
from openvibe.chat.searching import FoundMessage, find_messages
from openvibe.llm.tokens import TokenCounter

RECALLED = 60

LONGEST = 300
"""Tokens one recalled message may take; of a longer one the passages that bear on the request are shown."""

WEAKEST = 0.12
"""Share of the best score below which a message no longer bears on the request."""

FENCE = 40
"""Tokens of the fence around one."""


def recalled(scene: Scene, in_view: Collection[int], room: int) -> Offer:
    """The best of what others said out of view, within `room` tokens. `in_view`: seqs."""
    before = min(in_view, default=scene.asked.before or scene.place.last_seq + 1)
    if before <= 1 or room <= FENCE:
        return Offer("P6", "recall", ())
    found = find_messages(
        scene.access,
        scene.asked.text,
        thread_id=scene.place.thread_id,
        budget=room,
        before=before,
        without_author=scene.agent.participant_id,
        most=RECALLED,
        longest=LONGEST,
        overhead=FENCE,
    )
    weakest = WEAKEST * max((hit.score for hit in found.hits), default=0.0)
    return Offer("P6", "recall", one_each(_item(scene, hit) for hit in found.hits if hit.score > max(weakest, 0.0)))


def _item(scene: Scene, hit: FoundMessage) -> Item:
    entry = Entry(
        hit.seq, hit.seq, hit.kind, hit.body, hit.tokens, hit.at.isoformat(), hit.message_id, hit.author_id,
        hit.author_name, hit.author_kind,
    )  # fmt: skip
    return recalled_item(scene.counter, entry, scene.asked.text if hit.tokens > LONGEST else "")


@lru_cache(maxsize=8_192)
def recalled_item(counter: TokenCounter, message: Entry, question: str) -> Item:
    """A message as it is quoted; of a long one, what bears on the question."""
    ref = str(message.ordinal)
    body = message.text
    if message.tokens > LONGEST:
        note = f"[… passages of message {ref}, which is stored whole …]"
        body = excerpt(body, question, LONGEST, counter, note=note)
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

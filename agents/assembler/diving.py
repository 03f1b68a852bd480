"""Dives in prompts: a dive's own source (P1), and for the thread the headlines of what its dives brought (P5).

A dive's context is its source message and its own messages, not the thread around it and not other dives.
"""

from functools import lru_cache

from agents.assembler.found import Found, Published
from agents.assembler.gather import Scene, one_each, shortened, trust_of
from agents.assembler.items import item
from agents.assembler.values import Item, Offer
from agents.assembler.wording import data_block, minute
from openvibe.chat.models import DiveResult, Message
from openvibe.llm.drafts import DRAFT_FORMAT
from openvibe.llm.tokens import TokenCounter

SOURCE_SHARE = 3
"""The source takes at most one in so many tokens of P1."""


def draft_format(scene: Scene) -> Offer:
    """For the task `publish`: what a draft of a result is, trusted and in full."""
    entries = [_format_item(scene.counter)] if scene.task == "publish" else []
    return Offer("P0", "instructions", one_each(entries), required=True)


@lru_cache(maxsize=16)
def _format_item(counter: TokenCounter) -> Item:
    return item(
        counter,
        section="instructions",
        key="instructions:draft",
        text=f"## Instructions (this task)\n{DRAFT_FORMAT}",
        trust="trusted",
        source="how a result is drafted",
        order=9,
    )


def source(scene: Scene) -> Offer:
    """What the dive started from: the message, and of a result its full text too. Nothing of a deleted one."""
    source_id = scene.place.dive_source_id
    if source_id is None:
        return Offer("P1", "source", ())
    messages = Message.objects.visible_to(scene.access).filter(pk=source_id, deleted_at=None)
    message = messages.select_related("author").first()
    if message is None:
        return Offer("P1", "source", ())
    full = DiveResult.objects.filter(message=message).values_list("full", flat=True).first() or ""
    limit = (scene.budget.caps["P1"] or scene.budget.ceiling) // SOURCE_SHARE
    return Offer("P1", "source", one_each([_source_item(scene, message, f"{message.body}\n\n{full}".strip(), limit)]))


def _source_item(scene: Scene, message: Message, text: str, limit: int) -> Item:
    trust = trust_of(message.author.kind, is_own=message.author_id == scene.agent.participant_id)
    ref = f"source:{message.seq}"
    block = data_block(
        shortened(text, limit, scene.counter, ref=f"{message.seq} of the thread"),
        source="the message this dive started from",
        ref=ref,
        author=message.author.name,
        trust=trust,
        time=minute(message.created_at),
    )
    return item(
        scene.counter,
        section="source",
        key=f"message:{message.pk}",
        text=block,
        trust=trust,
        source="the message this dive started from",
        author=message.author.name,
        ref=ref,
    )


def headlines(scene: Scene, found: Found) -> Offer:
    """Results of this thread's dives that stand before the request, the newest first.

    A result whose message is in view itself is not named a second time: the two share their key.
    """
    before = scene.asked.before
    shown = [result for result in found.results if before is None or result.seq < before]
    return Offer("P5", "dives", one_each(_headline_item(scene.counter, result) for result in shown))


@lru_cache(maxsize=2_048)
def _headline_item(counter: TokenCounter, result: Published) -> Item:
    ref = str(result.seq)
    block = data_block(
        result.headline,
        source="dive result",
        ref=ref,
        author=result.publisher,
        trust="semi_trusted",
        time=result.at[:16].replace("T", " "),
    )
    return item(
        counter,
        section="dives",
        key=f"message:{result.message_id}",
        text=block,
        trust="semi_trusted",
        source=f"result of a dive, message {ref}",
        author=result.publisher,
        ref=ref,
        order=result.seq,
    )

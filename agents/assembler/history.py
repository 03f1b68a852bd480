"""P1, history: what was said before the request, as items and as bundles that leave the window together."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from agents.assembler.gather import Scene, shortened, trust_of
from agents.assembler.items import in_steps, item
from agents.assembler.reading import Said
from agents.assembler.values import Bundle, Dropped, Item, Offer, drop, trust_reason
from agents.assembler.wording import data_block, minute
from agents.soul import TaskType
from openvibe.base.secrets import mask_secrets
from openvibe.chat.models import Message
from openvibe.llm.tokens import TokenCounter

NEIGHBOURS = 5
"""Messages before the request that a mention always asks for."""

WINDOW: dict[TaskType, int] = {"mention": NEIGHBOURS, "thread": 50, "dive": 400, "publish": 400}
"""Messages of history a task asks for within P1; what is left after P6 brings more."""

STEP = 10
"""History leaves the window this many messages at a time."""

REACH = 240
"""Messages read at most; a ceiling is full of them long before."""

LONGEST = 1_200
"""Tokens one message of history may take; longer ones show head and tail. Constant, so that prefixes stay equal."""


def read_first(task: TaskType, before: int) -> int:
    """How many messages to read at first: all of a thread that may stand whole, else what the window may need."""
    return REACH if before <= REACH else min(REACH, WINDOW[task] + 2 * STEP)


def history(scene: Scene, messages: Sequence[Said]) -> tuple[Offer, Offer]:
    """What was said before the request: the task's window, and what is left after P6 brings more of it.

    Two offers over the same messages, so that the window stops at P1's cap and the rest waits for what is left.
    """
    own_id = scene.agent.participant_id
    entries = [history_item(scene.counter, message, is_own=message.author_id == own_id) for message in messages]
    bundles = in_steps(entries, step=STEP)
    window = _first(bundles, WINDOW[scene.task])
    return (
        Offer("P1", "history", window, contiguous=True, extendable=True),
        Offer("P1", "history", bundles[len(window) :], cap=0, contiguous=True, extendable=True),
    )


def _first(bundles: Sequence[Bundle], messages: int) -> tuple[Bundle, ...]:
    taken, counted = [], 0
    for bundle in bundles:
        if counted >= messages:
            break
        taken.append(bundle)
        counted += len(bundle.items)
    return tuple(taken)


@lru_cache(maxsize=8_192)
def history_item(counter: TokenCounter, message: Said, *, is_own: bool) -> Item:
    """One message: the agent's own words as they are, everybody else's fenced."""
    ref = str(message.seq)
    own_words = is_own and message.kind == Message.Kind.TEXT
    body = message.body
    if message.token_count > LONGEST:
        body = shortened(body, LONGEST, counter, ref=ref)
    return item(
        counter,
        section="history",
        key=f"message:{message.pk}",
        text=mask_secrets(body) if own_words else message_block(message, body, is_own=is_own),
        trust=trust_of(message.author_kind, is_own=is_own),
        source=f"message {ref}",
        author=message.author_name,
        ref=ref,
        role="assistant" if own_words else "user",
        order=message.seq,
    )


def message_block(message: Said, body: str, *, is_own: bool) -> str:
    return data_block(
        body,
        source="message" if message.kind == Message.Kind.TEXT else message.kind,
        ref=str(message.seq),
        author=message.author_name,
        trust=trust_of(message.author_kind, is_own=is_own),
        time=minute(datetime.fromisoformat(message.at)),
    )


class Sight(NamedTuple):
    """Messages as many as could ever fit, oldest first; what the level hides; whether there are no more."""

    messages: list[Said]
    hidden: list[Dropped]
    is_all: bool


def in_sight(scene: Scene, newest: Sequence[Said], read_at_most: int) -> Sight:
    """What may stand in the prompt of the newest messages, of which at most so many were read.

    Where there may be more of them, the oldest step is not whole and stays out.
    """
    kept: list[Said] = []
    hidden: list[Dropped] = []
    tokens = 0
    is_all = len(newest) < read_at_most
    unfinished = newest[-1].seq // STEP if len(newest) == read_at_most < REACH else -1
    for message in newest:
        if message.kind == Message.Kind.DIVE_RESULT and not scene.access.reads_dive_results:
            is_own = message.author_id == scene.agent.participant_id
            entry = history_item(scene.counter, message, is_own=is_own)
            hidden.append(drop(entry, trust_reason(scene.agent.level)))
            continue
        tokens += min(message.token_count, LONGEST)
        if tokens > scene.budget.ceiling or message.seq // STEP == unfinished:
            is_all = False
            break
        kept.append(message)
    return Sight(kept[::-1], hidden, is_all)

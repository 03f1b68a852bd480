"""The values a prompt is built from. Everything is frozen; every size is in tokens."""

from dataclasses import dataclass
from typing import Literal

LayerName = Literal["P0", "P1", "P2", "P3", "P4", "P5", "P6"]
TrustLabel = Literal["trusted", "semi_trusted", "untrusted"]
Slot = Literal["tools", "system", "reference", "history", "dynamic", "request"]
ItemRole = Literal["system", "user", "assistant"]
SectionName = Literal[
    "policy",
    "soul",
    "instructions",
    "tools",
    "request",
    "source",
    "history",
    "work",
    "feedback",
    "blocks",
    "profile",
    "skills",
    "topics",
    "knowledge",
    "workspace",
    "channel",
    "dives",
    "episodes",
    "recall",
]
DropReason = Literal[
    "over budget", "expired", "trust L1", "trust L2", "trust L3", "trust L4", "private", "superseded", "not in scope"
]


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of a prompt, ready to stand in it. Made by `items.make_item`, which counts its tokens.

    `text` is what stands in the prompt, fenced unless it is trusted or the agent's own words.
    `tokens` is what the text adds to a prompt, its share of joins and of message overhead included.
    `key` is unique in a prompt and stable between prompts, such as `message:123`.
    `source` says in words where it comes from; `ref` is what a reader may follow.
    `order` sorts the items of one section, lowest first.
    """

    layer: LayerName
    section: SectionName
    slot: Slot
    key: str
    text: str
    tokens: int
    trust: TrustLabel
    source: str
    author: str = ""
    ref: str = ""
    role: ItemRole = "user"
    order: int = 0


@dataclass(frozen=True, slots=True)
class AtomicGroup:
    """Items that come together or not at all: a tool call and its result, a step of history."""

    items: tuple[Item, ...]

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)


@dataclass(frozen=True, slots=True)
class SectionCandidates:
    """What one section has for the prompt, the best group first.

    `cap`: most tokens the section may take, None for no limit of its own.
    `required`: every group stands in the prompt, whatever the caps.
    `contiguous`: nothing after the first group that does not fit.
    `extendable`: may take what is left after P6, past its caps; for the history of P1.
    `beyond_layer_cap`: does not count against its layer's cap; for blocks, which have their own limits.
    """

    layer: LayerName
    section: SectionName
    groups: tuple[AtomicGroup, ...]
    cap: int | None = None
    required: bool = False
    contiguous: bool = False
    extendable: bool = False
    beyond_layer_cap: bool = False


@dataclass(frozen=True, slots=True)
class DroppedItem:
    """An item that is not in the prompt, and why."""

    key: str
    layer: LayerName
    section: SectionName
    source: str
    author: str
    tokens: int
    reason: DropReason


@dataclass(frozen=True, slots=True)
class FitResult:
    """What stands in the prompt and what does not. `tokens` is the whole prompt, overhead included."""

    included: tuple[Item, ...]
    dropped: tuple[DroppedItem, ...]
    tokens: int


def make_dropped(item: Item, reason: DropReason) -> DroppedItem:
    """The record of an item left out."""
    return DroppedItem(item.key, item.layer, item.section, item.source, item.author, item.tokens, reason)


def trust_drop_reason(level: int) -> DropReason:
    """`trust L2` for level 2. Raises ValueError for a level that does not exist."""
    reasons: dict[int, DropReason] = {1: "trust L1", 2: "trust L2", 3: "trust L3", 4: "trust L4"}
    if level not in reasons:
        raise ValueError(f"There is no trust level {level}. Choose 1 to 4.")
    return reasons[level]

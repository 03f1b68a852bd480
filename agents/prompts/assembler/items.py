"""What a prompt is made of (items, groups, what each section has for it) and making items: fenced text, times and
token counts, so that what was planned is what is sent. Everything is frozen; every size is in tokens. Pure.

Counts of two texts do not simply add up: a tokenizer may merge across their border. They do add up when the
first ends in a line break and the second starts with neither white space nor a slash, because both
vocabularies (o200k_base, cl100k_base) always start a new word there. So every line of a transcript ends in a line
break, every part of a message is stripped and ends in PART_SEPARATOR, even the last one, and each is counted with it:
the parts' tokens sum to exactly the message's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Literal, cast, get_args

from agents.prompts.assembler.stack import FIND_TOOL, MORE_TOOLS, SECTION_ORDER, STACK, LayerName, SectionName, Slot
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.tokens import (
    MESSAGE_OVERHEAD,
    TokenCounter,
    count_text,
    count_tool,
    tool_text,
    truncate_middle,
)
from openvibe.engines.llm.transcripts import CLOSING
from openvibe.engines.llm.values import ToolSpec
from openvibe.engines.text.cleaning import pluralize
from openvibe.engines.text.includes import CutReason
from openvibe.engines.text.masking import mask_secrets

TrustLabel = Literal["trusted", "semi_trusted", "untrusted"]
ItemRole = Literal["system", "user", "assistant"]
DropReason = Literal[
    "over budget",
    "expired",
    "trust L1",
    "trust L2",
    "trust L3",
    "trust L4",
    "private",
    "not for everybody here",
    "superseded",
    "near copy",
    "on demand",
    CutReason,
]


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of a prompt, ready to stand in it. Made by `make_item`, which counts its tokens.

    `text` is what stands in the prompt, fenced unless it is trusted or the agent's own words.
    `tokens` is what the text adds to a prompt, its share of joins and of message overhead included.
    `key` is unique in a prompt and stable between prompts, such as `message:123`.
    `source` says in words where it comes from; `ref` is what a reader may follow.
    `order` sorts the items of one section, lowest first.
    `opening` opens the transcript in which the text is a line; empty for text that stands by itself. `opening_tokens`
    is what the transcript's own wrapping takes where this line begins one.
    `origins` are the keys of what it was made of, apart by spaces, where its own key does not name that: the entries of
    an index of topics. Who may not see all of these is not shown the item once it is stored.
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
    opening: str = ""
    opening_tokens: int = 0
    origins: str = ""


@dataclass(frozen=True, slots=True)
class AtomicGroup:
    """Items that come together or not at all: a tool call and its result, a step of history."""

    items: tuple[Item, ...]

    @property
    def tokens(self) -> int:
        return sum(item.tokens + item.opening_tokens for item in self.items)


@dataclass(frozen=True, slots=True)
class SectionCandidates:
    """What one section has for the prompt, the best group first.

    `cap`: most tokens the section may take, None for no limit of its own.
    `required`: every group stands in the prompt, whatever the caps.
    `contiguous`: nothing after the first group that does not fit.
    `extendable`: may take what is left after P6, past its caps; for the history of P1.
    `beyond_layer_cap`: does not count against its layer's cap; for blocks, which have their own limits.
    `frame`: tokens that come with the first group of the section, such as a transcript's wrapping.
    """

    layer: LayerName
    section: SectionName
    groups: tuple[AtomicGroup, ...]
    cap: int | None = None
    required: bool = False
    contiguous: bool = False
    extendable: bool = False
    beyond_layer_cap: bool = False
    frame: int = 0


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


def make_dropped_item(item: Item, reason: DropReason) -> DroppedItem:
    """The record of an item left out."""
    return DroppedItem(item.key, item.layer, item.section, item.source, item.author, item.tokens, reason)


def trust_drop_reason(level: int) -> DropReason:
    """`trust L2` for level 2. Raises ValueError for a level that does not exist."""
    reason = f"trust L{level}"
    if reason not in get_args(DropReason):
        raise ValueError(f"There is no trust level {level}. Choose 1 to 4.")
    return cast(DropReason, reason)


PART_SEPARATOR = "\n\n"
"""Ends every part of a message made of parts."""

_LAYERS: dict[SectionName, LayerName] = {section: layer.name for layer in STACK for section in layer.sections}
_SLOTS: dict[SectionName, Slot] = {section: slot for slot, sections in SECTION_ORDER.items() for section in sections}


def message_part(text: str) -> str:
    """A part as it stands in a message made of parts: stripped, safe to follow another; empty stays empty."""
    text = text.strip()
    if not text:
        return ""
    return (" " if text.startswith("/") else "") + text + PART_SEPARATOR


def make_item(
    counter: TokenCounter,
    *,
    section: SectionName,
    key: str,
    text: str,
    trust: TrustLabel,
    source: str,
    author: str = "",
    ref: str = "",
    role: ItemRole = "user",
    order: int = 0,
    opening: str = "",
) -> Item:
    """An Item of this section, with its tokens counted and its layer and slot read from the stack.

    Where `opening` opens a transcript, the text is a line of it, line break included. A question in its own words is a
    message by itself.
    """
    slot = _SLOTS[section]
    is_message = slot == "history" and not opening
    is_question = slot == "request" and not text.startswith("<request ")
    if not is_message and not opening and not is_question:
        text = message_part(text)
    tokens = count_text(text, counter) + (MESSAGE_OVERHEAD if is_message else 0)
    if slot == "system":
        role = "system"
    return Item(_LAYERS[section], section, slot, key, text, tokens, trust, source, author, ref, role, order, opening)


@lru_cache(maxsize=1_024)
def opening_tokens(counter: TokenCounter, slot: Slot, opening: str) -> int:
    """Tokens around the lines of one transcript: in the history it is a message of its own, elsewhere a part of one."""
    ending = CLOSING if slot == "history" else CLOSING + PART_SEPARATOR
    return count_text(opening, counter) + count_text(ending, counter) + (MESSAGE_OVERHEAD if slot == "history" else 0)


def begin_transcript(counter: TokenCounter, line: Item) -> Item:
    """The line as the first of a transcript: the wrapping is reckoned with it."""
    return replace(line, opening_tokens=opening_tokens(counter, line.slot, line.opening))


def make_tool_item(counter: TokenCounter, tool: ToolSpec) -> Item:
    """A tool definition as an Item of P0: it takes room, and is sent beside the messages."""
    text, tokens = tool_text(tool), count_tool(tool, counter)
    return Item("P0", "tools", "tools", f"tool:{tool.name}", text, tokens, "trusted", "tool", role="system")


def reachable_tools(tools: Iterable[ToolSpec]) -> set[str]:
    """Names of the tools that an agent has: those offered, and those that MORE_TOOLS and FIND_TOOL would offer."""
    names: set[str] = set()
    for tool in tools:
        names |= {tool.name} if tool.name not in (MORE_TOOLS, FIND_TOOL) else set(tool.leads_to)
    return names


def dropped_tools(tools: Iterable[ToolSpec], offered: Iterable[ToolSpec]) -> list[DroppedItem]:
    """One line for the tools of connected servers that FIND_TOOL finds, and that stand in no definition; `offered`:
    those of `tools` that the prompt offers."""
    offered_names = {tool.name for tool in offered}
    for tool in tools:
        if tool.name == FIND_TOOL and (count := len(set(tool.leads_to) - offered_names)):
            source = f"{pluralize(count, 'tool')} of MCP servers"
            if FIND_TOOL in offered_names:
                return [DroppedItem("tool:others", "P0", "tools", f"{source} can be looked for", "", 0, "on demand")]
            return [DroppedItem("tool:others", "P0", "tools", source, "", 0, "over budget")]
    return []


def section_candidates(
    section: SectionName,
    items: Iterable[Item],
    *,
    cap: int | None = None,
    required: bool = False,
    beyond_layer_cap: bool = False,
) -> SectionCandidates:
    """The items of a section, the best first, each in or out by itself."""
    groups = tuple(AtomicGroup((item,)) for item in items)
    return SectionCandidates(_LAYERS[section], section, groups, cap, required, beyond_layer_cap=beyond_layer_cap)


def left_out_of(section: SectionCandidates) -> SectionCandidates:
    """The section with nothing of it in the prompt: all of it is named as left out."""
    return replace(section, cap=0, required=False, extendable=False, beyond_layer_cap=False)


def group_in_steps(items: Sequence[Item], *, step: int) -> tuple[AtomicGroup, ...]:
    """History in groups, newest first, from items in any order whose `order` numbers them one by one.

    Whole steps of `step` messages leave the window together, so that most consecutive prompts start at the
    same message and share their prefix. The newest ones, at least `step` of them, stand alone: long messages
    never push each other out as a group.
    """
    sorted_items = sorted(items, key=lambda item: item.order)
    if not sorted_items:
        return ()
    first_single = (sorted_items[-1].order + 1) // step * step - step
    steps = groupby((item for item in sorted_items if item.order < first_single), key=lambda item: item.order // step)
    singles = (AtomicGroup((item,)) for item in sorted_items if item.order >= first_single)
    return tuple(reversed([*(AtomicGroup(tuple(group)) for _, group in steps), *singles]))


def summarised_seqs(item: Item) -> range:
    """Numbers of the messages that a summary stands for; none for what is no summary."""
    first, _, last = item.ref.partition("-") if item.key.startswith("summary:") else ("", "", "")
    return range(int(first), int(last) + 1) if last else range(0)


def summarised_messages(item: Item) -> int:
    """How many messages a summary stands for; 0 for what is no summary."""
    return len(summarised_seqs(item))


def relative_time(past: datetime, now: datetime) -> str:
    """`2 days ago`, `3 hours ago`, `just now`: how fresh something is, in the largest whole unit."""
    elapsed = max(now - past, timedelta())
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        number = int(elapsed.total_seconds() // size)
        if number:
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "just now"


def format_minute(at: datetime) -> str:
    """A time as prompts show it, UTC."""
    return f"{at:%Y-%m-%d %H:%M}"


@lru_cache(maxsize=16_384)
def data_block(text: str, *, source: str, ref: str, author: str, trust: TrustLabel, time: str = "") -> str:
    """Text in a fenced block that names its source, reference, author and label; secrets are masked."""
    return fence("data", mask_secrets(text), source=source, ref=ref, author=author, trust=trust, time=time or None)


def shorten_message(text: str, limit: int, counter: TokenCounter, *, ref: str) -> str:
    """Head and tail of a text with a marker that says where the whole is; the text itself when it fits.

    Secrets are masked first, so that no cut leaves half of one.
    """
    return truncate_middle(mask_secrets(text), limit, counter, _cut_marker(ref))


def middle_of_message(text: str, limit: int, counter: TokenCounter, *, ref: str) -> str:
    """What `shorten_message` leaves out of the text, secrets masked; nothing of one that fits."""
    head, marker, tail = shorten_message(text, limit, counter, ref=ref).rpartition(_cut_marker(ref))
    safe = mask_secrets(text)
    return safe[len(head) : len(safe) - len(tail)] if marker else ""


def is_shortened(item: Item) -> bool:
    """Whether the item is a message that stands without its middle."""
    return _cut_marker(item.ref).strip() in item.text


def _cut_marker(ref: str) -> str:
    return f"\n[… cut here: message {ref} is stored whole …]\n"

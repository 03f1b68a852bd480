"""Making items: fenced text, times, and token counts, so that what was planned is what is sent. Pure.

Counts of two texts do not simply add up: a tokenizer may merge across their border. They do add up when the
first ends in an empty line and the second starts with neither white space nor a slash, because both
vocabularies (o200k_base, cl100k_base) always start a new word there. So every part of a message is stripped,
ends in PART_SEPARATOR, even the last one, and is counted with it: the parts' tokens sum to exactly the message's."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from agents.assembler.stack import STACK
from agents.assembler.values import AtomicGroup, Item, ItemRole, LayerName, SectionName, Slot, TrustLabel
from openvibe.base.masking import mask_secrets
from openvibe.llm.fences import fence
from openvibe.llm.tokens import TokenCounter, truncate_middle
from openvibe.llm.values import ToolSpec

PART_SEPARATOR = "\n\n"
"""Ends every part of a message made of parts."""

MESSAGE_OVERHEAD = 4
"""Tokens that a provider adds around each message: its start, role and end (OpenAI's cookbook says 3–4)."""

PROMPT_OVERHEAD = 3
"""Tokens that a provider adds once, to begin the answer."""

TOOL_OVERHEAD = 8
"""Tokens around each tool definition, on top of its JSON, which providers rewrite into something shorter."""

_PARAGRAPH_BREAK = re.compile(r"(?<=\n\n)(?=[^\s/]| /)")

_SECTION_SLOTS: dict[SectionName, tuple[LayerName, Slot]] = {
    part.section: (layer.name, part.slot) for layer in STACK for part in layer.parts
}


def count_text(text: str, counter: TokenCounter) -> int:
    """Tokens of a text, paragraph by paragraph, so that counts of parts add up to the count of the whole."""
    return sum(map(counter.count, _PARAGRAPH_BREAK.split(text))) if text else 0


def count_tool(tool: ToolSpec, counter: TokenCounter) -> int:
    """Tokens of one tool definition, overhead included."""
    return counter.count(tool_text(tool)) + TOOL_OVERHEAD


def tool_text(tool: ToolSpec) -> str:
    """The definition as canonical JSON."""
    shown = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return json.dumps(shown, sort_keys=True, ensure_ascii=False)


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
) -> Item:
    """An Item of this section, with its tokens counted and its layer and slot read from the stack."""
    layer, slot = _SECTION_SLOTS[section]
    if slot in ("history", "request"):
        tokens = count_text(text, counter) + MESSAGE_OVERHEAD
    else:
        text = message_part(text)
        tokens = count_text(text, counter)
    if slot == "system":
        role = "system"
    return Item(layer, section, slot, key, text, tokens, trust, source, author, ref, role, order)


def make_tool_item(counter: TokenCounter, tool: ToolSpec) -> Item:
    """A tool definition as an Item of P0: it takes room, and is sent beside the messages."""
    layer, slot = _SECTION_SLOTS["tools"]
    return Item(
        layer,
        "tools",
        slot,
        f"tool:{tool.name}",
        tool_text(tool),
        count_tool(tool, counter),
        "trusted",
        "tool",
        role="system",
    )


def group_in_steps(items: Sequence[Item], *, step: int) -> tuple[AtomicGroup, ...]:
    """History in groups, newest first, from items in any order whose `order` numbers them one by one.

    Whole steps of `step` messages leave the window together, so that most consecutive prompts start at the
    same message and share their prefix. The newest ones, at least `step` of them, stand alone: long messages
    never push each other out as a group.
    """
    ordered = sorted(items, key=lambda entry: entry.order)
    if not ordered:
        return ()
    first_single = (ordered[-1].order + 1) // step * step - step
    groups: list[AtomicGroup] = [AtomicGroup((entry,)) for entry in ordered if entry.order >= first_single]
    items_by_step: dict[int, list[Item]] = {}
    for entry in ordered:
        if entry.order < first_single:
            items_by_step.setdefault(entry.order // step, []).append(entry)
    return (
        *reversed(groups),
        *(AtomicGroup(tuple(items_by_step[number])) for number in sorted(items_by_step, reverse=True)),
    )


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


def single_item_groups(items: Iterable[Item]) -> tuple[AtomicGroup, ...]:
    return tuple(AtomicGroup((entry,)) for entry in items)


def shorten_message(text: str, limit: int, counter: TokenCounter, *, ref: str) -> str:
    """Head and tail of a text with a marker that says where the whole is; the text itself when it fits.

    Secrets are masked first, so that no cut leaves half of one.
    """
    return truncate_middle(mask_secrets(text), limit, counter, f"\n[… cut here: message {ref} is stored whole …]\n")

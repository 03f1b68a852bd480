"""Making items, and counting so that what was planned is what is sent.

Counts of two texts do not simply add up: a tokenizer may merge across their border. They do add up when the
first ends in an empty line and the second starts with neither white space nor a slash, because both
vocabularies (o200k_base, cl100k_base) always start a new word there. So every part of a message is stripped,
ends in JOIN, even the last one, and is counted with it: the parts' tokens sum to exactly the message's.
"""

import json
import re
from collections.abc import Sequence

from agents.assembler.stack import STACK
from agents.assembler.values import Bundle, Item, ItemRole, LayerName, SectionName, Slot, Trust
from openvibe.llm.tokens import TokenCounter
from openvibe.llm.values import ToolSpec

JOIN = "\n\n"
"""Ends every part of a message made of parts."""

MESSAGE_OVERHEAD = 4
"""Tokens that a provider adds around each message: its start, role and end (OpenAI's cookbook says 3–4)."""

PROMPT_OVERHEAD = 3
"""Tokens that a provider adds once, to begin the answer."""

TOOL_OVERHEAD = 8
"""Tokens around each tool definition, on top of its JSON, which providers rewrite into something shorter."""

_PARAGRAPH = re.compile(r"(?<=\n\n)(?=[^\s/]| /)")

_HOMES: dict[SectionName, tuple[LayerName, Slot]] = {
    part.section: (layer.name, part.slot) for layer in STACK for part in layer.parts
}


def count_text(text: str, counter: TokenCounter) -> int:
    """Tokens of a text, paragraph by paragraph, so that counts of parts add up to the count of the whole."""
    return sum(map(counter.count, _PARAGRAPH.split(text))) if text else 0


def count_tool(tool: ToolSpec, counter: TokenCounter) -> int:
    """Tokens of one tool definition, overhead included."""
    return counter.count(tool_text(tool)) + TOOL_OVERHEAD


def tool_text(tool: ToolSpec) -> str:
    """The definition as canonical JSON."""
    shown = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return json.dumps(shown, sort_keys=True, ensure_ascii=False)


def standing(text: str) -> str:
    """A part as it stands in a message made of parts: stripped, safe to follow another; empty stays empty."""
    text = text.strip()
    if not text:
        return ""
    return (" " if text.startswith("/") else "") + text + JOIN


def item(
    counter: TokenCounter,
    *,
    section: SectionName,
    key: str,
    text: str,
    trust: Trust,
    source: str,
    author: str = "",
    ref: str = "",
    role: ItemRole = "user",
    order: int = 0,
) -> Item:
    """An Item of this section, with its tokens counted and its layer and slot read from the stack."""
    layer, slot = _HOMES[section]
    if slot in ("history", "request"):
        tokens = count_text(text, counter) + MESSAGE_OVERHEAD
    else:
        text = standing(text)
        tokens = count_text(text, counter)
    if slot == "system":
        role = "system"
    return Item(layer, section, slot, key, text, tokens, trust, source, author, ref, role, order)


def tool_item(counter: TokenCounter, tool: ToolSpec) -> Item:
    """A tool definition as an Item of P0: it takes room, and is sent beside the messages."""
    layer, slot = _HOMES["tools"]
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


def in_steps(items: Sequence[Item], *, step: int) -> tuple[Bundle, ...]:
    """History as bundles, newest first, from items in any order whose `order` numbers them one by one.

    Whole steps of `step` messages leave the window together, so that most consecutive prompts start at the
    same message and share their prefix. The newest ones, at least `step` of them, stand alone: long messages
    never push each other out as a group.
    """
    ranked = sorted(items, key=lambda entry: entry.order)
    if not ranked:
        return ()
    alone_from = (ranked[-1].order + 1) // step * step - step
    bundles: list[Bundle] = [Bundle((entry,)) for entry in ranked if entry.order >= alone_from]
    steps: dict[int, list[Item]] = {}
    for entry in ranked:
        if entry.order < alone_from:
            steps.setdefault(entry.order // step, []).append(entry)
    return (*reversed(bundles), *(Bundle(tuple(steps[number])) for number in sorted(steps, reverse=True)))

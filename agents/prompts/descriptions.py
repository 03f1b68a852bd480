"""What a prompt holds, in words for people: a name for each section, an address for each item, and one sentence for the
whole. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from agents.prompts.assembler.items import DroppedItem, Item, is_shortened, summarised_messages
from agents.prompts.assembler.stack import SectionName
from openvibe.engines.text.cleaning import pluralize

SECTION_TITLES: Mapping[SectionName, str] = {
    "policy": "Built-in policy",
    "soul": "SOUL",
    "instructions": "Instructions",
    "tools": "Tools it may call",
    "request": "The request",
    "later": "Posted after the request",
    "source": "What the dive began with",
    "files": "Files",
    "images": "Images",
    "request_images": "Images of the request",
    "constraints": "Constraints that bind",
    "preferences": "What the asker once asked for",
    "reminders": "Reminders",
    "situation": "Time, place and asker",
    "history": "Conversation",
    "work": "Work and tool results",
    "feedback": "Feedback",
    "blocks": "Context blocks",
    "profile": "Notes about the asker",
    "skills": "Skills",
    "topics": "Topics of knowledge",
    "knowledge": "Knowledge",
    "workspace": "Workspace",
    "channel": "Channel",
    "dives": "Dive results",
    "episodes": "Its own past",
    "recall": "Recalled messages",
}


def item_anchor(key: str) -> str:
    """The id that an item with this key has on the viewer's page: `message:12` is `item-message-12`."""
    return "item-" + re.sub(r"[^\w.-]+", "-", key)


class ReadPart(NamedTuple):
    """Some of what was read, one item of it, and what joins it to the next in the sentence; nothing after the last."""

    words: str
    item: Item
    ending: str = ""


def _is_kind(kind: str) -> Callable[[Item], bool]:
    return lambda item: item.key.startswith(f"{kind}:")


def _is_any(_item: Item) -> bool:
    return True


_NOUNS: tuple[tuple[SectionName, Callable[[Item], bool], str, str], ...] = (
    ("source", _is_any, "message that the dive began with", "messages that the dive began with"),
    ("recall", _is_kind("message"), "older message that bears on it", "older messages that bear on it"),
    ("recall", _is_kind("middle"), "middle of a long message", "middles of long messages"),
    ("later", _is_any, "message posted after the request", "messages posted after the request"),
    ("files", _is_kind("file"), "file", ""),
    ("files", _is_kind("piece"), "piece of a long file", "pieces of long files"),
    ("request_images", _is_kind("pixels"), "image of the request", "images of the request"),
    ("images", _is_kind("pixels"), "earlier image", ""),
    ("knowledge", _is_any, "entry of knowledge", "entries of knowledge"),
    ("dives", _is_any, "dive result", ""),
    ("feedback", _is_any, "piece of feedback", "pieces of feedback"),
    ("constraints", _is_any, "constraint", ""),
    ("preferences", _is_any, "preference", ""),
    ("work", _is_kind("observation"), "tool result", ""),
    ("work", lambda item: not item.key.startswith("observation:"), "item of work", "items of work"),
    ("episodes", _is_any, "memory of its own past", "memories of its own past"),
)
"""Sections that are counted in the sentence, which of their items, and what one and many of them are called."""


def read_parts(items: Sequence[Item]) -> list[ReadPart]:
    """What was read of each kind, the conversation first; what stands in every prompt (SOUL, tools, …) is not said."""
    requests = [item for item in items if item.section == "request"]
    messages = [item for item in items if item.section in ("history", "request") and item.key.startswith("message:")]
    summaries = [item for item in items if item.section == "history" and item.key.startswith("summary:")]
    parts = [ReadPart("the question", item) for item in requests if item not in messages][:1]
    parts += _message_parts(messages)
    if summaries:
        older = sum(map(summarised_messages, summaries))
        words = f"{pluralize(len(summaries), 'summary', 'summaries')} of {older:,} older ones"
        parts.append(ReadPart(words, summaries[0]))
    for section, belongs, one, many in _NOUNS:
        own = [item for item in items if item.section == section and belongs(item)]
        if own:
            parts.append(ReadPart(pluralize(len(own), one, many), own[0]))
    parts += [ReadPart("its own notes", item) for item in items if item.section in ("blocks", "profile")][:1]
    endings = [*[","] * (len(parts) - 2), " and", ""][-len(parts) :] if parts else []
    return [part._replace(ending=ending) for part, ending in zip(parts, endings, strict=True)]


def _message_parts(messages: Sequence[Item]) -> list[ReadPart]:
    """Messages of the conversation, and how many of them without their middles."""
    if not messages:
        return []
    shortened = [item for item in messages if is_shortened(item)]
    whose = "of it without its middle" if len(messages) == 1 else "of them without its middle"
    middles = "of them without their middles" if len(shortened) > 1 else whose
    cut = f" ({len(shortened):,} {middles})" if shortened else ""
    first = next((item for item in messages if item.section == "history"), messages[0])
    return [ReadPart(f"{pluralize(len(messages), 'message')} of this thread{cut}", first)]


class LeftOut(NamedTuple):
    """How many messages of the conversation had no room, and how many other things are not in the prompt."""

    messages: int
    others: int


_OLDER_MESSAGES = re.compile(r"([\d,]+) older messages?,")


def count_left_out(dropped: Iterable[DroppedItem]) -> LeftOut:
    """Counts what a prompt left out. Messages that were named by their number alone are one item."""
    messages = others = 0
    for item in dropped:
        if item.key == "older messages" and (match := _OLDER_MESSAGES.match(item.source)):
            messages += int(match[1].replace(",", ""))
        elif item.section == "history" and item.reason == "over budget" and item.key.startswith("message:"):
            messages += 1
        else:
            others += 1
    return LeftOut(messages, others)

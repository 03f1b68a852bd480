"""What a prompt holds, in words for people: a name for each section, and one sentence for the whole. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agents.prompts.assembler.items import Item, is_shortened, summarised_messages
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


class ReadPart(NamedTuple):
    """Some of what was read, one item of it, and what joins it to the next in the sentence."""

    words: str
    item: Item
    ending: str = ""


def _is_kind(kind: str) -> Callable[[Item], bool]:
    return lambda item: item.key.startswith(f"{kind}:")


def _is_any(_item: Item) -> bool:
    return True


_NOUNS: tuple[tuple[SectionName, Callable[[Item], bool], str, str], ...] = (
    ("recall", _is_kind("message"), "recalled message", ""),
    ("recall", _is_kind("middle"), "middle of a long message", "middles of long messages"),
    ("later", _is_any, "message posted after the request", "messages posted after the request"),
    ("files", _is_kind("file"), "file", ""),
    ("files", _is_kind("piece"), "piece of a long file", "pieces of long files"),
    ("request_images", _is_kind("pixels"), "image of the request", "images of the request"),
    ("images", _is_kind("pixels"), "earlier image", ""),
    ("knowledge", _is_any, "knowledge entry", "knowledge entries"),
    ("dives", _is_any, "dive result", ""),
    ("feedback", _is_any, "piece of feedback", "pieces of feedback"),
    ("constraints", _is_any, "constraint", ""),
    ("preferences", _is_any, "preference", ""),
    ("work", _is_kind("observation"), "tool result", ""),
    ("work", lambda item: not item.key.startswith("observation:"), "item of work", "items of work"),
    ("blocks", _is_any, "context block", ""),
    ("episodes", _is_any, "memory of its own past", "memories of its own past"),
)
"""Sections that are counted in the sentence, which of their items, and what one and many of them are called."""


def read_parts(items: Sequence[Item]) -> list[ReadPart]:
    """What was read of each kind, the conversation first; what stands in every prompt (SOUL, tools, …) is not said."""
    messages = [item for item in items if item.section == "history" and item.key.startswith("message:")]
    summaries = [item for item in items if item.section == "history" and item.key.startswith("summary:")]
    parts = [ReadPart("the request", item) for item in items if item.section == "request"][:1]
    parts += _message_parts(messages)
    if summaries:
        older = sum(map(summarised_messages, summaries))
        words = f"{pluralize(len(summaries), 'summary', 'summaries')} of {older:,} older ones"
        parts.append(ReadPart(words, summaries[0]))
    for section, belongs, one, many in _NOUNS:
        own = [item for item in items if item.section == section and belongs(item)]
        if own:
            parts.append(ReadPart(pluralize(len(own), one, many), own[0]))
    endings = [*[","] * (len(parts) - 2), " and", "."][-len(parts) :] if parts else []
    return [part._replace(ending=ending) for part, ending in zip(parts, endings, strict=True)]


def _message_parts(messages: Sequence[Item]) -> list[ReadPart]:
    """Messages of the conversation that stand whole, and those whose middle was left out."""
    shortened = [item for item in messages if is_shortened(item)]
    whole = [item for item in messages if not is_shortened(item)]
    parts = [ReadPart(f"{pluralize(len(whole), 'message')} before it whole", whole[0])] if whole else []
    if shortened:
        words = "without its middle" if len(shortened) == 1 else "without their middles"
        count = f"{len(shortened)}" if whole else f"{pluralize(len(shortened), 'message')} before it"
        parts.append(ReadPart(f"{count} {words}", shortened[0]))
    return parts

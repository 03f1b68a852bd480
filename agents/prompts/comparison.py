"""Two prompts beside each other: what was added, what is gone and what was changed, in the order in which it stands
there, and with the words. Pure."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Generic, Literal, NamedTuple, TypeVar

from agents.prompts.assembler.items import Item
from agents.prompts.assembler.stack import SECTION_ORDER

MAX_COMPARED_WORDS = 1_500
"""Words and signs of a text, up to which its words are compared; of a longer one its lines."""
MAX_COMPARED_LINES = 2_000
"""Lines of a text, up to which they are compared; a longer one is another as a whole."""

_PLACES = {section: place for place, section in enumerate(section for own in SECTION_ORDER.values() for section in own)}
_WORD_OR_SIGN = re.compile(r"\s+|\w+|[^\w\s]")

ItemT = TypeVar("ItemT", bound=Item)
RunKind = Literal["same", "gone", "added"]
ChangeKind = Literal["same", "gone", "added", "changed"]


class WordRun(NamedTuple):
    """Some words in a row of two texts: in both, in the earlier alone, or in the later alone."""

    kind: RunKind
    text: str


@dataclass(frozen=True)
class ItemChange(Generic[ItemT]):
    """An item of two prompts: as it stands in the later, or where it is gone in the earlier. `words` says of one that
    was changed what became of its words."""

    kind: ChangeKind
    item: ItemT
    words: tuple[WordRun, ...] = ()


def prompt_order(items: Iterable[ItemT]) -> list[ItemT]:
    """The items in the order in which their sections stand in a prompt, those of one section by their own."""
    return sorted(items, key=lambda item: (_PLACES.get(item.section, len(_PLACES)), item.order))


def compare_items(
    before: Iterable[ItemT], now: Iterable[ItemT], text_of: Callable[[ItemT], str]
) -> list[ItemChange[ItemT]]:
    """Every item of both, known again by its key. One that only stands elsewhere now is the same."""
    old_items, new_items = prompt_order(before), prompt_order(now)
    old_by_key, new_keys = {item.key: item for item in old_items}, {item.key for item in new_items}
    matcher = SequenceMatcher(None, [item.key for item in old_items], [item.key for item in new_items], autojunk=False)
    changes: list[ItemChange[ItemT]] = []
    for _, old_start, old_end, start, end in matcher.get_opcodes():
        changes += [ItemChange("gone", item) for item in old_items[old_start:old_end] if item.key not in new_keys]
        changes += [_compare(old_by_key.get(item.key), item, text_of) for item in new_items[start:end]]
    return changes


def _compare(old: ItemT | None, item: ItemT, text_of: Callable[[ItemT], str]) -> ItemChange[ItemT]:
    if old is None:
        return ItemChange("added", item)
    before, now = text_of(old), text_of(item)
    return ItemChange("same", item) if before == now else ItemChange("changed", item, compare_words(before, now))


def compare_words(before: str, now: str) -> tuple[WordRun, ...]:
    """Both texts as one sequence; of long texts whole lines, of very long ones the whole. Where words were exchanged,
    those that are gone stand first."""
    old, new = _WORD_OR_SIGN.findall(before), _WORD_OR_SIGN.findall(now)
    if max(len(old), len(new)) > MAX_COMPARED_WORDS:
        old, new = before.splitlines(keepends=True), now.splitlines(keepends=True)
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        old, new = [before], [now]
    runs: list[WordRun] = []
    gone = added = ""
    opcodes = SequenceMatcher(None, old, new).get_opcodes()
    for number, (tag, old_start, old_end, start, end) in enumerate(opcodes):
        old_text, new_text = "".join(old[old_start:old_end]), "".join(new[start:end])
        is_between = 0 < number < len(opcodes) - 1 and old_text.isspace()  # two words beside one another were exchanged
        if tag == "equal" and not is_between:
            runs += [*_changed_runs(gone, added), WordRun("same", new_text)]
            gone = added = ""
        else:
            gone, added = gone + old_text, added + new_text
    return (*runs, *_changed_runs(gone, added))


def _changed_runs(gone: str, added: str) -> list[WordRun]:
    runs: tuple[WordRun, ...] = (WordRun("gone", gone), WordRun("added", added))
    return [run for run in runs if run.text]

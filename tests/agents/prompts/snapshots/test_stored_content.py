"""Snapshots are read for 30 days, by later versions too: a field of their items keeps its name or is carried over."""

from agents.prompts.assembler.items import DroppedItem, Item
from agents.prompts.snapshots.redaction import ItemView
from agents.prompts.snapshots.store import replace_item

STORED_ITEM = {
    "layer": "P1",
    "section": "history",
    "slot": "history",
    "key": "message:7",
    "text": "Prune in March.",
    "tokens": 9,
    "trust": "semi_trusted",
    "source": "message 3",
    "author": "Ana",
    "ref": "3",
    "role": "user",
    "order": 3,
}
STORED_DROPPED_ITEM = {
    "key": "message:8",
    "layer": "P6",
    "section": "recall",
    "source": "message 4, recalled",
    "author": "Ana",
    "tokens": 12,
    "reason": "over budget",
}


def test_an_item_stored_by_the_first_version_is_read() -> None:
    item, view = Item(**STORED_ITEM), ItemView(**STORED_ITEM)  # type: ignore[arg-type]  # as JSON gave it

    assert (item.key, item.text, item.tokens, item.order) == ("message:7", "Prune in March.", 9, 3)
    assert (view.message_id, view.author, view.hidden) == (7, "Ana", "")


def test_a_dropped_item_stored_by_the_first_version_is_read() -> None:
    dropped = DroppedItem(**STORED_DROPPED_ITEM)  # type: ignore[arg-type]  # as JSON gave it

    assert (dropped.key, dropped.reason, dropped.tokens) == ("message:8", "over budget", 12)


def test_a_request_of_the_first_version_is_withheld_with_its_fence() -> None:
    fenced = '<request trust="semi_trusted">\n3 Ana [2026-03-01 12:03]: No\n</request>'
    item = {"role": "user", "section": "request", "text": f"{fenced}\n\n"}
    later = '<messages trust="semi_trusted" posted="after the request">\n4 Ana: No\n</messages>\n\n'
    assert replace_item(f"{fenced}\n\n{later}", item, "[gone]") == f"[gone]{later}"


def test_a_withheld_answer_or_question_takes_nothing_with_it() -> None:
    """The agent once answered "No": its words may begin other words anywhere in the prompt."""
    answer = {"role": "assistant", "text": "No"}
    assert replace_item("No", answer, "[gone]") == "[gone]"
    assert replace_item("<data>\nNovember\n</data>", answer, "[gone]") == "<data>\nNovember\n</data>"
    question = {"role": "user", "section": "request", "text": "No"}
    assert replace_item("No", question, "[gone]") == "[gone]"
    assert replace_item("<data>\nNo\n</data>", question, "[gone]") == "<data>\nNo\n</data>"
    line = {"role": "user", "text": "6 Ana: No.\n", "opening": '<messages trust="semi_trusted">\n'}
    stored = '<messages trust="semi_trusted">\n6 Ana: No.\n16 Ana: No.\n</messages>'
    assert replace_item(stored, line, "[gone]\n\n") == stored.replace("\n6 Ana: No.", "\n[gone]")

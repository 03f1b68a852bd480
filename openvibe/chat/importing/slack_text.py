"""Slack's own markup as plain Markdown text."""

import re
from collections.abc import Mapping

from openvibe.chat.text import clean_handle

_MARKED = re.compile(r"<([^<>]{1,4000})>")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def as_markdown(text: str, people: Mapping[str, str], rooms: Mapping[str, str]) -> str:
    """Turn `<@U1>`, `<#C1|name>`, `<!here>`, `<https://…|label>` and entities into text.

    `people` maps user ids to display names, `rooms` channel ids to names; an unknown id stays readable.
    A mention becomes `@` and the handle made of the person's name.
    """
    return _unescaped(_MARKED.sub(lambda match: _said(match[1], people, rooms), text))


def _said(marked: str, people: Mapping[str, str], rooms: Mapping[str, str]) -> str:
    target, _, label = marked.partition("|")
    if target.startswith("@"):
        return "@" + clean_handle(people.get(target[1:]) or label or target[1:])
    if target.startswith("#"):
        return "#" + (rooms.get(target[1:]) or label or target[1:])
    if target.startswith("!"):
        return label or "@" + target[1:].partition("^")[0]
    address = target.removeprefix("mailto:")
    return address if not label or label in {target, address} else f"{label} ({address})"


def _unescaped(text: str) -> str:
    for entity, sign in _ENTITIES:
        text = text.replace(entity, sign)
    return text

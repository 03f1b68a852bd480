"""What a Slack message says, as Markdown: its mrkdwn, blocks and attachments. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from openvibe.chat.importing.chat_parts import fenced
from openvibe.chat.importing.values import mention, replace_unstorable
from openvibe.engines.text.emoji_names import emoji_of_name, replace_emoji_names

MAX_DEPTH = 8
"""Blocks within blocks that are read."""

_MARKUP = re.compile(r"<([^<>\n]{1,4000})>")
_CODE = re.compile(r"```(.*?)```|`([^`\n]+)`", re.DOTALL)
_EDGE = r"(?<![\w*_~`]){0}(?=\S)([^\n{0}]*[^\s{0}]){0}(?![\w*_~`])"
_BOLD, _STRIKE = re.compile(_EDGE.format(r"\*")), re.compile(_EDGE.format("~"))
_LITERAL = re.compile(
    r"(?<![^\s(*~])[^\s`\ue000(*~]*"
    r"(?:(?<=\w)\*(?=\w)[^\s`\ue000]*(?<=\w)\*(?=\w)|(?<!\w)__(?=\w)[^\s`\ue000]*__(?!\w))"
    r"[^\s`\ue000]*?(?=[.,:!?)*~]*(?:\s|$))"
)
"""Words that Slack shows as they are, and whose signs Markdown would take for emphasis: `2*3*4`, `__init__.py`."""

_HEADING = re.compile(r"^(#{1,6})(?=\s)", re.MULTILINE)
_KEPT_PLACE = re.compile("\ue000(\\d+)\ue001")
_LETTERS = re.compile(r"[\W_]+")

Object = Mapping[str, object]


def slack_key(user: str) -> str:
    """The key of a user or bot, the same in every export."""
    return f"slack:{user}"


@dataclass(frozen=True, slots=True)
class Names:
    """Names that ids stand for: display names of `people`, names of `channels`."""

    people: Mapping[str, str]
    channels: Mapping[str, str]

    def person(self, user: str, label: str = "") -> str:
        """The mention of somebody; who is not in the export stays readable."""
        if user in self.people:
            return mention(slack_key(user), self.people[user])
        return f"@{(label or user).lower()}"


def slack_to_markdown(text: str, names: Names) -> str:
    """Turns mrkdwn into Markdown: `*bold*`, `~struck~`, code, `<@U1>`, `<#C1|name>`, `<!here>`, `<https://…|label>`,
    `:tada:` and entities. A mention is marked for whoever knows the handle."""
    kept: list[str] = []

    def keep(piece: str) -> str:
        kept.append(piece)
        return f"\ue000{len(kept) - 1}\ue001"

    def keep_code(match: re.Match[str]) -> str:
        code = _plain(match[1] if match[1] is not None else match[2], names)
        if match[1] is None:
            return keep(f"`{code}`")
        before = "" if match.start() == 0 or match.string[match.start() - 1] == "\n" else "\n"
        after = "" if match.end() == len(match.string) or match.string[match.end()] == "\n" else "\n"
        return before + keep(fenced(code.strip("\n"))) + after

    text = text.replace("\ue000", "").replace("\ue001", "")
    text = _CODE.sub(keep_code, text)
    text = _MARKUP.sub(lambda match: keep(_convert_markup(match[1], names)), text)
    text = replace_emoji_names(text)
    text = _LITERAL.sub(lambda match: keep(f"`{_entities(match[0])}`"), text)
    text = _STRIKE.sub(r"~~\1~~", _BOLD.sub(r"**\1**", _HEADING.sub(r"\\\1", text)))
    text = _entities(text)
    while _KEPT_PLACE.search(text):  # code may hold what was kept before
        text = _KEPT_PLACE.sub(lambda match: kept[int(match[1])], text)
    return text


def _entities(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _plain(text: str, names: Names) -> str:
    """Code as it was written: addresses without their brackets, and entities."""

    def convert(match: re.Match[str]) -> str:
        target, _, label = match[1].partition("|")
        if target.startswith("@"):
            return f"@{names.people.get(target[1:]) or label or target[1:]}"
        return label or (target if re.match(r"[a-z][a-z0-9+.-]*:|[#!]", target) else match[0])

    return _entities(_MARKUP.sub(convert, text))


def _convert_markup(markup: str, names: Names) -> str:
    target, _, label = (_entities(part) for part in markup.partition("|"))
    if target.startswith("@"):
        return names.person(target[1:], label)
    if target.startswith("#"):
        return "#" + (names.channels.get(target[1:]) or label or target[1:])
    if target.startswith("!"):
        return _convert_command(target[1:], label)
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", target):
        return f"<{markup}>"
    address = target.removeprefix("mailto:").removeprefix("tel:")
    return address if not label or label in {target, address} else link(target, label)


def _convert_command(target: str, label: str) -> str:
    if target.startswith("date^"):
        return label or target
    return (label.lstrip("@") and f"@{label.lstrip('@')}") or "@" + target.partition("^")[0]


def link(address: str, label: str) -> str:
    """A link in Markdown, whatever stands in its label."""
    if not re.match(r"(https?|mailto|tel):", address, re.IGNORECASE):
        return f"{label} ({address})"
    label = re.sub(r"([\[\]\\])", r"\\\1", " ".join(label.split()))
    return f"[{label}]({address.replace(' ', '%20').replace('(', '%28').replace(')', '%29')})"


def message_text(message: Object, names: Names, on_preview: Callable[[], None]) -> str:
    """All that a message says: text, blocks and attachments, each once. `on_preview` is told of each preview of a link,
    which is no part of it."""
    text = slack_to_markdown(_text(message, "text"), names)
    pieces = [_join_once(text, "\n".join(_block_texts(message.get("blocks"), names)))]
    for attachment in _objects(message.get("attachments")):
        if _is_preview(attachment, has_text=bool(pieces[0].strip())):
            on_preview()
        elif words := _attachment_text(attachment, names):
            pieces.append(words)
    return "\n\n".join(piece for piece in pieces if piece.strip())


def _join_once(first: str, second: str) -> str:
    """Both, or the one that holds all that the other says."""
    a, b = _LETTERS.sub("", first).lower(), _LETTERS.sub("", second).lower()
    if b in a:
        return first or second
    return second if a in b else f"{first}\n\n{second}"


def _is_preview(attachment: Object, *, has_text: bool) -> bool:
    is_told = attachment.get("is_share") or attachment.get("is_msg_unfurl")
    return has_text and bool(attachment.get("from_url") or attachment.get("original_url")) and not is_told


def _attachment_text(attachment: Object, names: Names, depth: int = 0) -> str:
    def read(key: str) -> str:
        return slack_to_markdown(_text(attachment, key), names).strip()

    author, title, body = read("author_name"), read("title"), read("text")
    if title and (address := _text(attachment, "title_link")):
        title = link(address, title)
    blocks = "\n".join(_block_texts(attachment.get("blocks"), names, depth + 1))
    for inner in _objects(attachment.get("message_blocks")):
        message = inner.get("message")
        if isinstance(message, dict):
            blocks = "\n".join([blocks, *_block_texts(message.get("blocks"), names, depth + 1)]).strip()
    lines = [f"**{title}**" if title and not title.startswith("[") else title, _join_once(body, blocks)]
    for field in _objects(attachment.get("fields")):
        value = slack_to_markdown(_text(field, "value"), names)
        lines.append(f"**{_text(field, 'title')}**: {value}" if _text(field, "title") else value)
    lines += [read("footer")] if any(line.strip() for line in lines) else []
    said = "\n".join(line for line in lines if line.strip()) or read("fallback")
    if attachment.get("is_share") or attachment.get("is_msg_unfurl"):
        said = "\n".join(f"> {line}" for line in [f"**{author or 'Somebody'}**:", *said.split("\n")])
        return "\n\n".join(filter(None, [read("pretext"), said])) if said.strip("> \n") else ""
    return "\n".join(filter(None, [read("pretext"), f"**{author}**" if author else "", said]))


def _block_texts(value: object, names: Names, depth: int = 0) -> Iterator[str]:
    if depth >= MAX_DEPTH:
        return
    for block in _objects(value):
        kind = _text(block, "type")
        if kind == "rich_text":
            yield "\n".join(_rich_text(block.get("elements"), names, depth))
        elif kind == "header":
            yield f"**{_object_text(block.get('text'), names)}**"
        elif kind == "divider":
            yield ""
        elif kind == "image":
            title = _object_text(block.get("title"), names) or _text(block, "alt_text")
            yield f"[image: {title}]" if title else ""
        elif kind == "call":
            yield "[call]"
        else:
            yield from _generic_block(block, names, depth)


def _generic_block(block: Object, names: Names, depth: int) -> Iterator[str]:
    """Sections, contexts, actions, inputs, videos, tables and what is yet to come: whatever text they hold."""
    for key in ("title", "text", "description", "label"):
        if words := _object_text(block.get(key), names):
            yield words
    for field in _objects(block.get("fields")):
        yield _object_text(field, names)
    for element in _objects(block.get("elements")):
        if words := _object_text(element, names) or _object_text(element.get("text"), names):
            yield words
        elif isinstance(element.get("elements"), list):
            yield from _block_texts([element], names, depth + 1)
        elif alt := _text(element, "alt_text"):
            yield f"[image: {alt}]"
    rows = block.get("rows")
    for row in rows if isinstance(rows, list) else []:
        cells = [_cell_text(cell, names, depth) for cell in row] if isinstance(row, list) else []
        yield " | ".join(cells)
    if isinstance(block.get("accessory"), dict):
        yield from _generic_block({"elements": [block["accessory"]]}, names, depth + 1)


def _cell_text(cell: object, names: Names, depth: int) -> str:
    if not isinstance(cell, dict):
        return ""
    return " ".join(_block_texts([cell], names, depth + 1)).replace("\n", " ") or _object_text(cell, names)


def _object_text(value: object, names: Names) -> str:
    """A text object: mrkdwn or plain."""
    if isinstance(value, str):
        return slack_to_markdown(replace_unstorable(value), names)
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        return ""
    text = replace_unstorable(str(value["text"]))
    return replace_emoji_names(text) if value.get("type") == "plain_text" else slack_to_markdown(text, names)


def _rich_text(elements: object, names: Names, depth: int) -> Iterator[str]:
    for element in _objects(elements):
        kind, inner = _text(element, "type"), element.get("elements")
        if kind == "rich_text_preformatted":
            yield fenced("".join(_rich_run(inner, names, is_code=True)).strip("\n"))
        elif kind == "rich_text_quote":
            yield "\n".join(f"> {line}" for line in "".join(_rich_run(inner, names)).split("\n"))
        elif kind == "rich_text_list":
            yield from _rich_list(element, names)
        elif kind == "rich_text" and depth < MAX_DEPTH:
            yield from _rich_text(inner, names, depth + 1)
        else:
            yield "".join(_rich_run(inner if isinstance(inner, list) else [element], names))


def _rich_list(element: Object, names: Names) -> Iterator[str]:
    indent, offset = element.get("indent"), element.get("offset")
    blanks = "   " * (min(indent, 8) if isinstance(indent, int) and indent > 0 else 0)
    first = offset + 1 if isinstance(offset, int) and offset > 0 else 1
    for number, item in enumerate(_objects(element.get("elements")), start=first):
        mark = f"{number}." if element.get("style") == "ordered" else "-"
        yield f"{blanks}{mark} " + "".join(_rich_run(item.get("elements"), names)).replace("\n", " ")


def _rich_run(elements: object, names: Names, *, is_code: bool = False) -> Iterator[str]:
    for element in _objects(elements):
        words = _rich_element(element, names)
        style = element.get("style")
        yield words if is_code or not isinstance(style, dict) else _styled(words, style)


def _rich_element(element: Object, names: Names) -> str:
    kind = _text(element, "type")
    if kind == "link":
        address, label = _text(element, "url"), _text(element, "text")
        return link(address, label) if label and label != address else address
    if kind == "user":
        return names.person(_text(element, "user_id"))
    if kind == "channel":
        channel = _text(element, "channel_id")
        return f"#{names.channels.get(channel) or channel}"
    if kind == "emoji":
        return _rich_emoji(element)
    if kind == "date":
        return _text(element, "fallback") or _date(element.get("timestamp"))
    named = {"broadcast": "range", "usergroup": "usergroup_id", "team": "team_id"}
    if kind in named:
        return f"@{_text(element, named[kind])}"
    return _text(element, "text") or _text(element, "value") or _text(element, "fallback")


def _rich_emoji(element: Object) -> str:
    try:
        return "".join(chr(int(code, 16)) for code in _text(element, "unicode").split("-"))
    except (ValueError, OverflowError):
        return emoji_of_name(_text(element, "name")) or f":{_text(element, 'name')}:"


def _date(timestamp: object) -> str:
    try:
        return f"{datetime.fromtimestamp(float(str(timestamp)), UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return ""


def _styled(words: str, style: Mapping[str, object]) -> str:
    inner = words.strip()
    if not inner:
        return words
    if style.get("code"):
        styled = f"`{inner}`"
    else:
        styled = inner
        for name, mark in (("italic", "_"), ("bold", "**"), ("strike", "~~")):
            styled = f"{mark}{styled}{mark}" if style.get(name) else styled
    return words.replace(inner, styled, 1)


def _objects(value: object) -> Sequence[Mapping[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Object, key: str) -> str:
    text = value.get(key)
    return replace_unstorable(text) if isinstance(text, str) else ""

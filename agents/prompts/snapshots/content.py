"""The texts of a stored prompt as compressed JSON: how they are packed, and read whatever version wrote them.

Whatever shape was ever stored is read into today's: a field that is added to `Item` or `DroppedItem` later needs a
default, which old rows get, and one that is renamed or means something else a step in `read_content`. Pure."""

import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_type_hints

from agents.prompts.assembler.items import DroppedItem, Item
from openvibe.engines.llm.values import ChatMessage, ImagePart

CONTENT_VERSION = 2
"""1 has no number; its first items had neither `opening` nor `opening_tokens`. 2 has its number."""

MAX_CONTENT_BYTES = 256 * 1024 * 1024
"""The largest size of one prompt, unpacked: a hundred times what the largest context window holds."""

MAX_NUMBER = 2**31 - 1


class UnreadableContent(ValueError):
    """A stored value is no prompt. The message says what is wrong with it."""


def pack_content(content: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(content, ensure_ascii=False).encode(), level=4)


def unpack_content(data: bytes | memoryview) -> dict[str, Any]:
    """`head`, `after_attempt`, `messages`, `items` and `dropped` in today's shape. Raises UnreadableContent."""
    try:
        value = json.loads(unpack_text(data))
    except (ValueError, RecursionError) as error:  # of JSON and of UTF-8
        raise UnreadableContent(f"it is no JSON ({error})") from None
    return read_content(value)


def unpack_text(packed: bytes | memoryview) -> bytes:
    """The JSON text of what a prompt held: a look at it costs a fraction of reading it. Raises UnreadableContent."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, MAX_CONTENT_BYTES)
    except zlib.error as error:
        raise UnreadableContent(f"it cannot be unpacked ({error})") from None
    if not unpacking.eof:
        raise UnreadableContent("it is cut off, or larger than a prompt can be")
    return text


def read_content(value: object) -> dict[str, Any]:
    """A prompt of any version in today's shape. Raises UnreadableContent."""
    if not isinstance(value, dict):
        raise UnreadableContent("it is no object")
    version = value.get("version", 1)
    if type(version) is not int or not 1 <= version <= CONTENT_VERSION:
        raise UnreadableContent("a newer version wrote it")
    return {
        "version": CONTENT_VERSION,
        "head": _read_head(value.get("head", {})),
        "after_attempt": _read_attempt(value.get("after_attempt", 0)),
        "messages": [_read_row(_MESSAGE, "messages", row) for row in _rows(value, "messages")],
        "items": [_read_row(_columns(Item), "items", row) for row in _rows(value, "items")],
        "dropped": [_read_row(_columns(DroppedItem), "dropped", row) for row in _rows(value, "dropped")],
    }


def _read_head(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(fact, str) for fact in value.values()):
        raise UnreadableContent("head is no object of texts")
    return value


def _read_attempt(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_NUMBER:
        raise UnreadableContent("after_attempt is no number of an attempt")
    return value


def content_messages(content: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    """The messages; in the place of each image what tells it from another, and its size."""
    return tuple(ChatMessage(m["role"], m["content"], images=_read_images(m["images"])) for m in content["messages"])


def describe_images(images: Iterable[ImagePart]) -> str:
    """Images as a stored prompt refers to them: a digest and the size of each, apart by spaces; none of their bytes."""
    return " ".join(f"{image_stand_in(image).data.hex()}:{image.width}x{image.height}" for image in images)


def image_stand_in(image: ImagePart) -> ImagePart:
    """The image with a digest in the place of its bytes, as `content_messages` reads it."""
    return ImagePart("", hashlib.sha256(image.data).digest()[:8], image.width, image.height)


def _read_images(text: str) -> tuple[ImagePart, ...]:
    found = (_IMAGE.fullmatch(part) for part in text.split(" "))
    return tuple(ImagePart("", bytes.fromhex(each[1]), int(each[2]), int(each[3])) for each in found if each)


_IMAGE = re.compile(r"([0-9a-f]{16}):(\d{1,4})x(\d{1,4})", re.ASCII)


_Columns = tuple[tuple[str, type, object], ...]
"""The name, type and default (MISSING where there is none) of each field of a row."""

_MESSAGE: _Columns = (("role", str, MISSING), ("content", str, MISSING), ("images", str, ""))


@cache
def _columns(kind: type[Item] | type[DroppedItem]) -> _Columns:
    """The columns of all that a row is, text and numbers: the names in its Literals may have been others."""
    hints = get_type_hints(kind)
    return tuple((each.name, int if hints[each.name] is int else str, each.default) for each in fields(kind))


def _rows(content: Mapping[str, Any], name: str) -> list[Any]:
    rows = content.get(name)
    if not isinstance(rows, list):
        raise UnreadableContent(f"{name} is no list")
    return rows


def _read_row(columns: _Columns, where: str, row: object) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise UnreadableContent(f"one of its {where} is no object")
    values = {name: row.get(name, default) for name, _, default in columns}
    for name, kind, _ in columns:
        value = values[name]
        is_out_of_range = isinstance(value, int) and not -MAX_NUMBER <= value <= MAX_NUMBER
        if type(value) is not kind or is_out_of_range:
            raise UnreadableContent(f"{name} of one of its {where} is not what it has to be")
    return values

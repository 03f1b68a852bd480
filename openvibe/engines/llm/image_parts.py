"""Images as the protocols write them: beside the words of a message, in their order, before its words. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

from openvibe.engines.llm.values import ImagePart

ChatContent = str | list[dict[str, Any]] | None
"""A message's content in chat completions: a text, or parts where it has images."""


def chat_content(text: str | None, images: Sequence[ImagePart]) -> ChatContent:
    """The text as it is where there are no images; else parts, the images first: the words ask about them."""
    if not images:
        return text
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    return [*parts, {"type": "text", "text": text}] if text and text.strip() else parts


def join_contents(before: ChatContent, after: ChatContent) -> ChatContent:
    """Two messages of one role as one."""
    if not before or not after:
        return before or after
    if isinstance(before, str) and isinstance(after, str):
        gap = "" if before.endswith("\n") else "\n\n"
        return f"{before}{gap}{after}"
    return [*_parts(before), *_parts(after)]


def _parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def messages_blocks(images: Iterable[ImagePart]) -> list[dict[str, Any]]:
    """The images as blocks of the Messages protocol."""
    return [
        {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": _base64(image)}}
        for image in images
    ]


def data_url(image: ImagePart) -> str:
    return f"data:{image.media_type};base64,{_base64(image)}"


def _base64(image: ImagePart) -> str:
    return b64encode(image.data).decode("ascii")

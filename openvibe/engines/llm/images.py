"""Images for models: as the protocols write them, their tokens by the rules of those who bill for them, from their size
alone, and whether a model sees at all.

By the providers' documentation as of November 2026: OpenAI counts tiles of 512 pixels, or patches of 32; Anthropic the
pixels by 750; Gemini tiles of 768, since its third generation a flat number. Open models mostly make one token of 28 by
28 pixels, which is also the rule for any other: rather too many than too few. Pure."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import ceil, floor, sqrt
from typing import Any

from openvibe.engines.llm.values import ImagePart

ImageRule = Callable[[int, int], int]
"""Tokens of an image of this width and height in pixels."""

TILE, TILED_SIDE, TILED_SHORT_SIDE = 512, 2_048, 768
PATCH = 32
GEMINI_TILE, GEMINI_SMALL_SIDE = 258, 384
GEMINI_FLAT = 1_120
ANTHROPIC_PIXELS, ANTHROPIC_SIDE, ANTHROPIC_MOST = 750, 1_568, 1_600
OPEN_PATCH = 28


def openai_tiles(width: int, height: int, *, base: int, tile: int) -> int:
    """A base, and as much for each tile of 512 pixels once the image fits into 2,048 and its short side into 768."""
    scale = min(1.0, TILED_SIDE / max(width, height))
    scale = min(scale, TILED_SHORT_SIDE / min(width, height))
    columns, rows = (ceil(round(side * scale, 6) / TILE) for side in (width, height))
    return base + tile * columns * rows


def openai_patches(width: int, height: int, *, factor: float = 1.0, most: int = 1_536) -> int:
    """Patches of 32 pixels, at most `most` once the image is scaled to them, times the model's factor."""
    patches = ceil(width / PATCH) * ceil(height / PATCH)
    if patches > most:
        scale = sqrt(PATCH**2 * most / (width * height))
        columns, rows = width * scale / PATCH, height * scale / PATCH
        scale *= min(max(floor(side), 1) / side for side in (columns, rows))
        patches = min(ceil(round(width * scale / PATCH, 6)) * ceil(round(height * scale / PATCH, 6)), most)
    return ceil(patches * factor)


def anthropic_pixels(width: int, height: int) -> int:
    """A token for 750 pixels of what is left once the image fits into 1,568 on a side and 1,600 tokens in all."""
    scale = min(1.0, ANTHROPIC_SIDE / max(width, height))
    return min(max(ceil(width * scale * height * scale / ANTHROPIC_PIXELS), 1), ANTHROPIC_MOST)


def gemini_tiles(width: int, height: int) -> int:
    """258 for a small image; for any other as much for each tile, whose side follows the short side of the image."""
    if max(width, height) <= GEMINI_SMALL_SIDE:
        return GEMINI_TILE
    unit = min(max(floor(min(width, height) / 1.5), 256), 768)
    return GEMINI_TILE * ceil(width / unit) * ceil(height / unit)


def gemini_flat(width: int, height: int) -> int:
    """The same number for every image, at the resolution that is the default."""
    return GEMINI_FLAT


def open_patches(width: int, height: int) -> int:
    """One for each 28 by 28 pixels, and what opens and closes the image."""
    return ceil(width / OPEN_PATCH) * ceil(height / OPEN_PATCH) + 2


_RULES: tuple[tuple[re.Pattern[str], ImageRule], ...] = tuple(  # the first that fits decides
    (re.compile(pattern), rule)
    for pattern, rule in (
        (r"gpt-4\.1-mini|gpt-5(?:\.\d)?-mini", partial(openai_patches, factor=1.62)),
        (r"gpt-4\.1-nano|gpt-5(?:\.\d)?-nano", partial(openai_patches, factor=2.46)),
        (r"o4-mini", partial(openai_patches, factor=1.72)),
        (r"gpt-5\.[4-9]|gpt-[6-9]", partial(openai_patches, most=2_500)),
        (r"gpt-4o-mini", partial(openai_tiles, base=2_833, tile=5_667)),
        (r"gpt-5", partial(openai_tiles, base=70, tile=140)),
        (r"o[134](?:-|$)", partial(openai_tiles, base=75, tile=150)),
        (r"gpt-4|chatgpt-4o", partial(openai_tiles, base=85, tile=170)),
        (r"claude", anthropic_pixels),
        (r"gemini-(?:1|2)", gemini_tiles),
        (r"gemini", gemini_flat),
    )
)

_SEEING = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4\.5|gpt-4-turbo|gpt-4-vision|chatgpt-4o|gpt-[5-9]|claude-(?:3|opus|sonnet|haiku|\d)|gemini"
    r"|(?:^|[^a-z0-9])o[134](?!-mini|-preview)(?:$|[^a-z0-9])|o4-mini"
    r"|gemma-?3(?!.*(?:[^0-9.]1b|270m))|gemma-?[4-9]|pixtral|mistral-(?:small-(?:3\.[1-9]|[4-9]|25|26)|medium-(?:3|25|26)|large-(?:3|26))"
    r"|llama-?4|llama-?3\.2-?(?:11b|90b|vision)|grok-[4-9]|llava|minicpm-[vo]|internvl|molmo|smolvlm|kimi-vl|glm-4(?:\.\d)?v"
    r"|(?:^|[^a-z])vl(?:$|[^a-z])|[23]vl|2\.5vl|vision|multimodal|moondream"
)
_BLIND = re.compile(
    r"gpt-3\.5|gpt-35|gpt-oss|gpt-4(?:$|-\d)|o1-mini|o1-preview|o3-mini|deepseek-(?:chat|reasoner|v[23]|r1)|codestral"
    r"|llama-?(?:2|3|3\.1|3\.3)(?:$|[^.\d])|llama-?3\.2-?[13]b|gemma-?3.*(?:[^0-9.]1b|270m)|gemma-?2|mixtral|mistral-7b"
    r"|qwen-?(?:2|2\.5|3)(?:$|[^.\d])|phi-?[234](?:$|-mini)|tinyllama|smollm|offline|scripted"
)


def image_rule(model: str) -> ImageRule:
    """How the images that this model reads are counted."""
    name = _short_name(model)
    return next((rule for pattern, rule in _RULES if pattern.match(name)), open_patches)


def is_known_to_see(model: str) -> bool | None:
    """Whether a model of this name sees images; None where its name does not tell."""
    name = _short_name(model)
    if _SEEING.search(name):
        return True
    return False if _BLIND.match(name) else None


def _short_name(model: str) -> str:
    """The model's name without whose it is: `openai/gpt-4o` and `ft:gpt-4o:…` are gpt-4o."""
    return model.lower().rsplit("/", 1)[-1].removeprefix("ft:").removeprefix("us.anthropic.").removeprefix("anthropic.")


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

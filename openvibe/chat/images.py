"""Images of messages: what an upload shows, decoded and scaled to what every provider of models takes, and nothing else
of the file. Pure: no database."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from io import BytesIO
from math import sqrt

from PIL import Image as Pillow

from openvibe.base.images import UnreadableImage, decode_image, image_format
from openvibe.base.problems import Problem
from openvibe.chat.models import (
    MAX_DESCRIPTION,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_PIXELS,
    MAX_IMAGE_SIDE,
    MAX_THUMBNAIL_SIDE,
    MAX_UPLOADED_IMAGE_BYTES,
)
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.text.cleaning import has_visible_character, remove_invisible

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MAX_DECODED_PIXELS = 50_000_000
"""Width × height of an upload: the photos of large cameras, and no bomb."""
LOSSLESS_BYTES = 600_000
"""A drawing or a screenshot stays sharp (PNG) where it is no larger; what is, and every photo, becomes a JPEG."""
_LOSSLESS_FORMATS = ("PNG", "GIF")
_QUALITIES = (85, 70, 50, 30)
_PROBLEMS = {
    "format": ("not_an_image", "is no image in PNG, JPEG, WebP or GIF."),
    "pixels": ("image_too_large", "has more than 50 million pixels. Make it smaller."),
    "damaged": ("damaged_image", "is damaged or cut off: it cannot be read."),
}


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image that was decoded and scaled, ready to be stored with its message. `size`: bytes of `content`."""

    name: str
    media_type: str
    width: int
    height: int
    content: bytes
    thumbnail: bytes
    size: int
    sha256: str
    description: str = ""


def is_image(data: bytes) -> bool:
    """Whether the file's first bytes are those of an image that messages show."""
    return bool(image_format(data))


def is_called_image(name: str) -> bool:
    """Whether a file's name ends as those of photos and the like do, whatever it holds. An SVG is text."""
    media_type = mimetypes.guess_type(name)[0] or ""
    return media_type.startswith("image/") and media_type != "image/svg+xml"


def make_image(name: str, data: bytes, description: str = "") -> NewImage:
    """The image of this name and these bytes; `name` is clean. Raises Problem: too large, damaged, a long description.

    Its first frame, upright, without transparency, at most MAX_IMAGE_SIDE pixels long and MAX_IMAGE_PIXELS in all."""
    description = clean_description(description)
    if len(data) > MAX_UPLOADED_IMAGE_BYTES:
        megabytes = MAX_UPLOADED_IMAGE_BYTES // 1024**2
        raise image_problem("file_too_large", f"“{name}” has more than {megabytes} MB, the most of an image.")
    try:
        decoded = decode_image(data, formats=FORMATS, max_pixels=MAX_DECODED_PIXELS, target=MAX_IMAGE_SIDE, mode="RGB")
    except UnreadableImage as problem:
        code, words = _PROBLEMS[problem.reason]
        raise image_problem(code, f"“{name}” {words}") from None
    scaled = _fit(decoded, MAX_IMAGE_SIDE, MAX_IMAGE_PIXELS)
    media_type, content = _encode(scaled, may_be_lossless=image_format(data) in _LOSSLESS_FORMATS)
    thumbnail = BytesIO()
    _fit(scaled, MAX_THUMBNAIL_SIDE, MAX_THUMBNAIL_SIDE**2).save(thumbnail, "WEBP", quality=75, method=4)
    return NewImage(
        name=name,
        media_type=media_type,
        width=scaled.width,
        height=scaled.height,
        content=content,
        thumbnail=thumbnail.getvalue(),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        description=description,
    )


def clean_description(text: str) -> str:
    """A description on one line, as it is stored; empty for none. Raises Problem for one that is too long."""
    cleaned = remove_invisible(clean_text(text)) if has_visible_character(text) else ""
    if len(cleaned) > MAX_DESCRIPTION:
        raise Problem(
            f"A description has at most {MAX_DESCRIPTION:,} characters; this one has {len(cleaned):,}. Shorten it.",
            code="too_long",
            field="description",
        )
    return cleaned


def image_problem(code: str, sentence: str) -> Problem:
    return Problem(f"{sentence} Nothing was sent; your text is kept.", code=code, field="files")


def _fit(image: Pillow.Image, max_side: int, max_pixels: int) -> Pillow.Image:
    """The image, scaled down where a side or all of it is larger; no side becomes nothing."""
    scale = min(1.0, max_side / max(image.size), sqrt(max_pixels / (image.width * image.height)))
    if scale == 1.0:
        return image
    size = (max(int(image.width * scale), 1), max(int(image.height * scale), 1))
    return image.resize(size, Pillow.Resampling.LANCZOS)


def _encode(image: Pillow.Image, *, may_be_lossless: bool) -> tuple[str, bytes]:
    """Media type and bytes, at most MAX_IMAGE_BYTES. Not every server of local models reads WebP."""
    output = BytesIO()
    if may_be_lossless:
        image.save(output, "PNG", compress_level=6)
        if output.tell() <= LOSSLESS_BYTES:
            return "image/png", output.getvalue()
    for quality in _QUALITIES:
        output = BytesIO()
        image.save(output, "JPEG", quality=quality)
        if output.tell() <= MAX_IMAGE_BYTES:
            break
    return "image/jpeg", output.getvalue()

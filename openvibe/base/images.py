"""Decoding images that strangers send: one at a time, within limits that are looked at before any pixel is decoded.

What comes out is pixels alone, upright: nothing else that the file held (place, camera, profile, comments, further
frames) comes along. Pure."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from io import BytesIO
from threading import Lock
from typing import Literal

from PIL import Image

MAX_SIDE = 30_000
"""Pixels of width or height."""
MAX_SCANNED_PIXELS = 1_600_000_000
"""The most scanned pixels of a JPEG: its pixels times its scans, each of which goes through all of them, however few
bytes it has."""
STRIP_PIXELS = 1_000_000
"""Converted at a time: a large image never stands in memory twice."""

_SCAN_MARKER = b"\xff\xda"
_SIGNATURES: tuple[tuple[str, bytes, bytes], ...] = (
    ("PNG", b"\x89PNG\r\n\x1a\n", b""),
    ("JPEG", b"\xff\xd8\xff", b""),
    ("GIF", b"GIF87a", b""),
    ("GIF", b"GIF89a", b""),
    ("WEBP", b"RIFF", b"WEBP"),
)
_ORIENTATION_TAG = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What makes an image upright, by the orientation that its file says it has."""
DECODING = Lock()
"""A lock that is held while an image is decoded: one at a time in a process, whoever sends how many. Filters of
warnings are also those of all threads."""


class UnreadableImage(ValueError):
    """A file gives no image: it is of another `format`, has too many `pixels`, or is `damaged`."""

    def __init__(self, reason: Literal["format", "pixels", "damaged"]) -> None:
        super().__init__(reason)
        self.reason = reason


def image_format(data: bytes) -> str:
    """PNG, JPEG, GIF or WEBP by the first bytes of a file; empty for any other."""
    for name, start, tag in _SIGNATURES:
        if data.startswith(start) and data[8 : 8 + len(tag)] == tag:
            return name
    return ""


def decode_image(
    data: bytes, *, formats: Sequence[str], max_pixels: int, target: int, mode: Literal["RGB", "RGBA"]
) -> Image.Image:
    """The first frame, upright, reduced as far as its longer side stays at least twice `target` pixels.

    `formats`: as Pillow names them. RGB stands on white where the image is transparent. Raises UnreadableImage.
    """
    if image_format(data) not in formats:
        raise UnreadableImage("format")
    try:
        with DECODING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is odd about a stranger's file is nothing for the log
            return _decode(data, formats, max_pixels, target, mode)
    except UnreadableImage:
        raise
    except Image.DecompressionBombError:
        raise UnreadableImage("pixels") from None
    except Exception:  # decoders raise whatever a damaged file leads to: struct.error, TypeError, AttributeError, …
        raise UnreadableImage("damaged") from None


def _decode(
    data: bytes, formats: Sequence[str], max_pixels: int, target: int, mode: Literal["RGB", "RGBA"]
) -> Image.Image:
    with Image.open(BytesIO(data), formats=tuple(formats)) as image:
        _check_size(image, data, max_pixels)
        turn = _turn_of(image)
        longest = max(image.size)
        if longest > 2 * target:  # of a JPEG, only as much as is needed
            width, height = (max(side * 2 * target // longest, 1) for side in image.size)
            image.draft(None, (width, height))
        image.load()
        reduced = _reduce(image, max(max(image.size) // (2 * target), 1), mode)
    return reduced.transpose(turn) if turn is not None else reduced


def _check_size(image: Image.Image, data: bytes, max_pixels: int) -> None:
    pixels = image.width * image.height
    if pixels > max_pixels or max(image.size) > MAX_SIDE:
        raise UnreadableImage("pixels")
    if image.format in ("JPEG", "MPO") and pixels * data.count(_SCAN_MARKER) > MAX_SCANNED_PIXELS:
        raise UnreadableImage("damaged")


def _turn_of(image: Image.Image) -> Image.Transpose | None:
    """None where the file says nothing that can be read."""
    try:
        return _TURNS.get(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # what it says of the camera may be damaged while the pixels are not
        return None


def _reduce(image: Image.Image, factor: int, mode: Literal["RGB", "RGBA"]) -> Image.Image:
    """A new image in `mode`, a `factor` smaller, made strip by strip."""
    width, height = image.size
    reduced = Image.new(mode, (-(-width // factor), -(-height // factor)))
    rows = max(STRIP_PIXELS // (width * factor), 1) * factor
    for top in range(0, height, rows):
        strip = _convert(image.crop((0, top, width, min(top + rows, height))), mode)
        reduced.paste(strip.reduce(factor) if factor > 1 else strip, (0, top // factor))
    return reduced


def _convert(strip: Image.Image, mode: Literal["RGB", "RGBA"]) -> Image.Image:
    if strip.mode.startswith("I"):  # 16 bits of grey, which a plain conversion would cut off at 255
        strip = strip.point(lambda value: value * (1 / 256)).convert("L")
    if mode == "RGBA" or not strip.has_transparency_data:
        return strip.convert(mode)
    rgba = strip.convert("RGBA")
    flat = Image.new("RGB", rgba.size, "white")
    flat.paste(rgba, mask=rgba)
    return flat

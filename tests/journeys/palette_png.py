"""Pictures of pages as PNG files of 256 colours: a third of what the browser's own take."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page

COLOURS = 256
READ_PIXELS = """async (png) => {
  const image = await createImageBitmap(new Blob([Uint8Array.from(atob(png), (one) => one.charCodeAt(0))]));
  const drawing = new OffscreenCanvas(image.width, image.height).getContext("2d");
  drawing.drawImage(image, 0, 0);
  const { data, width, height } = drawing.getImageData(0, 0, image.width, image.height);
  return [width, height, btoa(Array.from(data, (one) => String.fromCharCode(one)).join(""))];
}"""


def take_picture(page: Page) -> bytes:
    """What the window shows, as the bytes of a PNG file."""
    png = base64.b64encode(page.screenshot(animations="disabled", caret="hide")).decode()
    width, height, data = page.evaluate(READ_PIXELS, png)
    pixels = np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)
    return palette_png(pixels[:, :, :3])


def palette_png(pixels: NDArray[np.uint8], most_colours: int = COLOURS) -> bytes:
    """The file of a picture, given as height × width × 3. Colours are cells of a grid with a step of 8; those of the
    most frequent cells stand for the others, each for the ones nearest to it. A cell's colour is its most frequent."""
    height, width, _ = pixels.shape
    packed = pixels.reshape(-1, 3).astype(np.int64) @ np.array([65536, 256, 1])
    colours, index, counts = np.unique(packed, return_inverse=True, return_counts=True)
    by_count = np.argsort(-counts, kind="stable")
    _, first, cell = np.unique((colours & 0xF8F8F8)[by_count], return_index=True, return_inverse=True)
    pixels_of_cell = np.bincount(cell, weights=counts[by_count])
    chosen = by_count[first[np.argsort(-pixels_of_cell, kind="stable")[:most_colours]]]
    rgb = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)
    nearest = np.array([((rgb[chosen] - colour) ** 2).sum(axis=1).argmin() for colour in rgb], dtype=np.uint8)
    rows = np.pad(nearest[index].reshape(height, width), ((0, 0), (1, 0)))  # each row begins with its filter: none
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + _chunk(b"PLTE", rgb[chosen].astype(np.uint8).tobytes())
        + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

"""PDF files, page by page, and a picture of the first page. No script of a file runs: this PDFium has no engine for it.
Runs in the reader's own process."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pypdfium2
from PIL import WebPImagePlugin

from openvibe.engines.documents.formats import EncryptedDocument, OpenDocument

PREVIEW_PIXELS = 480
"""Pixels of the longer side of a preview."""


def open_document(name: str, data: bytes) -> OpenDocument:
    """Raises EncryptedDocument, and PdfiumError for what is no PDF."""
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise EncryptedDocument from None
        raise
    return OpenDocument(_page_texts(document), len(document), lambda: _draw_preview(document))


def _page_texts(document: pypdfium2.PdfDocument) -> Iterator[str]:
    """The text of each page; empty for one that cannot be read while others can."""
    for number in range(len(document)):
        try:
            page = document[number]
            text_page = page.get_textpage()
            text = text_page.get_text_bounded()
            text_page.close()
            page.close()
        except pypdfium2.PdfiumError:
            text = ""
        yield text


def _draw_preview(document: pypdfium2.PdfDocument) -> tuple[bytes, int, int]:
    """The first page as WebP, with its width and height in pixels."""
    page = document[0]
    scale = PREVIEW_PIXELS / max(*page.get_size(), 1)
    image = page.render(scale=min(scale, 4)).to_pil().convert("RGB")
    image.thumbnail((PREVIEW_PIXELS, PREVIEW_PIXELS))
    output = BytesIO()
    image.save(output, WebPImagePlugin.WebPImageFile.format, quality=75, method=4)
    return output.getvalue(), image.width, image.height

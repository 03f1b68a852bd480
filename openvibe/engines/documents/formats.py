"""What a file is, by its content: its name says nothing. Pure, and quick whatever is in the file."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Final

MAX_ENTRIES: Final = 20_000
"""Files of one archive (an office file is a zip) that are looked at."""
MAX_UNPACKED_BYTES: Final = 300 * 1024**2
"""Bytes of an archive once it is unpacked, as it says itself."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of document. `page` is what a part of it is called; `is_readable`: whether its text can be had."""

    name: str
    label: str
    media_type: str
    page: str = "page"
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class OpenDocument:
    """A document as a reader opened it: the text of each page, made as it is asked for, and how many there are where
    the file knows. `draw_preview` gives a picture of its beginning as WebP, with width and height in pixels."""

    pages: Iterator[str]
    count: int | None = None
    draw_preview: Callable[[], tuple[bytes, int, int]] | None = None


class EncryptedDocument(ValueError):
    """A file that opens with a password alone."""


_OFFICE = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."
FORMATS: Final[dict[str, Format]] = {
    each.name: each
    for each in (
        Format("pdf", "PDF", "application/pdf"),
        Format("docx", "Word document", f"{_OFFICE}wordprocessingml.document"),
        Format("pptx", "PowerPoint slides", f"{_OFFICE}presentationml.presentation", "slide"),
        Format("xlsx", "Excel workbook", f"{_OFFICE}spreadsheetml.sheet", "sheet"),
        Format("odt", "OpenDocument text", f"{_ODF}text"),
        Format("odp", "OpenDocument slides", f"{_ODF}presentation", "slide"),
        Format("ods", "OpenDocument sheets", f"{_ODF}spreadsheet", "sheet"),
        Format("epub", "E-book", "application/epub+zip", "chapter"),
        Format("html", "Web page", "text/html"),
        Format("rtf", "Rich text", "application/rtf"),
        Format("ole", "Office file of before 2007", "application/x-ole-storage", is_readable=False),
        Format("locked", "Office file", "application/x-ole-storage", is_readable=False),
    )
}
"""Every kind that is known, by its name. `locked` is an office file behind a password."""

ZIPPED_SUFFIXES: Final = frozenset((".docx", ".pptx", ".xlsx", ".odt", ".odp", ".ods", ".epub"))
"""How files are called that are documents in a zip."""

_HTML = re.compile(rb"\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S)
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_STREAM = "EncryptedPackage".encode("utf-16-le")
_MARKS = (b"\xef\xbb\xbf", b"")
_PDF_BEGINNING = 1024
"""Bytes in which the signature of a PDF may stand: readers take some rubbish before it."""
_PARTS = (("word/document.xml", "docx"), ("ppt/presentation.xml", "pptx"), ("xl/workbook.xml", "xlsx"))


def detect_format(data: bytes) -> Format | None:
    """The kind of document that these bytes are; None for what is none, such as text, an image, another archive."""
    if data.startswith(b"%PDF-") or (b"%PDF-" in data[:_PDF_BEGINNING] and b"\x00" in data):
        return FORMATS["pdf"]
    if data.startswith(b"{\\rtf"):
        return FORMATS["rtf"]
    if data.startswith(_OLE_SIGNATURE):
        return FORMATS["locked" if _ENCRYPTED_STREAM in data else "ole"]
    if data.startswith(b"PK\x03\x04"):
        return _archive_format(data)
    beginning = data[3:4096] if data.startswith(_MARKS[0]) else data[:4096]
    return FORMATS["html"] if _HTML.match(beginning) else None


def _archive_format(data: bytes) -> Format | None:
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            names = set(archive.namelist()[:MAX_ENTRIES])
            for part, name in _PARTS:
                if part in names:
                    return FORMATS[name]
            if "mimetype" not in names or archive.getinfo("mimetype").file_size > 200:
                return None
            media_type = archive.read("mimetype").decode("ascii").strip()
    except (zipfile.BadZipFile, ValueError, OSError, RuntimeError, NotImplementedError, EOFError):
        return None
    return next((each for each in FORMATS.values() if each.media_type == media_type), None)


def is_archive_too_large(data: bytes) -> bool:
    """Whether a zip says that it is larger, once unpacked, than a document may be."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        entries = archive.infolist()
    return len(entries) > MAX_ENTRIES or sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES


def declares_entities(data: bytes) -> bool:
    """Whether a part of an office file declares entities, which no office program writes or reads: what they stand for
    is not looked up, so some of the text would be missing."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        for entry in archive.infolist():
            if entry.filename.lower().endswith(".xml"):
                with archive.open(entry) as part:
                    if b"<!ENTITY" in part.read(_PROLOGUE_BYTES).replace(b"\x00", b""):
                        return True
    return False


_PROLOGUE_BYTES = 64 * 1024
"""Bytes of a part in which its declarations stand."""

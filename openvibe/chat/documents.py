"""Documents of messages: what agents read of one, and the sentence that says why there is nothing, or not all. No
database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.template.defaultfilters import pluralize

from openvibe.chat.models import MAX_ATTACHMENT_BYTES, PAGE_BREAK
from openvibe.engines.documents.formats import Format
from openvibe.engines.documents.reader import Document, Trouble, read_document
from openvibe.engines.text.cleaning import has_visible_character
from openvibe.engines.text.masking import MASK, mask_secrets

OFFICE_FORMAT = "office"
"""The format of office files that cannot be read: of before 2007, or behind a password."""

_LOCKED_FILE = "This {label} is encrypted, so no agent can read it. Send it without a password."
_OLD_FILE = "This is an office file of before 2007, so no agent can read it. Save it as DOCX, XLSX, PPTX or PDF."
_NOTHING: dict[Trouble, str] = {
    "encrypted": _LOCKED_FILE,
    "damaged": "This {label} is damaged, so no agent can read it. Open it, save it anew and send that.",
    "too_large": "This {label} takes too much memory to read, so no agent can read it. Send a smaller one.",
    "too_slow": "Reading this {label} took too long, so no agent can read it. Send a smaller one, or its text.",
    "cut": "This {label} has too much text, so no agent can read it. Send a smaller one.",
}
_NOT_ALL: dict[Trouble, str] = {
    "encrypted": _LOCKED_FILE,
    "damaged": "This {label} is damaged: agents can read only {pages}.",
    "too_large": "This {label} takes too much memory to read: agents can read only {pages}.",
    "too_slow": "Reading this {label} took too long: agents can read only {pages}.",
    "cut": "This {label} has more text than is kept: agents can read only {pages}.",
}
_NO_TEXT = "This {label} has no text, so no agent can read it."
_NO_PDF_TEXT = (
    "This PDF has no text, only images of its pages, so no agent can read it. Send the pages as images, or a PDF "
    "with text."
)


@dataclass(frozen=True, slots=True)
class DocumentText:
    """What agents read of a file: its pages apart by PAGE_BREAK. `preview` is WebP, its size in pixels."""

    content: str
    format: str = "text"
    page_count: int | None = None
    problem: str = ""
    preview: bytes = b""
    preview_size: tuple[int, int] = (0, 0)


def read_text(kind: Format, data: bytes, *, seconds: float) -> DocumentText:
    """The document's text without secrets. Never raises over what is in the file."""
    if not kind.is_readable:
        problem = _LOCKED_FILE.format(label=kind.label) if kind.name == "locked" else _OLD_FILE
        return DocumentText("", OFFICE_FORMAT, problem=problem)
    document = read_document(kind, data, max_bytes=MAX_ATTACHMENT_BYTES * 9 // 10, seconds=seconds)
    pages = mask_pages(document.pages)
    content = PAGE_BREAK.join(pages) if any(map(has_visible_character, pages)) else ""
    count = document.count if document.count is not None else len(pages) if len(pages) > 1 else None
    return DocumentText(
        content=_bounded(content),
        format=kind.name,
        page_count=count,
        problem=_problem(kind, document, has_text=bool(content)),
        preview=document.preview,
        preview_size=document.preview_size,
    )


def _bounded(content: str) -> str:
    """Masks are longer than some of what they hide: what is beyond the most that is kept goes."""
    utf8 = content.encode()
    return content if len(utf8) <= MAX_ATTACHMENT_BYTES else utf8[:MAX_ATTACHMENT_BYTES].decode(errors="ignore")


def _problem(kind: Format, document: Document, *, has_text: bool) -> str:
    if not has_text:
        if document.trouble:
            return _NOTHING[document.trouble].format(label=kind.label)
        return _NO_PDF_TEXT if kind.name == "pdf" else _NO_TEXT.format(label=kind.label)
    if not document.trouble:
        return ""
    return _NOT_ALL[document.trouble].format(label=kind.label, pages=_pages_read(kind, document))


def _pages_read(kind: Format, document: Document) -> str:
    read = len(document.pages)
    if document.count is None or document.count < read or document.count == 1:
        return "its beginning"
    return f"the first {read:,} of {document.count:,} {kind.page}{pluralize(document.count)}"


def mask_pages(pages: Sequence[str]) -> list[str]:
    """The pages without secrets, also without one that goes on from one page to the next."""
    masked = mask_secrets(PAGE_BREAK.join(pages)).split(PAGE_BREAK)
    if len(masked) == len(pages):
        return masked
    separate: list[str] = []
    for page in pages:  # of two that share a secret, the second begins with what is left of it
        text = mask_secrets(page)
        if separate and PAGE_BREAK not in (both := mask_secrets(f"{pages[len(separate) - 1]}{PAGE_BREAK}{page}")):
            text = MASK + both.rpartition(MASK)[2]
        separate.append(text)
    return separate

"""Files of messages: an image (`images`), a document (`documents`) or a text, with its extract, and its pieces. No
database."""

from __future__ import annotations

import codecs
import hashlib
import mimetypes
import re
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from openvibe.base.problems import Problem
from openvibe.chat.documents import DocumentText, read_text
from openvibe.chat.images import NewImage, is_called_image, is_image, make_image
from openvibe.chat.models import (
    EXTRACT_TOKENS,
    MAX_ATTACHMENT_BYTES,
    MAX_ATTACHMENT_NAME,
    MAX_ATTACHMENTS,
    MAX_UPLOADED_IMAGE_BYTES,
    PAGE_BREAK,
)
from openvibe.engines.documents.formats import ZIPPED_SUFFIXES, detect_format
from openvibe.engines.documents.reader import DEFAULT_SECONDS
from openvibe.engines.llm.tokens import count_tokens, counter_for, truncate_to_tokens
from openvibe.engines.text.cleaning import has_visible_character
from openvibe.engines.text.masking import mask_secrets

MAX_PIECE_CHARACTERS = 64_000
"""Characters looked at for one piece; blanks and the like may have a hundred of them in a token."""

DEFAULT_NAME, DEFAULT_IMAGE_NAME = "file.txt", "image"
MAX_READING_SECONDS = 45
"""Seconds that reading the documents of one message may take together."""
_SIGNATURE_BYTES = 16
"""The number of bytes from the beginning of a file: what says that it is an image."""

_COUNTER = counter_for("offline")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins with the mark of UTF-16 LE
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LETTER = re.compile(rb"[^\x00-\x7f\x85\x91-\x97]")
_NEIGHBOURS = re.compile(rb"[^\x00-\x7f\x85\x91-\x97]{2,}")
"""Bytes that are no ASCII, and in Windows-1252 no quotation mark, dash or ellipsis: one, and several together."""
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters that no text in an eight-bit encoding has."""

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class NewOriginal:
    """A file as it came. `preview` is WebP, empty for none."""

    content: bytes
    preview: bytes = b""


@dataclass(frozen=True, slots=True)
class NewAttachment:
    """A file that was read, ready to be stored with its message. `content` is what agents read of it; `original` the
    file as it came, None where that is the content."""

    name: str
    media_type: str
    content: str
    size: int
    token_count: int
    extract: str
    sha256: str
    format: str = "text"
    page_count: int | None = None
    problem: str = ""
    preview_width: int = 0
    preview_height: int = 0
    original: NewOriginal | None = None

    def columns(self) -> dict[str, Any]:
        """Values of its row's columns."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "original"}


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A stretch of a text: `start` and `end` in characters of it, `total` all that it has. `page` is the number of the
    page on which it begins, None where the text has no pages."""

    text: str
    start: int
    end: int
    total: int
    page: int | None = None

    @property
    def next_offset(self) -> int | None:
        """The offset at which the next piece begins; None at the end."""
        return self.end if self.end < self.total else None


NewFile = NewAttachment | NewImage
"""What goes with a new message."""


def read_uploads(uploads: Sequence[UploadedFile[Any]], descriptions: Sequence[str] = ()) -> list[NewFile]:
    """The files of a message: texts counted, images scaled, documents read. Takes about two seconds for a large text
    and up to MAX_READING_SECONDS for documents: call it before any transaction. `descriptions`: of the images, each in
    the place of its file; that of a text says nothing.

    Raises Problem, with a sentence for whoever sent them, when one cannot be kept; then none is.
    """
    if len(uploads) > MAX_ATTACHMENTS:
        raise Problem(
            f"A message has at most {MAX_ATTACHMENTS} files; these are {len(uploads)}. Send the others in a second.",
            code="too_many_files",
            field="files",
        )
    if len(descriptions) > len(uploads):
        raise Problem(
            "There are more descriptions than files. Send one for each file, in their order, empty for none.",
            code="bad_descriptions",
            field="descriptions",
        )
    padded = [*descriptions, *[""] * (len(uploads) - len(descriptions))]
    deadline = time.monotonic() + MAX_READING_SECONDS
    return [_read_upload(upload, description, deadline) for upload, description in zip(uploads, padded, strict=True)]


def _read_upload(upload: UploadedFile[Any], description: str, deadline: float) -> NewFile:
    name = upload.name or ""
    beginning = upload.read(_SIGNATURE_BYTES)
    most = MAX_UPLOADED_IMAGE_BYTES if is_image(beginning) else settings.MAX_FILE_BYTES
    if (upload.size or 0) > most:  # before it is read
        raise _too_large(clean_name(name), most=most)
    seconds = min(DEFAULT_SECONDS, max(deadline - time.monotonic(), 1))
    return make_file(name, beginning + upload.read(), description, seconds=seconds)


def make_file(name: str, data: bytes, description: str = "", *, seconds: float = DEFAULT_SECONDS) -> NewFile:
    """The file of this name and these bytes, an image where these are one. Raises Problem as either does. `seconds`:
    that reading a document may take."""
    if is_image(data):
        return make_image(clean_name(name, DEFAULT_IMAGE_NAME), data, description)
    return make_attachment(name, data, seconds=seconds)


def make_attachment(name: str, data: bytes, *, seconds: float = DEFAULT_SECONDS) -> NewAttachment:
    """The text file or document of this name and these bytes. What cannot be read of a document, its `problem` says.
    Raises Problem: empty, too large, neither text nor document."""
    name = clean_name(name)
    if len(data) > settings.MAX_FILE_BYTES:
        raise _too_large(name, most=settings.MAX_FILE_BYTES)
    kind = detect_format(data)
    if kind is not None:
        text = read_text(kind, data, seconds=seconds)
        return _attachment(name, kind.media_type, text, original=data)
    content = _decode(name, data)
    if not has_visible_character(content):
        raise _file_problem("empty_file", f"“{name}” is empty.")
    utf8 = content.encode()
    beginning = DocumentText(content)
    if is_long := len(utf8) > MAX_ATTACHMENT_BYTES:
        megabytes = MAX_ATTACHMENT_BYTES // 1024**2
        content = utf8[:MAX_ATTACHMENT_BYTES].decode(errors="ignore")
        beginning = DocumentText(content, problem=f"It is long: agents can read only its first {megabytes} MB.")
    return _attachment(name, _media_type_of_text(name), beginning, original=data if is_long else None)


def _media_type_of_text(name: str) -> str:
    """The type that the name of a text says, where that is one of texts."""
    named = mimetypes.guess_type(name)[0] or ""
    is_textual = named.startswith("text/") or named.endswith(("+xml", "+json")) or named in _TEXTUAL_TYPES
    return named if is_textual and not is_called_image(name) else "text/plain"


_TEXTUAL_TYPES = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "javascript", "x-sh", "x-csh", "x-tex", "x-latex", "x-python", "sql", "yaml", "toml")
) | {"application/x-yaml", "application/x-ndjson", "application/x-httpd-php", "application/x-perl", "message/rfc822"}


def _attachment(name: str, media_type: str, text: DocumentText, *, original: bytes | None) -> NewAttachment:
    content = text.content
    utf8, token_count = content.encode(), count_tokens(content)
    return NewAttachment(
        name=name,
        media_type=media_type,
        content=content,
        size=len(utf8),
        token_count=token_count,
        extract=_first_lines(content) if token_count > EXTRACT_TOKENS else _masked(content).strip(),
        sha256=hashlib.sha256(utf8).hexdigest(),
        format=text.format,
        page_count=text.page_count,
        problem=text.problem,
        preview_width=text.preview_size[0],
        preview_height=text.preview_size[1],
        original=NewOriginal(original, text.preview) if original is not None else None,
    )


def _masked(text: str) -> str:
    return mask_secrets(text).replace(PAGE_BREAK, "\n")


def clean_name(name: str, default: str = DEFAULT_NAME) -> str:
    """The last part of a path, on one line, without signs that cannot be seen, at most MAX_ATTACHMENT_NAME long."""
    last = re.split(r"[/\\]", name)[-1]
    visible = "".join(sign for sign in last if unicodedata.category(sign) not in _UNPRINTABLE)
    cleaned = unicodedata.normalize("NFC", " ".join(visible.split())).strip(". ") if visible.strip(". ") else ""
    if last.startswith(".") and cleaned:
        cleaned = f".{cleaned}"
    if len(cleaned) > MAX_ATTACHMENT_NAME:
        stem, dot, ending = cleaned.rpartition(".")
        ending = f"{dot}{ending}" if stem and len(ending) <= 10 else ""
        cleaned = cleaned[: MAX_ATTACHMENT_NAME - len(ending) - 1] + "…" + ending
    return cleaned or default


def _decode(name: str, data: bytes) -> str:
    """A mark at the beginning decides; else it is UTF-8, else Windows-1252, which every Latin-1 text is too.

    Raises Problem for what is no text: NUL anywhere, and in Windows-1252 any control character; and for text in what
    seems to be another encoding: in Western words most letters stand between ASCII ones, in Japanese, Chinese or
    Russian those beyond ASCII stand together.
    """
    mark, encoding = next(((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    try:
        content = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        content = "" if mark else data.decode("cp1252", errors="replace")
        if mark or _NOT_TEXT.search(content):
            raise _not_text(name, data) from None
        letters, neighbours = len(_LETTER.findall(data)), sum(map(len, _NEIGHBOURS.findall(data)))
        if "\ufffd" in content or neighbours * 2 > letters:
            raise _unknown_encoding(name, data) from None
    if "\x00" in content:
        raise _not_text(name, data)
    return content


def _not_text(name: str, data: bytes) -> Problem:
    if data.startswith(b"PK\x03\x04") and PurePath(name).suffix.lower() in ZIPPED_SUFFIXES:
        return _file_problem(
            "not_text",
            f"“{name}” is damaged, or not all of it is here: it cannot be opened. Open it where you have it from, save "
            "it anew, and attach that.",
        )
    if is_called_image(name):
        return _file_problem(
            "not_an_image", f"“{name}” is no image that can be shown. Save it as PNG, JPEG, WebP or GIF."
        )
    return _file_problem(
        "not_text",
        f"“{name}” is neither text nor a document that can be read here. Attach text, such as Markdown, CSV, code or a "
        "log, a PDF, an office file, a web page, an e-book, or an image.",
    )


def _unknown_encoding(name: str, data: bytes) -> Problem:
    line = next(number for number, each in enumerate(data.split(b"\n"), 1) if not each.isascii())
    return _file_problem("bad_encoding", f"“{name}” is not UTF-8 text: see line {line}. Save it as UTF-8.")


def _too_large(name: str, *, most: int) -> Problem:
    megabytes = most // 1024**2
    return _file_problem("file_too_large", f"“{name}” has more than {megabytes} MB, the most that a file may have.")


def _file_problem(code: str, sentence: str) -> Problem:
    return Problem(f"{sentence} Nothing was sent; your text is kept.", code=code, field="files")


def _first_lines(content: str) -> str:
    """The first lines: about EXTRACT_TOKENS of the beginning without secrets, ending with a line where one ends in the
    second half."""
    masked_text = _masked(content[:MAX_PIECE_CHARACTERS]).strip()
    return _whole_lines(truncate_to_tokens(masked_text, EXTRACT_TOKENS, _COUNTER)).rstrip()


def cut_excerpt(text: str, offset: int, limit: int) -> Excerpt:
    """An excerpt of at most `limit` tokens of the text from character `offset` on, to the end of a line in the second
    half of that.

    Pieces that each begin where the one before ended give back all of the text, each character once.
    """
    start = min(max(offset, 0), len(text))
    window = text[start : start + MAX_PIECE_CHARACTERS]
    piece = truncate_to_tokens(window, limit, _COUNTER) or window[:1]
    if start + len(piece) < len(text):
        piece = _whole_lines(piece)
    return Excerpt(piece, start, start + len(piece), len(text))


def find_text(text: str, words: str, offset: int) -> int | None:
    """The position of the first line, at or after `offset`, that holds these words, whatever their case; None:
    nowhere."""
    start = max(offset, 0)
    match_start = _fold_case(text).find(_fold_case(words), start)
    return None if match_start < 0 else max(text.rfind("\n", 0, match_start) + 1, min(start, match_start))


def _fold_case(text: str) -> str:
    """The text in small letters, character for character: no place in it moves."""
    return text.replace("İ", "i").lower().replace("ς", "σ")


def _whole_lines(piece: str) -> str:
    end = piece.rfind("\n") + 1
    return piece[:end] if end > len(piece) // 2 else piece

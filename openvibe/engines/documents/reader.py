"""Reading a document: a process of its own is asked, and whatever it does, an answer comes in bounded time and size.

What was read until something went wrong is kept, page by page."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from threading import Lock
from typing import Any, Final, Literal, get_args

from openvibe.engines.documents.formats import Format

ROOT: Final = Path(__file__).resolve().parents[3]
Trouble = Literal["encrypted", "damaged", "too_large", "too_slow", "cut"]
"""What kept a document, or the rest of it, from being read: a password; what no reader understands; more memory, or
more once unpacked, than it may take; time; more text than is kept."""

DEFAULT_SECONDS: Final = 20
"""Seconds that one document may take."""
PREVIEW_SECONDS: Final = 3
"""Seconds beyond the text that its picture may take."""
MAX_PREVIEW_BYTES: Final = 200_000
MAX_LINE_BYTES: Final = 64 * 1024**2
"""A page as JSON, in which a sign may have twelve bytes."""
MAX_PAGES: Final = 20_000
READING: Final = Lock()
"""A lock that is held while a document is read: one at a time in a process, whoever sends how many."""


@dataclass(slots=True)
class Document:
    """What was read of a document. `count` is how many pages it says it has; `pages` the texts of those that were read,
    in their order. `trouble` is why there are not more, None where it is all there."""

    pages: list[str] = field(default_factory=list)
    count: int | None = None
    trouble: Trouble | None = None
    preview: bytes = b""
    preview_size: tuple[int, int] = (0, 0)


def read_document(kind: Format, data: bytes, *, max_bytes: int, seconds: float = DEFAULT_SECONDS) -> Document:
    """The text of a document, at most `max_bytes` in UTF-8, read in at most `seconds`. Never raises over what is in the
    file; OSError where no process can be started."""
    document = Document()
    with READING, tempfile.TemporaryFile() as source:
        source.write(data)
        source.seek(0)
        deadline = time.monotonic() + seconds
        command = [sys.executable, "-s", "-m", "openvibe.engines.documents.worker"]
        process = subprocess.Popen(
            [*command, kind.name, str(max_bytes), str(max(int(seconds), 1))],
            cwd=ROOT,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        try:
            assert isinstance(process.stdout, BufferedReader)
            is_whole = _receive(process.stdout, document, deadline, max_bytes)
        finally:
            process.kill()
            code = process.wait()
    if not is_whole and document.trouble is None:
        is_late = time.monotonic() >= deadline or code == -24  # SIGXCPU
        document.trouble = "too_slow" if is_late else "too_large" if code == -6 else "damaged"
    return document


def _receive(stream: BufferedReader, document: Document, deadline: float, max_bytes: int) -> bool:
    """Takes in what the process says until its end; whether it said so itself."""
    buffer, is_whole, kept = bytearray(), False, 0
    with DefaultSelector() as selector:
        selector.register(stream, EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and selector.select(left):
            block = stream.read1(1024 * 1024)
            if not block:
                break
            buffer += block
            *lines, rest = buffer.split(b"\n")
            buffer = bytearray(rest)
            for line in lines:
                kept += _take(json.loads(line), document)
                if b'"end"' in line[:8] and not is_whole:
                    is_whole = True
                    deadline = min(deadline, time.monotonic() + PREVIEW_SECONDS)
            if kept > max_bytes or len(buffer) > MAX_LINE_BYTES or len(document.pages) > MAX_PAGES:
                document.trouble = "cut"
                break
    return is_whole


def _take(said: dict[str, Any], document: Document) -> int:
    """One thing that the process says; the bytes of the page, if it is one."""
    if "page" in said:
        document.pages.append(str(said["page"]))
        return len(document.pages[-1].encode())
    if "count" in said:
        document.count = int(said["count"])
    elif said.get("problem") in get_args(Trouble):
        document.trouble = said["problem"]
    elif "preview" in said:
        picture = b64decode(said["preview"])
        if len(picture) <= MAX_PREVIEW_BYTES:
            document.preview, document.preview_size = picture, (int(said["width"]), int(said["height"]))
    return 0

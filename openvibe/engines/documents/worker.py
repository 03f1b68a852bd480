"""The process that reads one document: bytes on standard input, JSON lines on standard output.

It has bounded time and memory, writes no file, starts no program and opens no connection, and the file is not looked at
before that is so. A line says one thing: `count` (of pages), `page` (a text), `problem` (a word of PROBLEMS), `preview`
(with `width` and `height`), `end`."""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NoReturn

from openvibe.engines.documents.formats import EncryptedDocument, OpenDocument, declares_entities, is_archive_too_large

Opener = Callable[[str, bytes], OpenDocument]

MAX_MEMORY_BYTES = 1024**3
_CLONE_NEWUSER, _CLONE_NEWNET, _PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _SIGKILL = 0x10000000, 0x40000000, 1, 38, 9
_DENIED_EVENTS = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "os.spawn", "pty.")
_UNWANTED_SIGNS = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\u2028\u2029]")
_LIKE_A_PAGE_HEAD = re.compile(r"^(?=\[(?:page|slide|sheet|chapter) \d)", re.M)


def close_doors(seconds: int) -> None:
    """Denies this process connections, programs and files to write, and bounds its processor time and memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)  # where the machine allows it: not in every container
    sys.addaudithook(_deny)


def _deny(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_DENIED_EVENTS):
        raise PermissionError(f"{event} is nothing that reading a document needs.")
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        raise PermissionError("Reading a document writes no files.")


def clean_page(text: str) -> str:
    """The text without signs that no text has, with one kind of line end, and nothing that reads as a page's head."""
    text = _UNWANTED_SIGNS.sub(
        "", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x02", "").replace("\f", "\n")
    )
    text = re.sub(r"[ \t]+$", "", text, flags=re.M)
    text = re.sub(r"\n{3,}", "\n\n", text).strip("\n")
    return _LIKE_A_PAGE_HEAD.sub(r"\\", text)


def say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def say_pages(pages: Iterator[str], max_bytes: int) -> None:
    """Tells of the pages, until they have more bytes in UTF-8 than that."""
    used = 0
    for text in pages:
        cleaned = clean_page(text)
        room = max_bytes - used
        encoded = cleaned.encode()
        if len(encoded) > room:
            say(page=encoded[:room].decode(errors="ignore"))
            say(problem="cut")
            return
        used += len(encoded) + 1
        say(page=cleaned)


READERS = {
    "pdf": "pdf",
    "docx": "word",
    "pptx": "slides",
    **dict.fromkeys(("xlsx", "ods"), "sheets"),
    **dict.fromkeys(("odt", "odp"), "opendocument"),
    **dict.fromkeys(("html", "epub", "rtf"), "web_pages"),
}
"""The module that reads each kind: only that is loaded, and before doors are closed."""


OFFICE_FORMATS = frozenset(("docx", "pptx", "xlsx", "ods", "odt", "odp"))


def read(opener: Opener, name: str, data: bytes, max_bytes: int) -> None:
    """Raises whatever a reader does over a damaged file."""
    if data.startswith(b"PK") and is_archive_too_large(data):
        say(problem="too_large")
        return
    if name in OFFICE_FORMATS and declares_entities(data):
        raise ValueError("It declares entities.")
    document = opener(name, data)
    if document.count is not None:
        say(count=document.count)
    say_pages(document.pages, max_bytes)
    say(end=True)
    if document.draw_preview is not None and document.count:
        picture, width, height = document.draw_preview()
        say(preview=b64encode(picture).decode(), width=width, height=height)


def main() -> NoReturn:
    name, max_bytes, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    data = sys.stdin.buffer.read()
    opener: Opener = import_module(f"openvibe.engines.documents.{READERS[name]}").open_document
    close_doors(seconds)
    try:
        read(opener, name, data, max_bytes)
    except MemoryError:
        say(problem="too_large")
    except EncryptedDocument:
        say(problem="encrypted")
    except BaseException as error:  # a reader raises whatever a damaged file leads to
        print(f"{type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        say(problem="damaged")
    os._exit(0)  # what a library still holds is nobody's business


if __name__ == "__main__":
    main()

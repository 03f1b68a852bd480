"""Web pages, e-books and rich text. Runs in the reader's own process."""

from __future__ import annotations

import posixpath
import re
import zipfile
from io import BytesIO
from urllib.parse import unquote

from html_to_markdown import ConversionOptions, convert
from lxml import etree
from striprtf.striprtf import rtf_to_text

from openvibe.engines.documents.formats import OpenDocument

_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_-]{1,40})", re.I)
_XML_ENCODING = re.compile(rb"<\?xml[^>]{0,100}encoding\s*=\s*[\"']([A-Za-z0-9_-]{1,40})", re.I)
_OPTIONS = ConversionOptions(extract_metadata=False, skip_images=True)


def open_document(name: str, data: bytes) -> OpenDocument:
    """The text as Markdown, without scripts, styles and images. Raises whatever its library does over damage."""
    if name == "epub":
        archive = zipfile.ZipFile(BytesIO(data))
        names = _chapter_names(archive)
        return OpenDocument((_chapter_text(archive, name) for name in names), len(names))
    if name == "rtf":
        text: str = rtf_to_text(data.decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]  # it has no types
        return OpenDocument(iter((text,)))
    return OpenDocument(iter((_markdown(data),)))


def _markdown(data: bytes) -> str:
    return str(convert(_decode(data), _OPTIONS).content or "")


def _decode(data: bytes) -> str:
    """Decodes by its mark, by what it says of itself, as UTF-8, else as Windows-1252, which reads anything."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    declared = _XML_ENCODING.search(data[:200]) or _CHARSET.search(data[:4096])
    for encoding in ("utf-8-sig", declared[1].decode() if declared else "utf-8"):
        try:
            return data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return data.decode("cp1252", errors="replace")


def _chapter_text(archive: zipfile.ZipFile, name: str) -> str:
    try:
        return _markdown(archive.read(name))
    except KeyError:  # the book names what it does not hold
        return ""


def _chapter_names(archive: zipfile.ZipFile) -> list[str]:
    container = _xml(archive.read("META-INF/container.xml"))
    package_name = next(each.get("full-path", "") for each in container.iter("{*}rootfile"))
    package = _xml(archive.read(package_name))
    folder = posixpath.dirname(package_name)
    paths = {
        each.get("id"): posixpath.normpath(posixpath.join(folder, unquote(each.get("href", ""))))
        for each in package.iter("{*}item")
    }
    return [paths[each.get("idref")] for each in package.iter("{*}itemref") if each.get("idref") in paths]


def _xml(data: bytes) -> etree._Element:
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))

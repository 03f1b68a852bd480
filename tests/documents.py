"""Documents as people and their enemies make them, for tests."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO

import docx
import pptx
from pptx.util import Inches

_RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_ODF = "urn:oasis:names:tc:opendocument:xmlns"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_MAIN_TYPE = "application/vnd.openxmlformats-officedocument"


def pdf(*pages: str, catalog: str = "", trailer: str = "", stream: bytes | None = None) -> bytes:
    """A PDF with the lines of each page. `catalog` and `trailer` add to those; `stream` stands in place of each page's
    content, as it is."""
    objects: list[bytes] = [b"", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"]
    kids = []
    for page in pages:
        lines = (line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") for line in page.split("\n"))
        text = "".join(f"({line}) Tj T* " for line in lines)
        content = f"BT /F1 10 Tf 50 800 Td 14 TL {text}ET".encode("cp1252")
        objects.append(stream or b"<</Length %d>>stream\n%s\nendstream" % (len(content), content))
        resources = "/Resources<</Font<</F1 3 0 R>>>>"
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {len(objects)} 0 R{resources}>>".encode()
        )
        kids.append(f"{len(objects)} 0 R")
    objects[0] = f"<</Type/Catalog/Pages 2 0 R{catalog}>>".encode()
    objects[1] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(kids)}]>>".encode()
    output = BytesIO()
    output.write(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, one in enumerate(objects, 1):
        places.append(output.tell())
        output.write(b"%d 0 obj%s\nendobj\n" % (number, one))
    start = output.tell()
    entries = "".join(f"{place:010d} 00000 n \n" for place in places)
    output.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{entries}".encode())
    output.write(f"trailer<</Size {len(objects) + 1}/Root 1 0 R{trailer}>>\nstartxref\n{start}\n%%EOF".encode())
    return output.getvalue()


ENCRYPTION = f"/Encrypt<</Filter/Standard/V 1/R 2/O<{'41' * 32}>/U<{'42' * 32}>/P -4>>/ID[<{'43' * 16}><{'43' * 16}>]"
"""Stands in the trailer of a PDF that opens with a password alone."""


def bomb_stream(size: int) -> bytes:
    """A stream of a page that is `size` bytes once it is unpacked."""
    packer = zlib.compressobj(9)
    blocks = (packer.compress(b"(roses) Tj T* " * 75_000) for _ in range(size // 1_050_000))
    packed = b"".join((packer.compress(b"BT /F1 10 Tf 50 800 Td "), *blocks, packer.compress(b"ET"), packer.flush()))
    return b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(packed), packed)


def pack(files: Mapping[str, str | bytes]) -> bytes:
    output = BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return output.getvalue()


def word() -> bytes:
    """Two pages: a heading, text with signs that Markdown and XML know, a list, a table; and text on the second."""
    document = docx.Document()
    document.add_heading("Lease", 1)
    document.add_paragraph("Smith & Sons <owner> pay foo_bar in v2.3.1")
    document.add_paragraph("first", style="List Bullet")
    table = document.add_table(2, 2)
    for row, cells in enumerate((("Item", "Price"), ("Roof\ntop", "77 | 78"))):
        for column, cell in enumerate(cells):
            table.cell(row, column).text = cell
    document.add_page_break()  # type: ignore[no-untyped-call]  # python-docx has no types
    document.add_paragraph("The gate code is QUOKKA-7731.")
    output = BytesIO()
    document.save(output)
    return output.getvalue()


def word_xml(body: str, declaration: str = "") -> bytes:
    document = f'<?xml version="1.0"?>{declaration}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    part = f"{_MAIN_TYPE}.wordprocessingml.document.main+xml"
    return _office("word/document.xml", part, {"word/document.xml": document})


def slides() -> bytes:
    """Two slides: a title with a table, and a text with notes of the speaker."""
    presentation = pptx.Presentation()
    first = presentation.slides.add_slide(presentation.slide_layouts[5])
    first.shapes.title.text = "Spring"
    table = first.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for row, cells in enumerate((("Bed", "Roses"), ("North", "12"))):
        for column, cell in enumerate(cells):
            table.cell(row, column).text = cell
    second = presentation.slides.add_slide(presentation.slide_layouts[1])
    second.shapes.title.text = "Watering"
    second.placeholders[1].text = "Every morning"
    second.notes_slide.notes_text_frame.text = "Mention the pump."
    output = BytesIO()
    presentation.save(output)
    return output.getvalue()


def workbook(rows: str, names: Sequence[str] = ("Prices",)) -> bytes:
    """A workbook whose first sheet has these rows, as XML; further sheets have one cell."""
    sheets = "".join(f'<sheet name="{name}" sheetId="{at}" r:id="r{at}"/>' for at, name in enumerate(names, 1))
    links = [f"worksheets/sheet{at}.xml" for at in range(1, len(names) + 1)]
    parts = {
        f"xl/{link}": f'<worksheet xmlns="{_SHEET}"><sheetData>{rows if not at else sheet_row(1, "other")}'
        "</sheetData></worksheet>"
        for at, link in enumerate(links)
    }
    book = f'<workbook xmlns="{_SHEET}" xmlns:r="{_RELATIONSHIPS}"><sheets>{sheets}</sheets></workbook>'
    relations = "".join(
        f'<Relationship Id="r{at}" Type="{_RELATIONSHIPS}/worksheet" Target="{link}"/>'
        for at, link in enumerate(links, 1)
    )
    parts |= {"xl/workbook.xml": book, "xl/_rels/workbook.xml.rels": _relationships(relations)}
    return _office("xl/workbook.xml", f"{_MAIN_TYPE}.spreadsheetml.sheet.main+xml", parts)


def sheet_row(number: int, *cells: str | float) -> str:
    """A row of a sheet as XML."""
    text = "".join(
        f'<c r="{chr(65 + at)}{number}"><v>{cell}</v></c>'
        if isinstance(cell, int | float)
        else f'<c r="{chr(65 + at)}{number}" t="inlineStr"><is><t>{cell}</t></is></c>'
        for at, cell in enumerate(cells)
    )
    return f'<row r="{number}">{text}</row>'


def _relationships(inner: str) -> str:
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'<?xml version="1.0"?><Relationships xmlns="{package}">{inner}</Relationships>'


def _office(main: str, media_type: str, parts: Mapping[str, str]) -> bytes:
    types = (
        f'<?xml version="1.0"?><Types xmlns="{_TYPES}"><Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/{main}" ContentType="{media_type}"/></Types>'
    )
    link = f'<Relationship Id="r1" Type="{_RELATIONSHIPS}/officeDocument" Target="{main}"/>'
    return pack({"[Content_Types].xml": types, "_rels/.rels": _relationships(link), **parts})


ODF_TABLE = (
    '<table:table table:name="Prices"><table:table-row><table:table-cell office:value-type="string">'
    "<text:p>Item</text:p></table:table-cell>"
    '<table:table-cell office:value-type="string"><text:p>Price</text:p></table:table-cell>'
    '</table:table-row><table:table-row><table:table-cell office:value-type="string"><text:p>Roof</text:p>'
    '</table:table-cell><table:table-cell office:value-type="float" office:value="77"><text:p>77</text:p>'
    "</table:table-cell></table:table-row></table:table>"
)


def opendocument(kind: str, body: str) -> bytes:
    """`kind`: text, spreadsheet or presentation; `body`: XML that stands in it."""
    spaces = "".join(
        f' xmlns:{short}="{_ODF}:{name}:1.0"'
        for short, name in {"office": "office", "text": "text", "table": "table", "draw": "drawing"}.items()
    )
    content = f"<office:document-content{spaces}><office:body><office:{kind}>{body}</office:{kind}></office:body>"
    manifest = f'<manifest:manifest xmlns:manifest="{_ODF}:manifest:1.0"/>'
    return pack(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "META-INF/manifest.xml": manifest,
            "content.xml": f"{content}</office:document-content>",
        }
    )


def epub(*chapters: str) -> bytes:
    items = "".join(f'<item id="c{at}" href="c{at}.xhtml"/>' for at in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{at}"/>' for at in range(len(chapters)))
    package = "http://www.idpf.org/2007/opf"
    container = "urn:oasis:names:tc:opendocument:xmlns:container"
    return pack(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": f'<container xmlns="{container}"><rootfiles><rootfile full-path="OPS/book.opf"/>'
            "</rootfiles></container>",
            "OPS/book.opf": f'<package xmlns="{package}"><manifest>{items}</manifest><spine>{spine}</spine></package>',
            **{f"OPS/c{at}.xhtml": f"<html><body>{text}</body></html>" for at, text in enumerate(chapters)},
        }
    )

"""Documents of every kind as text, and hostile ones within their limits."""

import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest

from openvibe.engines.documents.formats import FORMATS, detect_format
from openvibe.engines.documents.reader import ROOT, Document, read_document
from openvibe.engines.documents.worker import clean_page
from tests import documents

MEGABYTE = 1024**2
TABLE = "| Item | Price |\n| --- | --- |\n| Roof | 77 |"


def read(data: bytes, *, seconds: float = 20, max_bytes: int = 5 * MEGABYTE) -> Document:
    kind = detect_format(data)
    assert kind is not None
    return read_document(kind, data, max_bytes=max_bytes, seconds=seconds)


@pytest.mark.parametrize(
    ("name", "data", "count", "pages"),
    [
        (
            "pdf",
            documents.pdf("Prune in March.\nNot in May.", "Second: 3 €"),
            2,
            ["Prune in March.\nNot in May.", "Second: 3 €"],
        ),
        (
            "docx",
            documents.word(),
            None,
            [
                "# Lease\nSmith & Sons <owner> pay foo_bar in v2.3.1\n- first\n\n"
                "| Item | Price |\n| --- | --- |\n| Roof top | 77 \\| 78 |",
                "The gate code is QUOKKA-7731.",
            ],
        ),
        (
            "pptx",
            documents.slides(),
            2,
            [
                "## Spring\n\n| Bed | Roses |\n| --- | --- |\n| North | 12 |",
                "## Watering\n\nEvery morning\n\nNotes: Mention the pump.",
            ],
        ),
        (
            "xlsx",
            documents.workbook(
                documents.sheet_row(1, "Item", "Price") + documents.sheet_row(2, "Roof", 77), names=("Prices", "More")
            ),
            2,
            [f"## Prices\n\n{TABLE}", "## More\n\n| other |\n| --- |"],
        ),
        ("ods", documents.opendocument("spreadsheet", documents.ODF_TABLE), 1, [f"## Prices\n\n{TABLE}"]),
        (
            "odt",
            documents.opendocument(
                "text",
                '<text:h text:outline-level="2">Lease</text:h><text:p>The <text:span>gate</text:span> code.</text:p>'
                f"{documents.ODF_TABLE}<text:p>one<text:soft-page-break/>two</text:p>",
            ),
            None,
            [f"## Lease\n\nThe gate code.\n\n{TABLE}\n\none", "two"],
        ),
        (
            "odp",
            documents.opendocument(
                "presentation",
                "".join(
                    f"<draw:page><draw:frame><draw:text-box><text:p>{words}</text:p></draw:text-box></draw:frame></draw:page>"
                    for words in ("Slide words", "More")
                ),
            ),
            2,
            ["Slide words", "More"],
        ),
        ("epub", documents.epub("<h1>One</h1><p>a &amp; b</p>", "<h1>Two</h1>"), 2, ["# One\n\na & b", "# Two"]),
        (
            "html",
            b"<!DOCTYPE html><html><head><title>T</title><script>steal()</script></head><body><h1>Smith &amp; Sons</h1>"
            b"<table><tr><th>Item</th><th>Price</th></tr><tr><td>Roof</td><td>77</td></tr></table></body></html>",
            None,
            ["# Smith & Sons\n\n| Item | Price |\n| ---- | ----- |\n| Roof | 77    |"],
        ),
        ("rtf", rb"{\rtf1\ansi Hello \b bold\b0  world\par Gr\'fc\'dfe\par}", None, ["Hello bold world\nGrüße"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_people_send_is_read_page_by_page(name: str, data: bytes, count: int | None, pages: list[str]) -> None:
    kind = detect_format(data)
    assert kind == FORMATS[name]
    document = read(data)
    assert document.pages == pages
    assert (document.count, document.trouble) == (count, None)


def test_a_pdf_shows_its_first_page() -> None:
    document = read(documents.pdf("Prune."))
    assert document.preview[8:12] == b"WEBP"
    assert max(document.preview_size) == 480


@pytest.mark.parametrize(
    "data",
    [
        b"plain",
        b"PK\x03\x04 not a zip",
        documents.pack({"a.txt": "x"}),
        b"<htmlike",
        b"# Notes about %PDF- files",
        b"\x89PNG\r\n\x1a\n",
        documents.pack({"mimetype": "x" * 1000}),
        b"",
    ],
    ids=["words", "no zip", "a zip of text", "half a tag", "notes", "a picture", "a long mimetype", "nothing"],
)
def test_what_is_no_document_is_none(data: bytes) -> None:
    assert detect_format(data) is None


def test_the_name_of_a_format_behind_a_password_is_known() -> None:
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    assert detect_format(old) == FORMATS["ole"]
    assert detect_format(old + "EncryptedPackage".encode("utf-16-le")) == FORMATS["locked"]


def test_of_five_thousand_pages_as_many_are_read_as_fit() -> None:
    data = documents.pdf(*(f"Page {number}\n" + "Roses want water. " * 10 for number in range(1, 5001)))
    document = read(data, max_bytes=100_000)
    assert (document.count, document.trouble) == (5000, "cut")
    assert 400 < len(document.pages) < 1000
    assert document.pages[99].startswith("Page 100\n")
    assert sum(len(page.encode()) + 1 for page in document.pages) <= 100_001


@pytest.mark.parametrize(
    ("data", "trouble"),
    [
        (documents.pdf("Secret", trailer=documents.ENCRYPTION), "encrypted"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 50, "damaged"),
        (documents.word().replace(b"PK\x03\x04", b"PK\x03\x05").replace(b"PK\x03\x05", b"PK\x03\x04", 1), "damaged"),
        (documents.pack({"word/document.xml": "<w:"}), "damaged"),
        (documents.pack({"word/document.xml": b"A" * (301 * MEGABYTE)}), "too_large"),
        (
            documents.workbook('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>' + documents.sheet_row(1, "a")),
            "too_large",
        ),
        (documents.epub(), None),
        (documents.pack({"mimetype": "application/epub+zip"}), "damaged"),
        (b"<html>" + b"<div>" * 100_000, None),
        (b"{\\rtf1" + b"{" * 100_000, None),
    ],
    ids=range(10),
)
def test_hostile_documents_end_with_a_word(data: bytes, trouble: str | None) -> None:
    document = read(data)
    assert document.trouble == trouble
    assert not "".join(document.pages)


def test_external_entities_stay_outside(tmp_path: pytest.TempPathFactory) -> None:
    text = "<w:p><w:r><w:t>before &x; after</w:t></w:r></w:p>"
    document = read(documents.word_xml(text, '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>'))
    assert "root:" not in "".join(document.pages)
    nested = "".join(f'<!ENTITY {chr(98 + at)} "{f"&{chr(97 + at)};" * 10}">' for at in range(9))
    document = read(documents.word_xml(text, f'<!DOCTYPE d [<!ENTITY a "lol">{nested}]>'.replace("&x;", "&j;")))
    assert sum(map(len, document.pages)) < 100


def test_a_million_empty_rows_cost_little() -> None:
    rows = documents.sheet_row(1, "Item") + "".join(f'<row r="{number}"/>' for number in range(2, 1_000_001))
    assert read(documents.workbook(rows)).pages == ["## Prices\n\n| Item |\n| --- |"]


def test_a_stream_that_never_ends_is_given_up() -> None:
    data = documents.pdf("x", stream=documents.bomb_stream(600_000_000))
    assert len(data) < 20 * MEGABYTE
    began = time.monotonic()
    document = read(data, seconds=4)
    assert time.monotonic() - began < 30
    assert sum(map(len, document.pages)) <= 5 * MEGABYTE


def test_a_script_in_a_pdf_does_not_run() -> None:
    script = "/OpenAction<</S/JavaScript/JS(app.launchURL\\('http://127.0.0.1:9/'\\); while\\(true\\);)>>"
    document = read(documents.pdf("Words", catalog=script))
    assert (document.pages, document.trouble) == (["Words"], None)


def test_the_reader_opens_no_connection_starts_no_program_and_writes_no_file() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        attempts = (
            f"import socket; socket.create_connection(('127.0.0.1', {port}))",
            "import subprocess; subprocess.run(['true'])",
            "import os; os.fork()",
            "open('/tmp/openvibe-reader', 'w')",
            "bytearray(2 * 1024**3)",
        )
        for attempt in attempts:
            code = f"from openvibe.engines.documents.worker import close_doors; close_doors(5)\ntry:\n    {attempt}\n"
            code += "except (OSError, MemoryError) as error:\n    print('denied')"
            answer = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False, timeout=60
            )
            assert answer.stdout == b"denied\n", (attempt, answer.stderr)


def test_processor_time_is_bounded() -> None:
    code = "from openvibe.engines.documents.worker import close_doors; close_doors(1)\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60).returncode == -24  # SIGXCPU


def test_a_page_has_no_signs_that_no_text_has_and_no_head_of_its_own() -> None:
    assert clean_page("a\x00b\r\nc\x02d\ufffe \n\n\n\n[page 3]\n\fx") == "ab\ncd\n\n\\[page 3]\n\nx"

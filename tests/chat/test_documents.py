"""Documents of messages: what is kept of them, what agents read, where the files are kept, and that nothing stays."""

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from pytest_django.fixtures import Settings

from openvibe.base.problems import Missing, Problem
from openvibe.chat.attachments import make_attachment, read_uploads
from openvibe.chat.documents import mask_pages
from openvibe.chat.models import PAGE_BREAK, Attachment, StoredFile, Thread
from openvibe.chat.pages import bearing_pieces, cut_pages, paged_text
from openvibe.chat.queries import read_attachment
from openvibe.chat.services import delete_message, read_original
from openvibe.engines.documents.reader import READING
from openvibe.workspaces.models import Member
from tests import documents
from tests.chat.test_attachments import MEGABYTE
from tests.factories import StoredFileFactory, access, make_channel, make_thread, send_file, signed_in

REPORT = documents.pdf("Prune in March.", "Water in May.", "The gate code is QUOKKA-7731.")
ENTITY = '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
KEY = "sk-abcdefghijklmnopqrstuvwx"


def test_a_document_is_kept_as_it_came_with_the_text_of_its_pages(ana: Member, thread: Thread) -> None:
    file = send_file(thread, ana, "report.txt", REPORT)
    assert (file.format, file.media_type, file.page_count, file.problem) == ("pdf", "application/pdf", 3, "")
    assert file.content.split(PAGE_BREAK) == ["Prune in March.", "Water in May.", "The gate code is QUOKKA-7731."]
    assert file.extract == "Prune in March.\nWater in May.\nThe gate code is QUOKKA-7731."
    assert (file.preview_width, file.preview_height) == (340, 480)
    original = StoredFile.objects.get()
    assert (bytes(original.content or b""), original.size) == (REPORT, len(REPORT))
    assert bytes(original.preview)[8:12] == b"WEBP"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            documents.pdf("x", trailer=documents.ENCRYPTION),
            "This PDF is encrypted, so no agent can read it. Send it without a password.",
        ),
        (documents.pdf("", ""), "This PDF has no text, only images of its pages, so no agent can read it."),
        (b"%PDF-1.7\nrubbish", "This PDF is damaged, so no agent can read it. Open it, save it anew and send that."),
        (documents.pack({"word/document.xml": b"A" * (301 * MEGABYTE)}), "This Word document takes too much memory"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "This is an office file of before 2007, so no agent"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "This Office file is encrypted, so no agent can read it. Send it without a password.",
        ),
        (documents.word_xml(""), "This Word document has no text, so no agent can read it."),
        (
            documents.word_xml("<w:p><w:r><w:t>Before &x; after</w:t></w:r></w:p>", ENTITY),
            "This Word document is damaged, so no agent can read it.",
        ),
    ],
    ids=range(8),
)
def test_what_cannot_be_read_is_kept_and_says_so(ana: Member, thread: Thread, data: bytes, problem: str) -> None:
    file = send_file(thread, ana, "strange.bin", data)
    assert file.problem.startswith(problem)
    assert (file.content, file.size, file.token_count) == ("", 0, 0)
    assert read_original(file.original) == data
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/files/{file.pk}/text/").content.decode()
    assert problem in page


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.pdf", "text/plain"),
        ("a.docx", "text/plain"),
        ("a.zip", "text/plain"),
        ("a.png", "text/plain"),
        ("a.mp3", "text/plain"),
        ("a", "text/plain"),
        ("a.md", "text/markdown"),
        ("a.csv", "text/csv"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
    ],
)
def test_a_text_has_no_type_of_something_else_whatever_its_name_says(name: str, media_type: str) -> None:
    file = make_attachment(name, b"only words")
    assert (file.format, file.media_type) == ("text", media_type)


def test_of_a_longer_document_it_is_said_how_much_can_be_read(ana: Member, thread: Thread) -> None:
    line = "Roses want water. " * 8
    file = send_file(thread, ana, "long.pdf", documents.pdf(*("\n".join([line] * 50) for _ in range(900))))
    assert file.size <= 5 * MEGABYTE
    pages = file.content.count(PAGE_BREAK) + 1
    expected = f"This PDF has more text than is kept: agents can read only the first {pages} of 900 pages."
    assert (file.page_count, file.problem) == (900, expected)


def test_reading_that_takes_too_long_says_so(ana: Member, thread: Thread) -> None:
    data = documents.pdf(*(f"Page {number}" for number in range(4000)))
    file = make_attachment("slow.pdf", data, seconds=0.0)
    assert file.problem == "Reading this PDF took too long, so no agent can read it. Send a smaller one, or its text."
    assert not READING.locked()


def test_files_are_as_large_as_the_operator_allows(settings: Settings) -> None:
    large = b"%PDF-" + bytes(12 * MEGABYTE)
    with pytest.raises(Problem, match=r"“a\.pdf” has more than 10 MB, the most that a file may have"):
        make_attachment("a.pdf", large)
    settings.MAX_FILE_BYTES = 25 * MEGABYTE
    assert make_attachment("a.pdf", large).original is not None
    assert read_uploads([]) == []


def test_secrets_are_in_no_page_also_where_one_goes_on_to_the_next(ana: Member, thread: Thread) -> None:
    file = send_file(thread, ana, "keys.pdf", documents.pdf(f"The key is {KEY}", "Nothing here"))
    assert file.content == f"The key is [secret removed]{PAGE_BREAK}Nothing here"
    key = ["-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 10, "QUJD" * 12 + "\n-----END PRIVATE KEY-----\nafter", "last"]
    masked = mask_pages(key)
    assert len(masked) == 3
    assert "QUJD" not in "".join(masked)
    assert masked[1].endswith("after")
    assert masked[2] == "last"


def test_a_page_is_read_by_its_number(ana: Member, thread: Thread) -> None:
    file = send_file(thread, ana, "report.pdf", REPORT)
    piece = read_attachment(file, offset=0, limit=100, page=3)
    assert (piece.text, piece.page, piece.next_offset) == ("[page 3]\nThe gate code is QUOKKA-7731.\n", 3, None)
    assert read_attachment(file, offset=0, limit=100, words="water").page == 2
    with pytest.raises(Missing, match=r"There is no page 4: of “report\.pdf” pages 1 to 3 can be read"):
        read_attachment(file, offset=0, limit=100, page=4)


def test_every_character_of_a_text_is_in_one_piece() -> None:
    content = PAGE_BREAK.join(f"Page {number}. " + "Roses want water. " * 30 for number in range(5))
    pieces = list(cut_pages(content, "pdf", 100))
    assert {page for page, _ in pieces} == {1, 2, 3, 4, 5}
    assert max(len(text) for _, text in pieces) <= 100
    assert "".join("".join(text.split()) for _, text in pieces) == "".join(content.replace(PAGE_BREAK, "").split())
    assert list(cut_pages(f"a{PAGE_BREAK}b", "text", 100)) == [(None, f"a{PAGE_BREAK}b")]
    assert paged_text("one", "pdf").text == "one"


@pytest.mark.parametrize(
    ("words", "page"), [(("watering",), 7), (("会議",), 3), (("quokka-7731",), 5), (("bewässerung",), 6)]
)
def test_the_pieces_that_bear_come_first_in_any_script(words: tuple[str, ...], page: int) -> None:
    pages = [f"Roses of row {number}." for number in range(1, 9)]
    pages[2], pages[4], pages[5], pages[6] = (
        "明日の会議は三時",
        "It is QUOKKA-7731.",
        "Die Bewässerung",
        "We watered them.",
    )
    found = bearing_pieces(PAGE_BREAK.join(pages), "pdf", words, most=400, count=3)
    assert [piece.page for piece in found] == [page]


def test_the_database_keeps_the_limits_of_files(ana: Member, thread: Thread) -> None:
    file = send_file(thread, ana, "report.pdf", REPORT)
    stored = StoredFile.objects.get()
    for changes in ({"size": 1}, {"name": "files/x"}, {"content": None}, {"content": b"x"}, {"attachment": None}):
        with pytest.raises(Exception, match=r"(?i)constraint|cannot"), transaction.atomic():
            StoredFile.objects.filter(pk=stored.pk).update(**changes)
    with pytest.raises(IntegrityError), transaction.atomic():
        StoredFileFactory.create(attachment=file)


def test_a_deleted_message_takes_its_file_along(ana: Member, thread: Thread) -> None:
    file = send_file(thread, ana, "report.pdf", REPORT)
    delete_message(message=file.message, by=access(ana))
    assert not Attachment.objects.exists()
    assert not StoredFile.objects.exists()


# --- pages ----------------------------------------------------------------------------------------------------
def test_a_message_says_what_its_file_is_and_shows_what_agents_read(ana: Member, thread: Thread) -> None:
    client, home = signed_in(ana), f"/w/{ana.workspace.slug}/"
    file = send_file(thread, ana, "report.pdf", documents.pdf("</pre><script>x</script>", f"{KEY}"))
    page = client.get(f"{home}t/{thread.pk}/", follow=True).content.decode()
    assert "PDF · " in page
    assert "2 pages" in page
    assert f'href="{home}files/{file.pk}/text/"' in page
    text = client.get(f"{home}files/{file.pk}/text/").content.decode()
    assert "&lt;/pre&gt;&lt;script&gt;" in text
    assert "[page 2]" in text
    assert KEY not in text
    assert client.get(f"{home}files/{file.pk}/preview/")["Content-Type"] == "image/webp"
    saved = client.get(f"{home}files/{file.pk}/")
    assert (saved["Content-Type"], saved["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")
    assert saved.content.startswith(b"%PDF-")


def test_nobody_else_sees_the_file_its_text_or_its_picture(ana: Member, ben: Member) -> None:
    private = make_channel(ana, "private", private=True)
    file = send_file(make_thread(private, ana), ana, "report.pdf", REPORT)
    client: Client = signed_in(ben)
    for path in ("", "text/", "preview/"):
        assert client.get(f"/w/{ana.workspace.slug}/files/{file.pk}/{path}").status_code == 404

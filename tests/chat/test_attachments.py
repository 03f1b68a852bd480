"""Files of messages: what may be one, how it is kept, cut into pieces, and gone with its message."""

import time
from typing import Any

import pytest
from django.db import DatabaseError, DataError, IntegrityError, transaction
from hypothesis import given
from hypothesis import strategies as st

from openvibe.base.problems import Problem
from openvibe.chat.attachments import clean_name, cut_excerpt, find_text, make_attachment
from openvibe.chat.models import Attachment, Erasure, Message, Quote, Thread
from openvibe.chat.queries import access_quotes, read_attachment
from openvibe.chat.services import delete_message, erase_texts
from openvibe.engines.llm.tokens import count_tokens, counter_for
from openvibe.workspaces.models import Member
from tests.documents import word
from tests.factories import access, attach, say

MEGABYTE = 1024 * 1024
SECRET = "The vault code is tulip, the fourth drawer holds the key to it."


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"plain", "plain"),
        ("Räuber".encode(), "Räuber"),
        (b"\xef\xbb\xbfmarked", "marked"),
        ("\ufeffRäuber 🌱".encode("utf-16-le"), "Räuber 🌱"),
        ("\ufeffRäuber".encode("utf-16-be"), "Räuber"),
        ("\ufeffRäuber".encode("utf-32-le"), "Räuber"),
        ("Räuber, 3 €".encode("cp1252"), "Räuber, 3 €"),
        ("“Élan” is the café’s, “Œuvre” not…".encode("cp1252"), "“Élan” is the café’s, “Œuvre” not…"),
        (b"two\r\nlines\tand a tab \x1b[31mred\x1b[0m", "two\r\nlines\tand a tab \x1b[31mred\x1b[0m"),
    ],
)
def test_text_in_every_usual_encoding_is_read(data: bytes, content: str) -> None:
    file = make_attachment("notes.md", data)
    assert (file.content, file.size) == (content, len(content.encode()))
    assert (file.media_type, file.token_count) == ("text/markdown", count_tokens(content))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty_file"),
        (b" \n\t\xef\xbb\xbf", "empty_file"),
        (b"\xef\xbb\xbf", "empty_file"),
        (b"nul\x00inside", "not_text"),
        (b"\x89PNG\r\n\x1a\n\xff\xd8", "not_text"),
        ("no mark".encode("utf-16-le"), "not_text"),
        (b"\xff\xfeodd", "not_text"),
        (b"\xff\xfe\x00\xd8", "not_text"),
        (b"\x81\x8d", "bad_encoding"),
        ("Notes\n二つのバラ、さくら".encode("shift-jis"), "bad_encoding"),
        ("さくらのはな".encode("shift-jis"), "bad_encoding"),
        ("Обрезать розы в марте".encode("cp1251"), "bad_encoding"),
        ("三月修剪玫瑰".encode("gbk"), "bad_encoding"),
        (b"x" * (10 * MEGABYTE + 1), "file_too_large"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_text_file_is_refused_with_a_sentence(data: bytes, code: str) -> None:
    with pytest.raises(Problem) as error:
        make_attachment("odd.bin", data)
    assert error.value.code == code
    assert "“odd.bin”" in error.value.message
    assert "your text is kept" in error.value.message


@pytest.mark.parametrize("name", ["Letter.docx", "prices.XLSX", "book.epub"])
def test_a_document_that_is_cut_off_is_called_damaged(name: str) -> None:
    with pytest.raises(Problem, match="is damaged, or not all of it is here") as error:
        make_attachment(name, word()[:400])
    assert f"“{name}”" in error.value.message


@pytest.mark.parametrize("data", [("\ufeff" + "漢" * 2 * MEGABYTE).encode("utf-16-le"), b"roses\n" * MEGABYTE], ids=len)
def test_of_a_longer_text_agents_read_the_first_five_megabytes(data: bytes) -> None:
    file = make_attachment("long.txt", data)
    assert 5 * MEGABYTE - 4 < file.size <= 5 * MEGABYTE
    assert file.problem == "It is long: agents can read only its first 5 MB."
    assert file.original is not None
    assert file.original.content == data


def test_five_megabytes_may_be_kept() -> None:
    assert make_attachment("a.log", (b"roses want water\n" * 400_000)[: 5 * MEGABYTE]).size == 5 * MEGABYTE


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ana\\plan.md", "plan.md"),
        (".env", ".env"),
        ("..", "file.txt"),
        ("", "file.txt"),
        ("\u202egnp.exe\u200b\n", "gnp.exe"),
        (" a \t b .md ", "a b .md"),
        ("ü" * 300 + ".md", "ü" * 116 + "….md"),
        ("x" * 300, "x" * 119 + "…"),
    ],
)
def test_a_name_is_the_last_part_of_a_path_in_signs_that_can_be_seen(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned
    assert clean_name(cleaned) == cleaned


@given(
    st.text(alphabet=st.sampled_from("ab é漢🌱\n\r\t ") | st.characters(exclude_categories=["Cs"])), st.integers(1, 60)
)
def test_pieces_give_back_every_character(text: str, limit: int) -> None:
    offset: int | None = 0
    given_back = ""
    while offset is not None:
        piece = cut_excerpt(text, offset, limit)
        assert piece.start == len(given_back)
        given_back += piece.text
        assert len(piece.text) <= 1 or counter_for("offline").count(piece.text) <= limit
        offset = piece.next_offset
    assert given_back == text


def test_a_long_file_comes_in_whole_lines(ana: Member, thread: Thread) -> None:
    text = "\n".join(f"Row {n}: " + "roses want water " * (n % 7) for n in range(2_000))
    file = attach(thread, ana, log_txt=text).attachments.get()
    offset: int | None = 0
    given_back, sizes = "", []
    while offset is not None:
        piece = read_attachment(file, offset=offset, limit=4_000)
        sizes.append(count_tokens(piece.text))
        given_back += piece.text
        assert piece.next_offset is None or piece.text.endswith("\n")
        offset = piece.next_offset
    assert given_back == text
    assert max(sizes) <= 4_000
    assert min(sizes[:-1]) > 3_900


def test_words_lead_to_their_line() -> None:
    text = "one\ntwo roses\nthree\nfour ROSES (1+1)\n"
    assert find_text(text, "roses", 0) == 4
    assert find_text(text, "roses", 5) == 5
    assert find_text(text, "roses", 9) == text.index("four")
    assert find_text(text, "(1+1)", 0) == text.index("four")
    assert find_text(text, "tulips", 0) is None


def test_finding_words_takes_no_longer_in_a_text_that_nearly_says_them_everywhere() -> None:
    text = f"{'a' * 3_000_000}\nİstanbul, ΟΔΟΣ"
    began = time.thread_time()
    assert find_text(text, "a" * 199 + "b", 0) is None
    assert time.thread_time() - began < 1  # seconds of work
    assert find_text(text, "istanbul", 0) == find_text(text, "οδοσ", 0) == 3_000_001


def test_agents_read_no_secrets_wherever_they_stand(ana: Member, thread: Thread) -> None:
    key = "ghp_" + "a1B2" * 9
    text = f"token {key}\n" + "filler words\n" * 600 + f"token {key}\n"
    file = attach(thread, ana, env_txt=text).attachments.get()
    assert file.content == text
    assert "[secret removed]" in file.extract
    for offset in (0, 3, 20, *range(len(text) - 90, len(text))):  # pieces shorter than the key
        piece = read_attachment(file, offset=offset, limit=7)
        assert "ghp" not in piece.text
        assert "a1B2" not in piece.text


# --- kept with its message ----------------------------------------------------------------------------------
def test_files_are_part_of_the_message_and_posted_once(ana: Member, thread: Thread) -> None:
    files = [make_attachment("plan.md", b"Prune."), make_attachment("b`c.txt", b"Water.")]
    first, again = (say(thread, ana, " ", files=files, client_id="k") for _ in range(2))
    assert first.pk == again.pk
    assert Message.objects.get().body == "`plan.md`, `b'c.txt`"
    rows = first.attachments.values_list("position", "name", "content", "extract")
    assert list(rows) == [(1, "plan.md", "Prune.", "Prune."), (2, "b`c.txt", "Water.", "Water.")]


def test_a_file_that_cannot_be_kept_leaves_no_message(ana: Member, thread: Thread) -> None:
    file = make_attachment("plan.md", b"Prune.")
    with pytest.raises(Problem, match="at most 5 files"):
        say(thread, ana, "Hi", files=[file] * 6)
    broken = make_attachment("plan.md", b"Prune.")
    object.__setattr__(broken, "size", 7)
    with pytest.raises(IntegrityError), transaction.atomic():
        say(thread, ana, "Hi", files=[file, broken], client_id="k")
    assert not Message.objects.exists()
    assert not Attachment.objects.exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"position": 0},
        {"position": 6},
        {"position": 1},
        {"name": ""},
        {"name": "x" * 121},
        {"size": 5},
        {"content": "", "size": 0},
        {"content": "x" * (5 * MEGABYTE + 1), "size": 5 * MEGABYTE + 1},
        {"token_count": 0},
    ],
    ids=lambda changed: ",".join(changed),
)
def test_the_database_keeps_the_limits(ana: Member, thread: Thread, changed: dict[str, Any]) -> None:
    message = attach(thread, ana, plan_md="Prune.")
    values = {**make_attachment("b.md", b"Water.").columns(), "position": 2}
    Attachment.objects.create(message=message, **values)
    with pytest.raises((IntegrityError, DataError)), transaction.atomic():
        Attachment.objects.create(message=message, **{**values, "position": 3, **changed})
    assert message.attachments.count() == 2


def test_a_file_never_changes(ana: Member, thread: Thread) -> None:
    attach(thread, ana, plan_md="Prune.")
    with pytest.raises(DatabaseError, match="Cannot update"), transaction.atomic():
        Attachment.objects.update(content="Water.", size=6)


def test_files_go_with_their_message_and_are_looked_for(ana: Member, thread: Thread) -> None:
    message = attach(thread, ana, vault_txt=SECRET)
    reply = say(thread, ana, f"It says: {SECRET}")
    copy = attach(thread, ana, "The same.", copy_txt=f"Copied: {SECRET}")
    expected = {("message", reply.pk), ("file", copy.attachments.get().pk)}

    before = access_quotes(access(ana), message.pk).quotes
    delete_message(message=message, by=access(ana))
    assert not message.attachments.exists()
    erase_texts()

    assert {(view.quote.kind, view.quote.ref) for view in before} == expected
    assert set(Quote.objects.values_list("kind", "ref")) == expected
    assert Erasure.objects.get().message_id == message.pk
    places = {view.label: view.place for view in access_quotes(access(ana), message.pk).quotes}
    assert places["File"].title == "The file “copy.txt” in “Pruning”"
    assert not places["File"].may_delete

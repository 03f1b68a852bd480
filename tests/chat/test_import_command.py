"""Conversations from elsewhere: once each, resumed after a kill, and a sentence for every file that is none."""

import io
import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from openvibe.base.models import Event
from openvibe.chat.importing.readers import read_jsonl
from openvibe.chat.importing.values import ImportedLine, ImportedThread, ImportFailed, fingerprint
from openvibe.chat.models import Channel, ConversationImport, Mention, Message, Thread
from openvibe.chat.queries import find_messages, participants_known_to
from openvibe.chat.services import archive_channel, post_message, request_import
from openvibe.chat.services.conversation_import import BATCH_SIZE, import_thread
from openvibe.chat.services.file_import import PROCESS_LOST, import_path
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member, Participant
from tests.factories import access, make_channel


def run(file: Path, *more: str, channel: str = "general") -> str:
    output = io.StringIO()
    call_command("conversation", "import", str(file), "--channel", channel, *more, stdout=output)
    return output.getvalue()


def jsonl(folder: Path, *lines: dict[str, Any], name: str = "talk.jsonl") -> Path:
    file = folder / name
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def talk(lines: int, external_id: str = "talk:1") -> ImportedThread:
    said = (ImportedLine(f"Speaker {n % 3}", f"Row {n} of roses") for n in range(1, lines + 1))
    return ImportedThread(external_id, "A talk", said)


def stopping_after(good: int, thread: ImportedThread) -> ImportedThread:
    """The same conversation, from a reader that fails after `good` lines."""

    def lines() -> Iterator[ImportedLine]:
        for n, line in enumerate(thread.lines):
            if n == good:
                raise ImportFailed("The file changed while it was read.")
            yield line

    return ImportedThread(thread.external_id, thread.title, lines())


def test_a_conversation_becomes_a_thread_in_order(channel: Channel) -> None:
    report = import_thread(channel=channel, imported=talk(2 * BATCH_SIZE + 7))
    thread = Thread.objects.get()
    seqs = list(thread.messages.order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, 2 * BATCH_SIZE + 8))
    assert (report.added, report.present, thread.last_seq) == (2 * BATCH_SIZE + 7, 0, 2 * BATCH_SIZE + 7)
    first, last = thread.messages.order_by("seq").first(), thread.messages.order_by("seq").last()
    assert first
    assert last
    assert first.created_at < last.created_at == thread.last_message_at
    assert first.token_count == count_tokens("Row 1 of roses")


def test_a_second_time_adds_nothing(channel: Channel) -> None:
    import_thread(channel=channel, imported=talk(9))
    report = import_thread(channel=channel, imported=talk(9))
    assert (report.added, report.present) == (0, 9)
    assert Message.objects.count() == 9
    assert Participant.objects.filter(kind="imported").count() == 3


def test_how_far_it_is_stands_in_the_thread_and_in_no_message(channel: Channel) -> None:
    """A key of its own for each message was almost half of what it weighed in indexes."""
    import_thread(channel=channel, imported=talk(BATCH_SIZE + 5))
    assert Thread.objects.get().imported_count == BATCH_SIZE + 5
    assert not Message.objects.exclude(client_id="").exists()


def test_it_goes_on_where_it_stopped(channel: Channel) -> None:
    with pytest.raises(ImportFailed):
        import_thread(channel=channel, imported=stopping_after(BATCH_SIZE + 5, talk(BATCH_SIZE + 20)))
    assert Thread.objects.get().last_seq == BATCH_SIZE == Message.objects.count()
    report = import_thread(channel=channel, imported=talk(BATCH_SIZE + 20))
    assert (report.added, report.present) == (20, BATCH_SIZE)
    bodies = list(Message.objects.order_by("seq").values_list("body", flat=True))
    assert bodies == [f"Row {n} of roses" for n in range(1, BATCH_SIZE + 21)]


def test_what_people_wrote_meanwhile_stays_in_place(ana: Member, channel: Channel) -> None:
    import_thread(channel=channel, imported=talk(3))
    post_message(thread=Thread.objects.get(), by=access(ana), body="Interesting!")
    import_thread(channel=channel, imported=talk(5))
    bodies = list(Message.objects.order_by("seq").values_list("body", flat=True))
    assert bodies[3:] == ["Interesting!", "Row 4 of roses", "Row 5 of roses"]


def test_speakers_are_never_members_or_agents(ana: Member, vibe: object, channel: Channel) -> None:
    lines = [ImportedLine("Ana", "I am another Ana"), ImportedLine("Vibe", "So am I"), ImportedLine("李雷", "你好")]
    import_thread(channel=channel, imported=ImportedThread("t", "T", lines))
    authors = {m.author.name: m.author for m in Message.objects.select_related("author")}
    assert {a.kind for a in authors.values()} == {"imported"}
    assert authors["Ana"].handle == "ana-2"
    assert authors["Vibe"].handle == "vibe-2"
    assert authors["李雷"].handle == "person"


def test_an_assistant_is_kept_as_one_and_is_no_agent_of_the_workspace(
    ana: Member, vibe: object, channel: Channel, client: Client
) -> None:
    lines = [
        ImportedLine("Vibe", "Prune in March", is_assistant=True),
        ImportedLine("Vibe", "Thanks, when do I prune?"),
    ]
    import_thread(channel=channel, imported=ImportedThread("t", "T", lines))
    again = import_thread(channel=channel, imported=ImportedThread("t", "T", lines))
    thread = Thread.objects.get()

    assert (again.added, again.present) == (0, 2)
    authors = Message.objects.order_by("seq").values_list("author__kind", "author__handle")
    assert list(authors) == [("assistant", "vibe-2"), ("imported", "vibe-3")]
    assert not participants_known_to(access(ana)).filter(kind="assistant").exists()
    hits = find_messages(access(ana), "prune", thread_id=thread.pk, budget=1_000).hits
    assert {hit.author_kind for hit in hits} == {"assistant", "imported"}
    client.force_login(ana.user)
    assert "Imported assistant" in client.get(reverse("thread", args=[ana.workspace.slug, thread.pk])).text


def test_an_import_rings_nobody_and_tells_pages_once(vibe: object, channel: Channel) -> None:
    Event.objects.all().delete()
    lines = [ImportedLine("Mara", "@vibe what now?")] * 3
    import_thread(channel=channel, imported=ImportedThread("t", "T", lines))
    assert not Mention.objects.exists()
    assert list(Event.objects.exclude(kind="members_changed").values_list("kind", flat=True)) == ["thread_changed"]


def test_a_text_too_long_for_one_message_becomes_several(channel: Channel) -> None:
    text = "long words " * 25_000
    lines = [ImportedLine("Mara", text), ImportedLine("Mara", "\x07 \u200b"), ImportedLine("Mara", "end")]
    import_thread(channel=channel, imported=ImportedThread("t", "T", lines))
    bodies = list(Message.objects.order_by("seq").values_list("body", flat=True))
    assert [len(body) <= 100_000 for body in bodies] == [True] * 4
    assert " ".join(bodies[:3]).split() == text.split()
    assert bodies[3] == "end"


def test_given_times_are_kept(channel: Channel, tmp_path: Path) -> None:
    file = jsonl(tmp_path, {"author": "Mara", "text": "Hello", "time": "2021-03-01T09:30:00Z", "thread": "Spring"})
    assert "1 thread, 1 message, 1 speaker" in run(file)
    message = Message.objects.get()
    assert message.created_at == datetime(2021, 3, 1, 9, 30, tzinfo=UTC)
    assert message.thread.title == "Spring"
    assert message.thread.last_message_at == message.created_at


def test_the_command_reads_a_slack_export_and_makes_the_channel(ana: Member, tmp_path: Path) -> None:
    file = tmp_path / "export.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("channels.json", json.dumps([{"id": "C1", "name": "garden"}]))
        archive.writestr("users.json", json.dumps([{"id": "U1", "real_name": "Mara Lind"}]))
        said = [{"type": "message", "user": "U1", "ts": "1600000000.000100", "text": "Buds &amp; <@U1>"}]
        archive.writestr("garden/2020-09-13.json", json.dumps(said))
    assert "#slack: 1 thread, 1 message, 1 speaker" in run(file, channel="slack")
    message = Message.objects.select_related("author").get()
    assert (message.author.handle, message.body) == ("mara-lind", "Buds & @mara-lind")


def test_the_command_reads_meetings_twice_and_guesses_the_format(ana: Member, tmp_path: Path) -> None:
    meeting = {
        "topic_list": [{"topic": "Pruning", "relevant_text_span": [["0", "1"]]}],
        "meeting_transcripts": [{"speaker": "Mara", "content": f"Point {n}"} for n in range(4)],
    }
    file = jsonl(tmp_path, meeting, name="val.jsonl")
    assert "1 thread, 4 messages, 1 speaker" in run(file, "--no-progress", channel="meetings")
    assert "0 messages (4 there already)" in run(file, "--no-progress", channel="meetings")
    assert Thread.objects.get().title == "Meeting 1: Pruning"


def test_what_is_left_out_is_named_and_the_rest_comes_in(channel: Channel, tmp_path: Path) -> None:
    file = jsonl(
        tmp_path, {"author": "Mara", "text": "Good"}, {}, {"author": "Mara"}, {"author": "Mara", "text": "Too"}
    )
    output = run(file)
    assert "1 thread, 2 messages, 1 speaker" in output
    assert '1 message left out: it has no "author" (line 2).\n' in output
    assert '1 message left out: it has no "text" (line 3).\n' in output
    assert [*Message.objects.order_by("seq").values_list("body", flat=True)] == ["Good", "Too"]


@pytest.mark.parametrize(
    ("content", "more", "sentence"),
    [
        (None, [], "There is no file"),
        (b"", [], "holds no conversation"),
        (b"not json", [], r"holds no conversation. Nothing was imported.\n1 message left out: it is not JSON"),
        (b'{"author": "a", "text": "b"}', ["--format", "slack"], "not a readable zip"),
        (b'{"author": "a", "text": "b"}', ["--format", "qmsum"], 'no "meeting_transcripts"'),
        (b'{"author": "a", "text": "b"}', ["--workspace", "nowhere"], "There is no workspace 'nowhere'"),
        (b'{"author": "a", "text": "b"}', ["--channel", "new", "--no-create-channel"], "There is no channel #new"),
        (b'{"author": "a", "text": "b"}', ["--channel", "?!"], "Use 1 to 40 of a-z"),
    ],
)
def test_what_cannot_be_imported_gets_a_sentence(
    ana: Member, tmp_path: Path, content: bytes | None, more: list[str], sentence: str
) -> None:
    file = tmp_path / "file.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CommandError, match=sentence.replace("?", r"\?")) as error:
        run(file, *more)
    assert error.value.returncode == 1
    assert not Message.objects.exists()


def test_an_archived_channel_takes_nothing_in(ana: Member, channel: Channel, tmp_path: Path) -> None:
    archive_channel(channel=channel, by=access(ana), archived=True)
    with pytest.raises(CommandError, match="#general is archived"):
        run(jsonl(tmp_path, {"author": "Mara", "text": "Hello"}))


def test_two_workspaces_ask_which_one(ana: Member, cleo: Member, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Say which workspace"):
        run(jsonl(tmp_path, {"author": "Mara", "text": "Hello"}))


def test_attached_files_are_named_where_they_stood(ana: Member, tmp_path: Path) -> None:
    """Files are named as our own export names them, or as objects with a name; a message of files alone is one, too."""
    file = tmp_path / "talk.jsonl"
    rows = [
        {"author": "Zoë", "text": "Look:", "files": ["plan `b`.md", {"name": "data.csv", "size": 3}]},
        {"author": "Zoë", "text": "", "files": ["alone.md"]},
        {"author": "Zoë", "text": "Nothing.", "files": []},
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    thread = import_thread(channel=make_channel(ana), imported=next(read_jsonl(file))).thread
    assert list(Message.objects.filter(thread=thread).values_list("body", flat=True)) == [
        "Look:\n\n- Attached, and not imported: `plan 'b'.md`\n- Attached, and not imported: `data.csv`",
        "- Attached, and not imported: `alone.md`",
        "Nothing.",
    ]


def imported_without_files(channel: Channel, rows: list[dict[str, Any]]) -> Thread:
    """A thread as versions that left out files brought these rows of talk.jsonl in."""
    lines = [ImportedLine(row["author"], row["text"]) for row in rows if row["text"]]
    external_id = f"jsonl:{fingerprint('talk', lines[0].author, lines[0].text, '')}"
    return import_thread(channel=channel, imported=ImportedThread(external_id, "talk", lines)).thread


@pytest.mark.parametrize("alone", [(0,), (1,), (4,), (0, 2, 4)])
def test_what_was_imported_before_files_were_named_is_doubled_by_no_second_import(
    alone: tuple[int, ...], ana: Member, tmp_path: Path
) -> None:
    """Rows `alone` are files alone: they were no messages then."""
    channel = make_channel(ana)
    rows: list[dict[str, Any]] = [{"author": "Zoë", "text": f"Row {number}", "files": ["a.md"]} for number in range(5)]
    for number in alone:
        rows[number]["text"] = ""
    thread = imported_without_files(channel, rows)
    bodies = thread.messages.order_by("seq").values_list("body", flat=True)
    before = list(bodies)
    late = ["- Attached, and not imported: `a.md`"] if 4 in alone else []
    additions: list[list[dict[str, Any]]] = [[], [], [{"author": "Zoë", "text": "", "files": ["b.md"]}]]
    for more in [*additions, [{"author": "Zoë", "text": "Last"}]]:
        rows += more
        late += [row["text"] or "- Attached, and not imported: `b.md`" for row in more]
        report = import_thread(channel=channel, imported=next(read_jsonl(jsonl(tmp_path, *rows))))
        assert report.thread == thread
        assert list(bodies.all()) == [*before, *late]


def test_an_import_that_was_killed_holds_up_no_other(ana: Member, channel: Channel, tmp_path: Path) -> None:
    """Nobody has the lock of a job that is said to be under way: its process died."""
    killed = request_import(by=access(ana), chunks=iter([b"{}"]), file_name="talk.jsonl", form="", channel=None)
    ConversationImport.objects.filter(pk=killed.pk).update(state="running", attempt=1)
    import_path(killed).unlink()  # a command reads the file where it is
    assert "1 thread, 2 messages, 1 speaker" in run(jsonl(tmp_path, *({"author": "Zoë", "text": f"{n}"} for n in "12")))
    killed.refresh_from_db()
    assert (killed.state, killed.error) == ("failed", PROCESS_LOST)

"""Imports as jobs: asked for on the page or in the API, carried out once, taken up after a kill, with their account."""

import json
import os
from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from openvibe.api.services import issue_token
from openvibe.base.problems import Refused
from openvibe.chat.models import IMPORTS, Channel, ConversationImport, Message
from openvibe.chat.services import dismiss_import_notes, execute_import, file_import, recover_imports, request_import
from openvibe.chat.services.file_import import FILE_GONE, delete_orphaned_files, import_path, imports_folder
from openvibe.chat.services.speakers import get_or_create_speaker
from openvibe.chat.wiring import conversation_imported
from openvibe.workspaces.models import Member, Participant
from tests.factories import access

LOG = b'{"author": "Mara", "text": "Buds are early", "time": "2026-03-01T09:30:00Z"}\n{}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "HOME", tmp_path)
    return tmp_path


def queue(by: Member, raw: bytes = LOG, channel: Channel | None = None, name: str = "talk.jsonl") -> ConversationImport:
    return request_import(by=access(by), chunks=iter([raw]), file_name=name, channel=channel)


def test_the_page_takes_a_file_and_shows_its_account(ana: Member, channel: Channel, client: Client) -> None:
    client.force_login(ana.user)
    page = reverse("settings-imports", args=[ana.workspace.slug])
    assert "Find out from the file" in client.get(page).text
    upload = SimpleUploadedFile("talk.jsonl", LOG)
    sent = client.post(page, {"file": upload, "channel": channel.pk, "format": ""})
    job = ConversationImport.objects.get()
    assert sent.headers["Location"] == reverse("settings-import", args=[ana.workspace.slug, job.pk])
    assert "Waits for a worker" in client.get(sent.headers["Location"]).text
    execute_import(job.pk)
    text = client.get(sent.headers["Location"]).text
    assert "1 thread; 2 messages read, 1 record left out." in " ".join(text.split())
    assert "line 2" in text
    table = client.get(f"{sent.headers['Location']}?format=csv")
    assert "message,2,1,0,1,," in table.text
    assert json.loads(client.get(f"{sent.headers['Location']}?format=json").text)["left_out"][0]["count"] == 1
    assert "talk.jsonl" in client.get(f"{page}?list=1").text
    assert Message.objects.get().thread.channel == channel
    assert not any(imports_folder().iterdir())


def test_bad_uploads_get_a_sentence(ana: Member, client: Client) -> None:
    client.force_login(ana.user)
    page = reverse("settings-imports", args=[ana.workspace.slug])
    for data, sentence in (
        ({}, "Choose a file first."),
        ({"file": SimpleUploadedFile("a.jsonl", b"")}, "Choose"),
        ({"file": SimpleUploadedFile("a.jsonl", LOG), "format": "word"}, "A format is one of"),
        ({"file": SimpleUploadedFile("a.zip", b"PK\x03\x04" + b"\x01" * 900)}, "This zip is damaged"),
        ({"file": SimpleUploadedFile("a.exe", b"MZ\x90\x00\x03" + b"\xff" * 900)}, "Bring the export of Slack"),
        ({"file": SimpleUploadedFile("a.pdf", b"%PDF-1.7\n1 0 obj")}, "no file that conversations come in"),
    ):
        answer = client.post(page, data)
        assert answer.status_code in (400, 422)
        assert sentence in answer.text
    assert not ConversationImport.objects.exists()
    assert not list(imports_folder().glob("*"))


def test_a_log_with_an_odd_byte_is_no_other_file(ana: Member) -> None:
    job = queue(ana, LOG.replace(b"{}", b'{"author": "Mara", "text": "a\x00b"}'))
    execute_import(job.pk)
    assert Message.objects.get().body == "Buds are early"


def test_an_id_of_one_log_is_nobody_of_another_log(ana: Member) -> None:
    """An id of JSONL says nothing of where it is from."""

    def read(*authors: str) -> list[str]:
        lines = (json.dumps({"author": name, "author_id": 1, "text": f"I am {name}"}) for name in authors)
        job = queue(ana, "\n".join(lines).encode(), name=f"{authors}.jsonl")
        execute_import(job.pk)
        said = Message.objects.filter(body__in=[f"I am {name}" for name in authors])
        return [message.author.name for message in said.select_related("author").order_by("pk")]

    assert read("Alex", "Alexander") == ["Alex", "Alex"], "in one file the id decides"
    assert read("Bo") == ["Bo"], "another's file has ids of its own"
    assert read("Alex", "Alex again") == ["Alex", "Alex", "Alex"], "the same id and name: the same person"
    assert Participant.objects.filter(kind=Participant.Kind.IMPORTED).count() == 2


def test_whom_an_earlier_version_knew_by_the_id_alone_is_found(ana: Member) -> None:
    mara = get_or_create_speaker(ana.workspace, "Mara", key="id:7")
    execute_import(queue(ana, b'{"author": "Mara", "author_id": "7", "text": "Again"}\n').pk)
    assert Message.objects.get().author_id == mara


def test_only_admins_import_and_read_accounts(ana: Member, ben: Member, client: Client) -> None:
    job = queue(ana)
    client.force_login(ben.user)
    for name, args in (("settings-imports", []), ("settings-import", [job.pk])):
        assert client.get(reverse(name, args=[ana.workspace.slug, *args])).status_code == 403
    with pytest.raises(Refused):
        queue(ben)


def test_the_api_does_what_the_page_does(ana: Member, channel: Channel) -> None:
    _, secret = issue_token(participant=ana.participant, by=access(ana), name="script", scopes=["read", "write"])
    api = APIClient(headers={"Authorization": f"Bearer {secret}"})
    sent = api.post("/api/v1/imports/", {"file": SimpleUploadedFile("talk.jsonl", LOG), "channel": channel.pk})
    assert sent.status_code == 202, sent.content
    pk = sent.json()["id"]
    execute_import(pk)
    row = api.get(f"/api/v1/imports/{pk}/").json()
    assert (row["state"], row["kinds"]) == (
        "done",
        [{"kind": "message", "read": 2, "imported": 1, "present": 0, "left_out": 1}],
    )
    assert row["left_out"][0]["places"] == ["line 2"]
    assert api.get("/api/v1/imports/").json()["results"][0]["id"] == pk
    assert "message,2,1,0,1,," in api.get(f"/api/v1/imports/{pk}/account/").content.decode()
    assert api.delete("/api/v1/imports/notes/").status_code == 204


def test_an_import_goes_on_after_a_kill_and_doubles_nothing(ana: Member, channel: Channel) -> None:
    job = queue(ana, channel=channel)
    execute_import(job.pk)
    again = queue(ana, channel=channel)
    ConversationImport.objects.filter(pk=again.pk).update(state="running", attempt=1)  # its worker died
    assert recover_imports() == [again.pk]
    execute_import(again.pk)
    again.refresh_from_db()
    assert (again.state, Message.objects.count()) == ("done", 1)
    assert again.account["kinds"][0]["present"] == 1


def test_it_says_while_it_writes_how_far_it_is(
    ana: Member, channel: Channel, monkeypatch: pytest.MonkeyPatch, transactional_db: None
) -> None:
    monkeypatch.setattr(file_import, "PROGRESS_SECONDS", 0.0)
    rows = [{"author": "Mara", "text": f"{number}", "thread": f"{number % 3}"} for number in range(30)]
    job = queue(ana, "\n".join(map(json.dumps, rows)).encode(), channel)
    told: list[int] = []
    conversation_imported.connect(
        lambda **_: told.append(ConversationImport.objects.get(pk=job.pk).written), weak=False, dispatch_uid="told"
    )
    try:
        execute_import(job.pk)
    finally:
        conversation_imported.disconnect(dispatch_uid="told")
    assert told == [10, 20, 30]


def test_one_at_a_time_and_then_the_next(ana: Member) -> None:
    first, second = queue(ana), queue(ana, name="other.jsonl")
    ConversationImport.objects.filter(pk=first.pk).update(state="running")
    assert execute_import(second.pk) is None
    second.refresh_from_db()
    assert second.state == "queued"
    ConversationImport.objects.filter(pk=first.pk).update(state="queued")
    assert execute_import(first.pk) == second.pk


def test_a_file_that_is_gone_and_one_that_nobody_waits_for(ana: Member) -> None:
    job = queue(ana)
    import_path(job).unlink()
    execute_import(job.pk)
    job.refresh_from_db()
    assert (job.state, job.error) == ("failed", FILE_GONE)
    stray, kept = imports_folder() / "stray", queue(ana)
    stray.write_text("x")
    for path in (stray, import_path(kept)):
        os.utime(path, (0, 0))
    assert delete_orphaned_files() == 1
    assert import_path(kept).is_file()


def test_who_is_no_admin_any_more_imports_nothing(ana: Member, ben: Member) -> None:
    Member.objects.filter(pk=ben.pk).update(role="admin")
    ben.refresh_from_db()
    job = queue(ben)
    Member.objects.filter(pk=ben.pk).update(role="member")
    execute_import(job.pk)
    job.refresh_from_db()
    assert job.state == "failed"
    assert not Message.objects.exists()


def test_the_notes_of_the_inbox_can_be_put_away(ana: Member, dora: Member, channel: Channel, client: Client) -> None:
    execute_import(queue(ana, channel=channel).pk)
    client.force_login(ana.user)
    inbox = reverse("inbox", args=[ana.workspace.slug])
    assert "imported into" in client.get(inbox).text
    client.post(reverse("import-notes-dismiss", args=[ana.workspace.slug]))
    assert "imported into" not in client.get(inbox).text
    client.force_login(dora.user)
    assert "imported into" in client.get(inbox).text
    dismiss_import_notes(access(dora))
    assert "imported into" not in client.get(inbox).text
    assert IMPORTS.unfinished == ("queued", "running")

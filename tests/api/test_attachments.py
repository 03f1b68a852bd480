"""Files through the API: sent with a message as multipart/form-data, read in pieces."""

import hashlib
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from openvibe.chat.models import Attachment, Message, Thread
from openvibe.chat.services import delete_message, erase_texts
from openvibe.workspaces.models import Member
from tests.api.client import ROOT, Api, is_problem
from tests.api.conftest import Enter
from tests.factories import access, attach, make_agent

PLAN = b"Prune in March.\nWater in May.\n"


@pytest.fixture
def api(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


def upload(name: str = "plan.md", data: bytes = PLAN) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data)


def send(api: Api, thread: Thread, *files: SimpleUploadedFile, key: str = "", **fields: str) -> Any:
    """Posts a form with these files."""
    path = f"{ROOT}threads/{thread.pk}/messages/"
    headers = {**api.headers, **({"Idempotency-Key": key} if key else {})}
    return api.client.post(path, {**fields, "files": list(files)}, headers=headers)


def test_a_message_with_files(api: Api, thread: Thread) -> None:
    answer = send(api, thread, upload(), upload("b.csv", b"a;b\n"), body="Read this", client_id="k")
    assert answer.status_code == 201, answer.content
    message = answer.json()
    row = {"media_type": "text/markdown", "size": 30, "sha256": hashlib.sha256(PLAN).hexdigest()}
    row |= {"format": "text", "file_size": 30, "page_count": None, "problem": ""}
    first, second = message["attachments"]
    assert first == {"id": first["id"], "name": "plan.md", "tokens": 9, **row}
    assert (message["body"], second["name"]) == ("Read this", "b.csv")
    listed = api.get(f"threads/{thread.pk}/messages/").json()["results"]
    assert listed[0] == api.get(f"messages/{message['id']}/").json() == message


@pytest.mark.parametrize("body", ["", " ", "\u200b\u2060", "\u3164"])
def test_without_a_word_that_can_be_seen_the_names_of_the_files_are_the_message(
    api: Api, thread: Thread, body: str
) -> None:
    answer = send(api, thread, upload(), body=body)
    assert (answer.status_code, answer.json()["body"]) == (201, "`plan.md`")
    assert is_problem(api.post(f"threads/{thread.pk}/messages/", {"body": body}), 400, "empty")


def test_the_same_key_is_the_same_message_as_long_as_the_files_are(api: Api, thread: Thread) -> None:
    first, again = (send(api, thread, upload(), body="Hi", key="one") for _ in range(2))
    assert (first.status_code, first.content) == (201, again.content)
    assert again["Idempotency-Replayed"] == "true"
    assert is_problem(send(api, thread, upload(data=b"Other."), body="Hi", key="one"), 409, "idempotency_mismatch")
    assert is_problem(send(api, thread, upload("other.md"), body="Hi", key="one"), 409, "idempotency_mismatch")
    assert (Message.objects.count(), Attachment.objects.count()) == (1, 1)


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ([upload("a.bin", b"\x00")], "not_text"),
        ([upload("a.txt", b"\n")], "empty_file"),
        ([upload("big.log", b"x" * (10 * 1024 * 1024 + 1))], "file_too_large"),
        ([upload(f"{n}.md") for n in range(6)], "too_many_files"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_files_are_refused(api: Api, thread: Thread, files: list[SimpleUploadedFile], code: str) -> None:
    assert is_problem(send(api, thread, *files, body="Hi", key="one"), 400, code)
    assert not Message.objects.exists()
    assert send(api, thread, upload(), body="Hi", key="one").status_code == 201


def test_a_form_that_is_none_is_refused(api: Api, thread: Thread) -> None:
    path = f"{ROOT}threads/{thread.pk}/messages/"
    for content_type in ("multipart/form-data", "multipart/form-data; boundary=x"):
        answer = api.client.generic("POST", path, b"--y\r\nodd", content_type, headers=api.headers)
        assert answer.status_code == 400, answer.content
    assert api.client.post(path, {"body": ""}, headers=api.headers).status_code == 400
    assert api.client.post(path, {"body": "Hi"}, headers=api.headers).json()["attachments"] == []


def test_a_file_is_read_in_pieces(api: Api, ana: Member, thread: Thread) -> None:
    text = "\n".join(f"Row {n}: roses want water, café 🌱" for n in range(400))
    path = f"attachments/{attach(thread, ana, log_txt=text).attachments.get().pk}/"
    offset: Any = 0
    given_back = ""
    while offset is not None:
        piece = api.get(f"{path}?offset={offset}&limit=500").json()
        given_back += piece["text"]
        offset = piece["next_offset"]
    assert (given_back, piece["total"], piece["name"]) == (text, len(text), "log.txt")

    assert api.get(f"{path}?find=row%20399").json()["text"].startswith("Row 399: roses")
    assert is_problem(api.get(f"{path}?find=tulips"), 404, "not_found")
    assert api.get(f"{path}?offset=9999999").json()["text"] == ""
    for query in ("limit=0", "limit=4001", "limit=x", "offset=-1"):
        assert is_problem(api.get(f"{path}?{query}"), 400, "invalid")


def test_an_agent_reads_without_secrets(ana: Member, thread: Thread, by_token: Enter) -> None:
    vibe = make_agent(ana, channel=thread.channel)
    file = attach(thread, ana, env_txt="password=hunter22\nport=80\n").attachments.get()
    text = by_token(vibe.participant).get(f"attachments/{file.pk}/").json()["text"]
    assert text == "password=[secret removed]\nport=80\n"


def test_kept_answers_name_no_files_of_a_deleted_message(api: Api, ana: Member, thread: Thread) -> None:
    first = send(api, thread, upload("vault-tulip.md"), body="Hi there", key="one").json()
    delete_message(message=Message.objects.get(pk=first["id"]), by=access(ana))
    erase_texts()
    second_data = send(api, thread, upload("vault-tulip.md"), body="Hi there", key="one").json()
    assert (second_data["id"], second_data["attachments"]) == (first["id"], [])


@pytest.mark.parametrize(
    "parts",
    [{"file": upload()}, {"files": [upload(), "Prune in March."]}, {"files": "Prune in March."}],
    ids=["another name", "one of two is a field", "a field"],
)
def test_a_file_that_would_be_left_out_is_refused(api: Api, thread: Thread, parts: dict[str, Any]) -> None:
    path = f"{ROOT}threads/{thread.pk}/messages/"
    answer = api.client.post(path, {"body": "Here it is", **parts}, headers=api.headers)
    assert is_problem(answer, 400, "bad_files")
    assert not Message.objects.exists()

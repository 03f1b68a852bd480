"""Files through the browser's doors: sent with a message, shown under it, saved by whoever sees it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, FakePayload, encode_multipart

from openvibe.chat.models import Attachment, Message, Thread
from openvibe.chat.services import add_to_channel, delete_message, start_dive
from openvibe.engines.serving import request_body
from openvibe.workspaces.models import Member
from tests.factories import access, attach, make_agent, make_channel, make_thread

SignedIn = Callable[[Member], Client]
JSON = {"Accept": "application/json"}


@pytest.fixture
def address(home: str, thread: Thread) -> str:
    return f"{home}t/{thread.pk}/"


def upload(name: str = "plan.md", data: bytes = b"Prune in March.") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data, "image/png")  # what the sender calls it does not matter


def test_files_are_sent_with_the_words_and_shown_under_them(
    ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    drawing = upload("../../<b>.svg", b"<svg onload='alert(1)'/>")
    form_data = {"body": "Read *this*", "client_id": "k", "files": [upload(), drawing]}
    answer = browser.post(address, form_data, headers=JSON)
    assert (answer.status_code, answer.json()["seq"]) == (201, 1)
    assert Message.objects.get().body == "Read *this*"

    page = browser.get(address).content.decode()
    links = re.findall(r'<a class="file-chip" href="([^"]+)" download>(.*?)</a>', page, re.DOTALL)
    words = [" ".join(re.sub(r"<[^>]*>", " ", inner).replace("\xa0", " ").split()) for _, inner in links]
    assert words == ["plan.md 15 bytes · 5 tokens", "&lt;b&gt;.svg 24 bytes · 10 tokens"]
    saved = browser.get(links[1][0])
    assert saved.content == b"<svg onload='alert(1)'/>"
    assert saved["Content-Type"] == "text/plain; charset=utf-8"
    assert saved["Content-Disposition"] == 'attachment; filename="<b>.svg"'
    assert saved["X-Content-Type-Options"] == "nosniff"


def test_without_javascript_files_alone_are_a_message(
    ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    form = signed_in(ana).get(address).content.decode()
    assert re.search(r'<form class="composer"[^>]*enctype="multipart/form-data"', form)
    assert 'name="files" multiple' in form
    for number, body in enumerate(["", " \n", "\u200b\u2060"], start=1):
        answer = signed_in(ana).post(address, {"body": body, "files": [upload()]})
        assert answer["Location"] == f"{address}#m-{number}"
    assert [message.body for message in Message.objects.all()] == ["`plan.md`"] * 3


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ([upload("a.bin", b"\x00\x01")], "“a.bin” is neither text nor a document"),
        ([upload("a.txt", b" ")], "“a.txt” is empty."),
        ([upload(), upload("a.txt", b"")], "“a.txt” is empty."),
        ([upload("big.log", b"x" * (10 * 1024 * 1024 + 1))], "“big.log” has more than 10 MB"),
        ([upload(f"{n}.md") for n in range(6)], "A message has at most 5 files; these are 6."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_kept_leaves_nothing_and_the_words_are_given_back(
    files: list[SimpleUploadedFile], sentence: str, ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    answer = browser.post(address, {"body": "My words", "files": files})
    assert answer.status_code == 400
    page = answer.content.decode()
    assert sentence in page
    assert "Choose your files once more." in page
    assert "My words</textarea>" in page
    for file in files:
        file.seek(0)
    response = browser.post(address, {"body": "My words", "files": files}, headers=JSON)
    assert (response.status_code, sentence in response.json()["message"]) == (400, True)
    assert not Message.objects.exists()


def test_a_request_larger_than_all_files_may_be_is_not_read(
    monkeypatch: pytest.MonkeyPatch, ana: Member, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    monkeypatch.setattr(request_body, "MAX_UPLOAD_BYTES", 1_000)
    answer = signed_in(ana).post(address, {"body": "My words", "files": [upload(data=b"x" * 1_000)]})
    assert answer.status_code == 413
    page = answer.content.decode()
    assert "five files of 10 MB each, an import one file of 25 MB" in page
    assert "Nothing was kept or changed." in page
    assert not Message.objects.exists()


class Watched(FakePayload):
    """A request's body that notes whether a transaction is open while it is read."""

    def __init__(self, content: bytes, depth: int) -> None:
        super().__init__(content)
        self.depth = depth
        self.was_read_inside = False

    def read(self, *sizes: int) -> bytes:
        self.was_read_inside |= len(connection.savepoint_ids) > self.depth
        return super().read(*sizes)


def test_no_transaction_waits_for_an_upload(ana: Member, thread: Thread, address: str, signed_in: SignedIn) -> None:
    browser, api = signed_in(ana), f"/api/v1/threads/{thread.pk}/messages/"
    body = encode_multipart(BOUNDARY, {"body": "Hi", "files": [upload()]})
    for path, headers in ((address, JSON), (api, {"Idempotency-Key": "k"})):
        payload: Any = Watched(body, len(connection.savepoint_ids))
        environ = {"wsgi.input": payload, "CONTENT_TYPE": MULTIPART_CONTENT, "CONTENT_LENGTH": str(len(body))}
        answer = browser.generic("POST", path, b"", headers=headers, **environ)
        assert (answer.status_code, payload.was_read_inside) == (201, False), answer.content
    assert Attachment.objects.count() == 2


def test_only_who_sees_the_message_saves_its_files(
    ana: Member, ben: Member, dora: Member, cleo: Member, home: str, signed_in: SignedIn
) -> None:
    private = make_channel(ana, "board", private=True)
    message = attach(make_thread(private, ana), ana, plan_md="Prune.")
    address = f"{home}files/{message.attachments.get().pk}/"
    readers = {"ana": ana, "ben": ben, "dora": dora, "cleo": cleo}

    def statuses() -> dict[str, int]:
        return {name: signed_in(reader).get(address).status_code for name, reader in readers.items()}

    assert statuses() == {"ana": 200, "ben": 404, "dora": 404, "cleo": 404}
    add_to_channel(channel=private, participant=ben.participant, by=access(ana))
    assert statuses() == {"ana": 200, "ben": 200, "dora": 404, "cleo": 404}
    assert Client().get(address).status_code == 302
    delete_message(message=message, by=access(ana))
    assert statuses() == dict.fromkeys(readers, 404)


def test_a_dive_takes_files_too(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    vibe = make_agent(ana, channel=thread.channel)
    dive = start_dive(source=attach(thread, ana, plan_md="Prune."), by=access(ana), agent=vibe.participant)
    page = signed_in(ana).get(f"{home}dive/{dive.pk}/").content.decode()
    assert 'name="files" multiple' in page
    signed_in(ana).post(f"{home}dive/{dive.pk}/", {"body": "And this", "files": [upload("more.md")]})
    assert dive.thread.messages.get().attachments.get().name == "more.md"


@pytest.mark.parametrize("charset", ["rot13", "unicode_escape", "utf-16"])
def test_a_form_that_says_it_is_not_utf_8_is_refused(
    ana: Member, address: str, signed_in: SignedIn, charset: str
) -> None:
    form = encode_multipart(BOUNDARY, {"body": "Hello", "client_id": "\\ud800"})
    answer = signed_in(ana).generic("POST", address, form, content_type=f"{MULTIPART_CONTENT}; charset={charset}")
    assert answer.status_code == 400
    assert not Message.objects.exists()
    utf8 = f"{MULTIPART_CONTENT}; charset=UTF8"
    assert signed_in(ana).generic("POST", address, form, content_type=utf8, headers=JSON).status_code == 201

"""Images through the API: sent with a message, read, described, and through the doors of chat clients and of MCP."""

from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from PIL import Image as Pillow

from openvibe.chat.models import Image, Message, Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests.api.client import ROOT, Api, is_problem
from tests.api.conftest import Enter
from tests.factories import access, image_file, show


@pytest.fixture
def api(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


def send(api: Api, thread: Thread, files: dict[str, bytes], **fields: Any) -> Any:
    uploads = [SimpleUploadedFile(name, data) for name, data in files.items()]
    return api.client.post(f"{ROOT}threads/{thread.pk}/messages/", {**fields, "files": uploads}, headers=api.headers)


def test_a_message_with_images(api: Api, thread: Thread) -> None:
    files = {"wall.png": image_file(size=(600, 400)), "notes.md": b"Words.", "door.gif": image_file("GIF")}
    answer = send(api, thread, files, body="Look", descriptions=["A wall", "", "A door"])
    assert answer.status_code == 201, answer.content
    message = answer.json()
    assert [row["name"] for row in message["attachments"]] == ["notes.md"]
    wall, door = message["images"]
    assert (wall["media_type"], wall["width"], wall["height"], wall["description"]) == ("image/png", 600, 400, "A wall")
    assert (door["name"], door["description"]) == ("door.gif", "A door")
    assert api.get(f"messages/{message['id']}/").json()["images"] == [wall, door]

    content = api.get(f"images/{wall['id']}/content/")
    assert (content.status_code, content["Content-Type"]) == (200, "image/png")
    assert Pillow.open(BytesIO(content.content)).size == (600, 400)
    assert api.get(f"images/{wall['id']}/").json() == {**wall, "message": message["id"]}


@pytest.mark.parametrize(
    ("files", "fields", "code"),
    [
        ({"a.png": b"\x89PNG\r\n\x1a\n nothing"}, {}, "damaged_image"),
        ({"a.heic": b"\0\0\0 ftypheic"}, {}, "not_an_image"),
        ({"a.png": image_file()}, {"descriptions": ["one", "two"]}, "bad_descriptions"),
        ({"a.png": image_file()}, {"descriptions": ["a" * 1_001]}, "too_long"),
        ({f"{n}.png": image_file() for n in range(6)}, {}, "too_many_files"),
    ],
)
def test_bad_images_are_refused_and_nothing_is_sent(
    api: Api, thread: Thread, files: dict[str, bytes], fields: dict[str, Any], code: str
) -> None:
    answer = send(api, thread, files, body="Look", **fields)
    assert is_problem(answer, 400, code), answer.content
    assert not Message.objects.exists()


def test_its_author_describes_an_image(api: Api, by_token: Enter, thread: Thread, ana: Member, vibe: Any) -> None:
    image = show(thread, ana).images.get()
    answer = api.client.patch(
        f"{ROOT}images/{image.pk}/",
        {"description": "A brick wall"},
        content_type="application/json",
        headers=api.headers,
    )
    assert (answer.status_code, answer.json()["description"]) == (200, "A brick wall")
    other = by_token(vibe.participant)
    refused = other.client.patch(
        f"{ROOT}images/{image.pk}/", {"description": "x"}, content_type="application/json", headers=other.headers
    )
    assert refused.status_code == 403
    delete_message(message=image.message, by=access(ana))
    assert api.get(f"images/{image.pk}/").status_code == 404
    assert api.get(f"images/{image.pk}/content/").status_code == 404


def test_what_a_stranger_may_not_see_does_not_exist(by_token: Enter, thread: Thread, ana: Member, cleo: Member) -> None:
    image = show(thread, ana).images.get()
    stranger = by_token(cleo.participant)
    for path in (f"images/{image.pk}/", f"images/{image.pk}/content/"):
        assert stranger.get(path).status_code == 404


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{b64encode(data).decode()}"


Ask = Callable[..., Any]


@pytest.fixture
def ask(api: Api, vibe: Any, ana: Member) -> Ask:
    """What `/v1/chat/completions` answers to one message of these parts. A stream needs a loop, which is not here."""

    def post(*parts: dict[str, Any], path: str = "chat/completions") -> Any:
        message = {"role": "user", "content": list(parts)}
        body = {"messages": [message]} if path == "chat/completions" else {"input": [message]}
        return api.client.post(
            f"/v1/{path}",
            {"model": "@vibe", "stream": True, **body},
            content_type="application/json",
            headers=api.headers,
        )

    return post


def chat_image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_a_chat_client_shows_an_image(ask: Ask) -> None:
    words = {"type": "text", "text": "What is it?"}
    ask(words, chat_image(data_url(image_file(size=(90, 60)))))
    image = Image.objects.get()
    assert (image.message.body, image.name, image.width, image.height) == ("What is it?", "image-1", 90, 60)


def test_base64_is_read_as_programs_write_it(ask: Ask) -> None:
    """Base64 may come in lines, without its padding, and in the letters of addresses."""
    head, _, data = data_url(image_file()).partition(",")
    in_lines = "\n".join(data[start : start + 76] for start in range(0, len(data), 76))
    forms = (in_lines, data.rstrip("="), data.translate(str.maketrans("+/", "-_")))
    ask(*(chat_image(f"{head},{form}") for form in forms))
    assert len(set(Image.objects.values_list("sha256", flat=True))) == 1
    assert Image.objects.count() == 3


def test_an_image_alone_is_a_question(ask: Ask) -> None:
    part = {"type": "input_image", "image_url": data_url(image_file("JPEG"), "image/jpeg")}
    ask(part, path="responses")
    assert Image.objects.get().message.body == "`image-1`"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([chat_image("https://elsewhere.example/a.png")], "not fetched"),
        ([chat_image("file:///etc/passwd")], "not fetched"),
        ([chat_image("")], "data: URL"),
        ([{"type": "image_url"}], "data: URL"),
        ([{"type": "input_image", "file_id": "file-1"}], "files by their id"),
        ([chat_image("data:image/png,abc")], "base64"),
        ([chat_image("data:image/png;base64,!!!")], "damaged"),
        ([chat_image(data_url(b"<svg/>", "image/svg+xml"))], "no image in PNG"),
        ([chat_image(data_url(image_file()))] * 6, "at most 5"),
        ([{"type": "input_audio", "input_audio": {}}], "input_audio is not taken"),
    ],
)
def test_other_images_are_refused_by_name(ask: Ask, parts: list[dict[str, Any]], words: str) -> None:
    answer = ask(*parts)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert not Message.objects.exists()

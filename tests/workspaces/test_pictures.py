"""Pictures of people: what may be one, who sees it, and that nothing of the uploaded file is kept."""

import re
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from PIL import Image

from agents.models import Agent
from openvibe.api.services import issue_token
from openvibe.base.problems import Problem
from openvibe.chat.models import Thread
from openvibe.workspaces.models import PICTURE_PIXELS, Member, Participant
from openvibe.workspaces.pictures import MAX_UPLOAD_BYTES, make_picture
from openvibe.workspaces.services import remove_picture, save_picture
from tests.factories import say

SignedIn = Callable[[Member], Client]
PAYLOAD = b"<script>alert(1)</script>"


def image(form: str = "PNG", size: tuple[int, int] = (40, 30), color: str = "red", **options: object) -> bytes:
    output = BytesIO()
    Image.new("RGB", size, color).save(output, form, **options)
    return output.getvalue()


def png_that_says(width: int, height: int) -> bytes:
    """A PNG of a few bytes with a header that promises so many pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def test_a_picture_of_endless_scans_is_not_decoded() -> None:
    data = image("JPEG", progressive=True)
    scan = data[data.rindex(b"\xff\xda") : -2]  # 31 bytes that take as long as all pixels
    assert make_picture(data[:-2] + 3 * scan + data[-2:])
    with pytest.raises(Problem) as refusal:
        make_picture(data[:-2] + 200 * scan + data[-2:])
    assert refusal.value.code == "not_a_picture"


@pytest.mark.parametrize("form", ["JPEG", "WEBP"])
def test_a_picture_whose_notes_are_damaged_is_refused_in_words(form: str) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x011A] = 6, 72.0  # lies on its side; a resolution, which is no text
    data = image(form, exif=exif)
    at = data.index(b"\x01\x1a\x00\x05" if b"MM\x00*" in data else b"\x1a\x01\x05\x00")
    damaged = data[:at] + data[at : at + 4].replace(b"\x05", b"\x02") + data[at + 4 :]
    with pytest.raises(Problem) as refusal:
        make_picture(damaged)
    assert refusal.value.code == "not_a_picture"


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_a_picture_is_encoded_anew_as_a_small_square(form: str) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "At home, 52.5 N"  # lies on its side; what is on it
    picture = make_picture(image(form, (600, 300), exif=exif) + PAYLOAD)
    made = Image.open(BytesIO(picture))
    assert (made.format, made.size) == ("WEBP", (PICTURE_PIXELS, PICTURE_PIXELS))
    assert not made.getexif()
    for text in (PAYLOAD, b"At home"):
        assert text not in picture


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "not_a_picture"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "not_a_picture"),
        (image("GIF"), "not_a_picture"),
        (image("BMP"), "not_a_picture"),
        (image(size=(400, 400))[:60], "not_a_picture"),
        (image("JPEG")[:200], "not_a_picture"),
        (png_that_says(4_001, 4_000), "picture_too_large"),
        (png_that_says(2_000_000, 2_000_000), "not_a_picture"),
        (image() + b"\0" * MAX_UPLOAD_BYTES, "picture_too_large"),
    ],
    ids=["empty", "svg", "gif", "bmp", "cut-png", "cut-jpeg", "many-pixels", "bomb", "1-mb-and-more"],
)
def test_what_is_no_picture_is_refused_with_a_sentence(data: bytes, code: str) -> None:
    with pytest.raises(Problem, match=r"Nothing was changed\.") as error:
        make_picture(data)
    assert error.value.code == code


def test_members_see_a_picture_and_nobody_else(
    ana: Member, dora: Member, cleo: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    upload = SimpleUploadedFile("../me.png", image(), "text/html")
    browser.post(f"{home}profile/picture/", {"picture": upload})
    address = Participant.objects.get(pk=ana.participant_id).avatar_url
    assert address is not None
    seen = signed_in(dora).get(address)
    assert (seen["Content-Type"], seen["X-Content-Type-Options"]) == ("image/webp", "nosniff")
    assert "private" in seen["Cache-Control"]
    assert "immutable" in seen["Cache-Control"]
    for stranger in (signed_in(cleo), Client()):
        assert stranger.get(address).status_code in (302, 404)

    say(thread, ana, "Look at me.")
    for page in (f"{home}t/{thread.pk}/", f"{home}sidebar/", f"{home}members/", f"{home}profile/"):
        assert f'src="{address}"' in signed_in(dora if "profile" not in page else ana).get(page).content.decode()
    _, token = issue_token(participant=dora.participant, name="t", scopes=["read"])
    data = Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {token}"}).json()
    assert data["participant"]["avatar_url"] is None
    messages = Client().get(f"/api/v1/threads/{thread.pk}/messages/", headers={"Authorization": f"Bearer {token}"})
    assert messages.json()["results"][-1]["author"]["avatar_url"] == address

    save_picture(participant=ana.participant, content=make_picture(image(color="blue")))
    assert signed_in(dora).get(address).status_code == 404
    remove_picture(participant=ana.participant)
    assert "<img" not in browser.get(f"{home}t/{thread.pk}/").content.decode()


def test_what_was_no_picture_leaves_the_one_before(ana: Member, home: str, signed_in: SignedIn) -> None:
    browser = signed_in(ana)
    save_picture(participant=ana.participant, content=make_picture(image()))
    before = Participant.objects.get(pk=ana.participant_id).picture_version
    for upload in ({}, {"picture": SimpleUploadedFile("me.png", PAYLOAD)}):
        answer = browser.post(f"{home}profile/picture/", upload)
        assert answer.status_code == 400
        assert b'role="alert"' in answer.content
    assert Participant.objects.get(pk=ana.participant_id).picture_version == before != ""
    browser.post(f"{home}profile/picture/", {"remove": "yes"})
    assert Participant.objects.get(pk=ana.participant_id).picture_version == ""


def test_colours_of_avatars_have_enough_contrast_and_stay_the_same() -> None:
    css = (Path(settings.BASE_DIR) / "static/css/base.css").read_text()
    tints = re.findall(r"\.tint-\d \{ --tint: (#\w+); --tint-text: (#\w+); --agent-tint: (#\w+); \}", css)
    assert len(tints) == len(set(tints)) == 10
    for ground, text, of_agent in tints:
        assert _contrast(ground, text) >= 4.5
        assert _contrast(of_agent, "#ffffff") >= 4.5


def _contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG has it."""
    darker, lighter = sorted(_luminance(colour) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_an_agent_gets_a_picture_from_admins_alone(ana: Member, dora: Member, vibe: Agent, signed_in: SignedIn) -> None:
    home = f"/w/{ana.workspace.slug}/"
    address = f"{home}agents/{vibe.handle}/picture/"
    for who, status in ((dora, 403), (ana, 302)):
        upload = SimpleUploadedFile("fern.png", image())
        assert signed_in(who).post(address, {"picture": upload}).status_code == status
    version = Participant.objects.get(pk=vibe.participant_id).picture_version
    assert version
    assert f"/pictures/{vibe.participant_id}/{version}.webp" in signed_in(dora).get(f"{home}sidebar/").content.decode()
    refused = signed_in(ana).post(address, {"picture": SimpleUploadedFile("fern.png", PAYLOAD)})
    assert refused.status_code == 400
    assert "That is no PNG, JPEG or WebP picture." in refused.content.decode()
    assert "Choose a picture first" in signed_in(ana).post(address).content.decode()
    signed_in(ana).post(address, {"remove": "yes"})
    assert not Participant.objects.get(pk=vibe.participant_id).picture_version

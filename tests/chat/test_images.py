"""Images of messages: what may be one, what is kept of it, what its description does, and that it goes with its
message."""

import struct
import zlib
from dataclasses import asdict
from io import BytesIO

import pytest
from django.db import DatabaseError, IntegrityError, transaction
from PIL import Image as Pillow

from openvibe.base.models import Event
from openvibe.base.problems import Problem, Refused
from openvibe.chat.attachments import NewAttachment, make_file
from openvibe.chat.images import NewImage, make_image
from openvibe.chat.models import MAX_IMAGE_PIXELS, MAX_IMAGE_SIDE, Erasure, Image, Message, Thread
from openvibe.chat.queries import access_image
from openvibe.chat.services import delete_message, describe_image, post_message
from openvibe.workspaces.models import Member
from tests.factories import access, image_file


def encode(picture: Pillow.Image, form: str = "PNG", **options: object) -> bytes:
    output = BytesIO()
    picture.save(output, form, **options)
    return output.getvalue()


def pixels(image: NewImage) -> Pillow.Image:
    return Pillow.open(BytesIO(image.content))


def is_close(one: object, other: tuple[int, ...]) -> bool:
    assert isinstance(one, tuple)
    return all(abs(a - b) < 12 for a, b in zip(one, other, strict=True))


def png_that_says(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header promises so many pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF"])
def test_every_format_is_kept_as_pixels_alone(form: str) -> None:
    exif = Pillow.Exif()
    exif[0x010E] = "At home, 52.5 N"
    options = {} if form == "GIF" else {"exif": exif}
    file = make_file("a photo.png", image_file(form, (600, 300), **options) + b"<script>", "A red wall")
    assert isinstance(file, NewImage)
    kept = pixels(file)
    assert (kept.size, kept.mode, file.width, file.height) == ((600, 300), "RGB", 600, 300)
    kind = ("image/png", "PNG") if form in ("PNG", "GIF") else ("image/jpeg", "JPEG")
    assert (file.media_type, kept.format) == kind
    assert is_close(kept.getpixel((5, 5)), (255, 0, 0))
    for data in (file.content, file.thumbnail):
        assert not [text for text in (b"At home", b"<script>") if text in data]
    assert Pillow.open(BytesIO(file.thumbnail)).size == (480, 240)
    assert (file.name, file.description, file.size) == ("a photo.png", "A red wall", len(file.content))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_a_photo_that_lies_on_its_side_is_put_upright(form: str) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6
    picture = Pillow.new("RGB", (60, 30), "white")
    picture.paste("blue", (0, 0, 20, 30))  # on the left: upright it is above
    kept = pixels(make_image("p", encode(picture, form, exif=exif)))
    assert kept.size == (30, 60)
    assert is_close(kept.getpixel((15, 5)), (0, 0, 255))
    assert is_close(kept.getpixel((15, 50)), (255, 255, 255))
    assert not kept.getexif()


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_a_photo_of_40_megapixels_is_scaled(form: str) -> None:
    file = make_image("photo", image_file(form, (8_000, 5_000), "green"))
    assert max(file.width, file.height) <= MAX_IMAGE_SIDE
    assert MAX_IMAGE_PIXELS * 0.97 < file.width * file.height <= MAX_IMAGE_PIXELS
    assert abs(file.width / file.height - 1.6) < 0.01
    assert is_close(pixels(file).getpixel((100, 100)), (0, 128, 0))


def test_noise_is_kept_within_its_bytes() -> None:
    noise = Pillow.effect_noise((1_500, 1_400), 200).convert("RGB")
    file = make_image("noise.png", encode(noise))
    assert (file.media_type, file.size < 2 * 1024 * 1024) == ("image/jpeg", True)


@pytest.mark.parametrize("size", [(30_000, 1), (1, 4_000), (1, 1)])
def test_no_side_of_an_image_becomes_nothing(size: tuple[int, int]) -> None:
    file = make_image("line", image_file("PNG", size))
    assert (max(file.width, file.height), min(file.width, file.height)) == (min(max(size), MAX_IMAGE_SIDE), 1)


@pytest.mark.parametrize(
    ("picture", "form", "color"),
    [
        (Pillow.new("CMYK", (20, 20), (0, 255, 255, 0)), "JPEG", (255, 0, 0)),
        (Pillow.new("L", (20, 20), 128), "JPEG", (128, 128, 128)),
        (Pillow.new("I;16", (20, 20), 32_768), "PNG", (128, 128, 128)),
        (Pillow.new("P", (20, 20), 0), "PNG", (0, 0, 0)),
        (Pillow.new("1", (20, 20), 1), "PNG", (255, 255, 255)),
        (Pillow.new("LA", (20, 20), (0, 0)), "PNG", (255, 255, 255)),
        (Pillow.new("RGBA", (20, 20), (0, 0, 0, 0)), "PNG", (255, 255, 255)),
        (Pillow.new("RGBA", (20, 20), (255, 0, 0, 128)), "WEBP", (255, 127, 127)),
    ],
)
def test_every_kind_of_pixels_becomes_plain_colors(
    picture: Pillow.Image, form: str, color: tuple[int, int, int]
) -> None:
    kept = pixels(make_image("a", encode(picture, form)))
    assert (kept.mode, is_close(kept.getpixel((9, 9)), color)) == ("RGB", True)


def test_a_palette_with_a_transparent_color_stands_on_white() -> None:
    picture = Pillow.new("P", (20, 20), 1)
    picture.putpalette([0, 0, 0, 255, 0, 0])
    assert is_close(pixels(make_image("a", encode(picture, transparency=1))).getpixel((9, 9)), (255, 255, 255))


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_of_what_moves_the_first_frame_is_kept(form: str) -> None:
    frames = [Pillow.new("RGB", (30, 30), color) for color in ("red", "blue", "green")]
    kept = pixels(make_image("a", encode(frames[0], form, save_all=True, append_images=frames[1:], duration=100)))
    assert (getattr(kept, "n_frames", 1), is_close(kept.getpixel((9, 9)), (255, 0, 0))) == (1, True)


def test_a_huge_color_profile_is_left_out() -> None:
    data = image_file("JPEG", icc_profile=b"\0" * 3_000_000)
    file = make_image("a", data)
    assert len(data) > 3_000_000 > 30_000 > file.size


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (png_that_says(200_000, 200_000), "image_too_large"),
        (png_that_says(8_000, 8_000), "image_too_large"),
        (png_that_says(40_000, 2), "image_too_large"),
        (png_that_says(400, 400), "damaged_image"),
        (image_file("JPEG", (900, 900))[:-200], "damaged_image"),
        (encode(Pillow.effect_noise((90, 90), 50))[:2_000], "damaged_image"),
        (b"\x89PNG\r\n\x1a\n" + b"no image at all", "damaged_image"),
        (b"GIF89a <script>alert(1)</script>", "damaged_image"),
        (b"RIFF1234WEBP" + bytes(50), "damaged_image"),
        (image_file("BMP"), "not_an_image"),
        (b"II*\0" + bytes(100), "not_an_image"),
    ],
)
def test_what_is_no_image_is_refused_in_words(data: bytes, code: str) -> None:
    with pytest.raises(Problem) as refusal:
        make_file("photo.png", data)
    assert (refusal.value.code, refusal.value.field) == (code, "files")
    assert "“photo.png”" in refusal.value.message


def test_a_jpeg_of_endless_scans_is_not_decoded() -> None:
    data = image_file("JPEG", (3_000, 3_000), progressive=True)
    scan = data[data.rindex(b"\xff\xda") : -2]
    with pytest.raises(Problem) as refusal:
        make_image("a", data[:-2] + 400 * scan + data[-2:])
    assert refusal.value.code == "damaged_image"


def test_words_that_are_called_an_image_stay_a_file() -> None:
    file = make_file("photo.png", b"Not a photo.")
    assert isinstance(file, NewAttachment)
    assert (file.media_type, file.content) == ("text/plain", "Not a photo.")
    drawing = make_file("plan.svg", b"<svg onload='alert(1)'/>")
    assert isinstance(drawing, NewAttachment)


@pytest.mark.parametrize(
    ("text", "kept"),
    [("", ""), ("\u200b", ""), (" A wall,\n of\x00 brick ", "A wall, of brick"), ("é" * 1_000, "é" * 1_000)],
)
def test_a_description_stands_on_one_line(text: str, kept: str) -> None:
    assert make_image("a", image_file(), text).description == kept


def test_a_long_description_is_refused() -> None:
    with pytest.raises(Problem) as refusal:
        make_image("a", image_file(), "a" * 1_001)
    assert refusal.value.code == "too_long"


def post_image(thread: Thread, by: Member, description: str = "", color: str = "red") -> Image:
    file = make_file("wall.png", image_file(color=color), description)
    message = post_message(thread=thread, by=access(by), body="Look.", files=[file])
    return Image.objects.get(message=message)


@pytest.mark.django_db
def test_an_image_never_changes_but_for_its_description(thread: Thread, ana: Member) -> None:
    image = post_image(thread, ana)
    assert (image.thread_id, image.position) == (thread.pk, 1)
    for change in ({"content": b"x"}, {"width": 3}, {"name": "b"}):
        with pytest.raises(DatabaseError), transaction.atomic():
            Image.objects.filter(pk=image.pk).update(**change)
    new = asdict(make_image("b", image_file()))
    for wrong in ({"size": 3}, {"width": 9_999}, {"media_type": "image/webp"}, {"name": ""}, {"position": 6}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Image.objects.create(message=image.message, **{"position": 2, **new, **wrong})


@pytest.mark.django_db
def test_texts_and_images_of_a_message_share_their_places(thread: Thread, ana: Member) -> None:
    files = [make_file("a.png", image_file()), make_file("b.md", b"Words"), make_file("c.png", image_file())]
    message = post_message(thread=thread, by=access(ana), body="", files=files)
    assert message.body == "`a.png`, `b.md`, `c.png`"
    assert list(message.images.values_list("position", "name")) == [(1, "a.png"), (3, "c.png")]
    assert list(message.attachments.values_list("position", "name")) == [(2, "b.md")]


@pytest.mark.django_db
def test_its_author_says_what_an_image_shows_and_pages_hear_of_it(thread: Thread, ana: Member, ben: Member) -> None:
    image = post_image(thread, ana)
    with pytest.raises(Refused):
        describe_image(image=image, by=access(ben), description="A hedge")
    before = Event.objects.count()
    describe_image(image=image, by=access(ana), description=" A brick wall ")
    assert access_image(access(ana), image.pk).description == "A brick wall"
    event = Event.objects.latest("pk")
    assert (Event.objects.count(), event.kind, event.message_id) == (before + 1, "message_changed", image.message_id)
    assert not Erasure.objects.exists()
    describe_image(image=image, by=access(ana), description="A brick wall")
    assert Event.objects.count() == before + 1

    describe_image(image=image, by=access(ana), description="")
    assert "A brick wall" in Erasure.objects.get().texts


@pytest.mark.django_db
def test_an_image_goes_with_its_message(thread: Thread, ana: Member) -> None:
    image = post_image(thread, ana, "The vault code is tulip")
    delete_message(message=image.message, by=access(ana))
    assert not Image.objects.exists()
    assert "The vault code is tulip" in Erasure.objects.get().texts
    with pytest.raises(Problem):
        describe_image(image=image, by=access(ana), description="again")
    assert Message.objects.get().is_deleted

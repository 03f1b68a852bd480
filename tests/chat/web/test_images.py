"""Images through the browser's doors: shown small and whole to whoever sees the message, described by its author."""

from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from openvibe.chat.models import Image, Message, Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests.factories import access, attach, image_file, show

SignedIn = Callable[[Member], Client]


def test_an_image_is_sent_shown_and_saved(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    browser, address = signed_in(ana), f"{home}t/{thread.pk}/"
    photo = SimpleUploadedFile("<b>.png", image_file(size=(960, 480)), "text/plain")
    form = {"body": "Look", "files": [photo], "descriptions": ["A 'red' wall"]}
    assert browser.post(address, form, headers={"Accept": "application/json"}).status_code == 201
    image = Image.objects.get()

    page = browser.get(address).content.decode()
    assert f'href="{home}images/{image.pk}/" data-enlarge="&lt;b&gt;.png"' in page
    assert f'src="{home}images/{image.pk}/small/" alt="A &#x27;red&#x27; wall" width="480"' in page
    whole = browser.get(f"{home}images/{image.pk}/")
    assert (whole["Content-Type"], whole.content) == ("image/png", bytes(image.content))
    assert (whole["Cache-Control"], whole["X-Content-Type-Options"]) == ("private, no-cache", "nosniff")
    again = browser.get(f"{home}images/{image.pk}/", headers={"If-None-Match": whole["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert browser.get(f"{home}images/{image.pk}/small/")["Content-Type"] == "image/webp"


def test_who_may_not_see_the_message_sees_no_image(
    ana: Member, cleo: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = show(thread, ana)
    image = message.images.get()
    paths = [f"{home}images/{image.pk}/{rest}" for rest in ("", "small/", "description/")]
    assert [signed_in(cleo).get(path).status_code for path in paths] == [404, 404, 404]
    delete_message(message=message, by=access(ana))
    assert [signed_in(ana).get(path).status_code for path in paths] == [404, 404, 404]
    assert "images/" not in signed_in(ana).get(f"{home}t/{thread.pk}/").content.decode()


@pytest.mark.parametrize(
    ("text", "status", "kept"), [("A hedge", 302, "A hedge"), ("a" * 1_001, 400, ""), ("", 302, "")]
)
def test_its_author_describes_it(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn, text: str, status: int, kept: str
) -> None:
    image = show(thread, ana).images.get()
    address = f"{home}images/{image.pk}/description/"
    assert f'action="{address}"' in signed_in(ana).get(address).content.decode()
    answer = signed_in(ana).post(address, {"description": text})
    assert (answer.status_code, Image.objects.get().description) == (status, kept)
    assert Message.objects.get().edited_at is None


def test_words_that_are_called_an_image_say_so(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    attach(thread, ana, photo_png="Not a photo.")
    assert "text, shown as no image" in signed_in(ana).get(f"{home}t/{thread.pk}/").content.decode()

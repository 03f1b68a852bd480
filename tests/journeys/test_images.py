"""An image: described where it is attached, shown small, enlarged, described anew, and seen by the agent's model."""

import re

from playwright.sync_api import FilePayload, expect

from tests.factories import image_file
from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import say, start_thread


def test_an_image_is_described_enlarged_and_described_anew(people: People, installation: Installation) -> None:
    ana = people.ana()
    start_thread(ana, "The wall", "Here it comes.")
    photo = FilePayload(name="wall.png", mimeType="image/png", buffer=image_file(size=(1_200, 800)))
    ana.get_by_label("Attach files and images").set_input_files([photo])
    field = ana.get_by_label("Description of wall.png")
    field.fill("A red brick wall")
    field.press("Enter")
    expect(ana.locator("#composer-body")).to_be_focused()
    say(ana, "The wall.")
    link = ana.locator("#messages").get_by_role("link", name="Enlarge wall.png: A red brick wall")
    expect(link.locator("img")).to_have_js_property("naturalWidth", 480)

    link.press("Enter")
    dialog = ana.get_by_role("dialog", name="wall.png")
    expect(dialog.get_by_role("img", name="A red brick wall")).to_have_js_property("naturalWidth", 1_200)
    row, token = ana.locator("#messages .message[data-seq]").last, installation.token("ana")
    installation.api("PATCH", f"messages/{row.get_attribute('data-id')}/", token, {"body": "The wall, mended."})
    expect(row.locator(".prose")).to_have_text("The wall, mended.")  # another row stands there now
    ana.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(link).to_be_focused()
    link.click()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()

    ana.get_by_role("link", name="Edit the description of wall.png").click()
    ana.get_by_role("textbox", name="Description of wall.png").fill("A wall with a crack")
    ana.get_by_role("button", name="Save", exact=True).click()
    expect(ana.locator("#messages").get_by_role("link", name=re.compile("A wall with a crack"))).to_be_visible()

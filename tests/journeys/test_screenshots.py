"""The pictures of the documentation: each page shows what its caption names. `make screenshots` takes them anew."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.palette_png import take_picture
from tests.journeys.sample_thread import Scene
from tests.journeys.test_conversation import replies, say
from tests.operations.processes import wait_until

DOCS = Path(__file__).parents[2] / "docs"
IS_TAKING = os.environ.get("OPENVIBE_SCREENSHOTS") == "1"

MAKE = """
import json
from agents.agent.access import visible_to
from agents.models import Agent
from knowledge.services import suggest_entry
from openvibe.chat.models import Dive, Thread
meeting = Thread.objects.get(workspace__slug="willow", title="Spring planting")
vibe = Agent.objects.get(workspace__slug="willow", participant__handle="vibe")
suggest_entry(by=visible_to(vibe), topic="Watering the school roof",
              content="Drip hoses are tried on the school roof this year; the numbers decide in autumn.",
              why="Agreed in the meeting, and asked about twice since.")
print(json.dumps([meeting.pk, Dive.objects.get(thread__parent=meeting, result__isnull=False).pk]))
"""
RECURRING_JOBS = """
from django_celery_beat.models import PeriodicTask
print(list(PeriodicTask.objects.values_list("name", flat=True)))
"""
ANSWER = """\
Prune the roses in the **last week of March**, on every roof and not a day before. The Harbour roof, pruned in late \
March, had no damage from the frost of 14 March.

Jonas brings the mulch: twelve bags, once the van is back on Wednesday."""


class Place(NamedTuple):
    """Addresses below /w/willow/, and the page they are looked at with."""

    page: Page
    meeting: str
    dive: str
    scene: Scene

    def go(self, address: str) -> None:
        self.page.goto(address if address.startswith("/") else f"/w/willow/{address}")


class Picture(NamedTuple):
    """`open` leads to the page; `shows` are the elements that the picture's caption names."""

    file: str
    open: Callable[[Place], None]
    shows: tuple[str, ...]


def at(address: str) -> Callable[[Place], None]:
    return lambda place: place.go(address)


def open_context(place: Place) -> None:
    place.go(place.meeting)
    reply = replies(place.page).last
    reply.hover()
    reply.locator(".run-context").click()


def write_mention(place: Place) -> None:
    place.go(place.meeting)
    place.page.locator("#composer-body").press_sequentially("@vibe and who orders the yew?")


def press_thumb(place: Place) -> None:
    place.page.locator("#composer-body").fill("")
    reply = replies(place.page).last
    reply.get_by_role("button", name="Not helpful").click()
    reply.get_by_label("What should it do differently?").fill("Name the roofs one by one.")


def open_palette(place: Place) -> None:
    place.go(place.meeting)
    place.page.keyboard.press("Control+k")
    place.page.locator("#palette input").press_sequentially("sp")


PICTURES = (
    Picture("screenshot.png", open_context, ("#messages >> text=last week of March", "#panel >> text=Sections")),
    Picture("images/composer.png", write_mention, ("#composer-preview >> text=will read this thread",)),
    Picture("images/feedback.png", press_thumb, ("text=What was wrong?", "text=What should it do differently?")),
    Picture(
        "images/dive.png",
        lambda place: place.go(f"{place.meeting}?panel={place.dive}"),
        ("#panel >> text=And if March stays cold?", "#messages >> text=Roses are pruned in the last week of March"),
    ),
    Picture("images/knowledge.png", at("knowledge/"), ("text=Watering the school roof", "text=Topics")),
    Picture("images/review.png", at("knowledge/review/"), ("text=Watering the school roof", "text=/Accept/")),
    Picture(
        "images/work.png",
        lambda place: place.go(f"{place.scene.thread}?panel={place.scene.work}"),
        ("#panel >> text=Order bubble wrap for 80 euros", "#panel >> text=Never heat above 12 degrees."),
    ),
    Picture("images/memory.png", lambda place: place.go(place.scene.memory), ("text=Recent messages", "text=/Summar/")),
    Picture("images/palette.png", open_palette, ("#palette >> text=Spring planting",)),
    Picture("images/agent.png", at("agents/vibe/"), ("text=Who it is", "text=/What it may do/", "text=Activity")),
    Picture("images/soul.png", at("agents/vibe/soul/"), ("text=What is it for?", "text=Try it first")),
    Picture("images/level.png", at("agents/vibe/level/"), ("text=L1 Observer", "text=L4 Autonomous")),
    Picture("images/inbox.png", at(""), ("#main >> text=Spring planting", "text=Waiting for you")),
    Picture("images/tokens.png", at("tokens/"), ("text=New token", "text=It may")),
    Picture("images/audit.png", at("audit/"), ("text=Audit log", "text=Download as CSV")),
    Picture("images/jobs.png", at("/admin/django_celery_beat/periodictask/"), ("text=Last run", "text=/sweep/i")),
    Picture("images/admin.png", at("/admin/"), ("text=Tokens used today, against the daily cap",)),
)


def test_each_page_shows_what_its_caption_names(people: People, installation: Installation, scene: Scene) -> None:
    wait_until(lambda: "sweep" in installation.shell(RECURRING_JOBS), "the schedule")
    meeting, dive = json.loads(installation.shell(MAKE).splitlines()[-1])
    page = people.ana(viewport={"width": 1280, "height": 800}, color_scheme="light", reduced_motion="reduce")
    place = Place(page, f"t/{meeting}/", f"dive/{dive}/", scene)
    installation.model.says(ANSWER)
    place.go(place.meeting)
    say(page, "@vibe when do we prune the roses, and who brings the mulch?")
    expect(replies(page).last).to_contain_text("Jonas brings the mulch")
    expect(replies(page).last).to_have_attribute("data-state", "complete")
    for picture in PICTURES:
        picture.open(place)
        for part in picture.shows:
            expect(page.locator(f"{part} >> visible=true").first, picture.file).to_be_visible()
        if IS_TAKING:
            page.mouse.move(640, 2)  # no tooltip
            (DOCS / picture.file).write_bytes(take_picture(page))


def test_every_picture_stands_in_a_page() -> None:
    pages = (DOCS.parent / "README.md", *DOCS.glob("*.md"))
    links = [link for page in pages for link in re.findall(r"!\[[^]]+\]\(([^)]+)\)", page.read_text())]
    own = {link.removeprefix("docs/") for link in links if "images/screens/" not in link}
    assert own == {picture.file for picture in PICTURES}
    assert [picture.file for picture in PICTURES if not (DOCS / picture.file).exists()] == []

"""An answer as it is written and read: rendered from its first words on, and still where it is once it is whole."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import replies, start_thread
from tests.journeys.test_late_answers import WIDE, thread_of

BEGIN = """
from agents.models import Agent
from openvibe.chat.models import Thread
from openvibe.chat.services import create_reply
author = Agent.objects.get(workspace__slug="willow", participant__handle="vibe").participant
reply = create_reply(thread=Thread.objects.get(pk={thread}), author=author, client_id="journey:{thread}")
print(reply.pk)
"""
GROW = """
from openvibe.chat.models import Message
Message.objects.filter(pk={reply}).update(body={body!r})
"""
FINISH = """
from django.db import transaction
from openvibe.chat.models import Message
from openvibe.chat.services import finish_reply
with transaction.atomic():
    finish_reply(reply=Message.objects.get(pk={reply}), body={body!r}, state="complete")
"""
LINE = "def prune(rose):  # a comment that is so long that no feed is wide enough to show all of it in a line"
CODE = "\n".join(f"{LINE}\n    return {number}" for number in range(30))
PARTS = (
    "## Pruning\n\nCut **in March",
    "**, with `care`:\n\n1. The old\n2. The ",
    "weak\n\n| rose | month |\n|---|---|\n| Gal",
    "lica | March |\n\nSo \\(x^2\\) and\n\n\\[\nx = \\frac{a}{b}\n\\]\n\n```python\ndef first():",
    f"\n    pass\n{CODE}",
    "\n```\n\n- [x] done\n- [ ] to do\n\nIt costs $5, in C:\\Users\\_ana, שלום.\n\nThe **last",
    "** words.",
)
PLACES = """reply => {
  const prose = reply.querySelector(".prose");
  const { top, height } = prose.getBoundingClientRect();
  const parts = [...prose.querySelectorAll("p, h2, li, figure, table, .formula")];
  return parts.map((part) => part.getBoundingClientRect().top - top).concat(height);
}"""
LINE_HEIGHT = 22  # pixels, about
SHOWN_AFTER = (
    ".tail strong:text-is('in March')",
    ".tail ol > li:nth-child(2)",
    ".tail td:text-is('Gal')",
    ".tail .code-block .k:text-is('def')",
    ".tail .code-block.is-long > .code-more",
    ".tail strong:text-is('last')",
    ".tail:has-text('words.')",
)


def begin(people: People, installation: Installation, title: str) -> tuple[Locator, int]:
    """A reply that is being written, on Ana's page, and its id."""
    ana = people.ana(viewport=WIDE)
    start_thread(ana, title, "Hello.")
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    reply = int(installation.shell(BEGIN.format(thread=thread_of(ana))).split()[-1])
    expect(replies(ana)).to_have_attribute("data-state", "writing")
    return replies(ana), reply


def test_an_answer_renders_while_it_streams_and_stays_where_it_is(
    people: People, installation: Installation, tmp_path: Path
) -> None:
    row, reply = begin(people, installation, "Written now")
    asked: list[str] = []
    row.page.on("request", lambda request: asked.append(request.url))
    body = ""
    for part, shown in zip(PARTS, SHOWN_AFTER, strict=True):
        body += part
        installation.shell(GROW.format(reply=reply, body=body))
        expect(row).to_have_attribute("data-length", str(len(body)))
        expect(row.locator(shown)).to_be_attached()
    expect(row.locator("math")).to_have_count(2)
    row.page.screenshot(path=tmp_path / "writing.png")
    before: list[float] = row.evaluate(PLACES)
    assert not [url for url in asked if "/m/" in url]  # all came with the stream

    installation.shell(FINISH.format(reply=reply, body=body))

    expect(row).to_have_attribute("data-state", "complete")
    after: list[float] = row.evaluate(PLACES)
    assert len(before) == len(after)
    assert max(abs(one - other) for one, other in zip(before, after, strict=True)) < LINE_HEIGHT
    for theme in ("light", "dark"):
        row.page.emulate_media(color_scheme=theme)
        row.page.screenshot(path=tmp_path / f"{theme}.png")


def test_code_is_copied_wrapped_and_unfolded(people: People, installation: Installation) -> None:
    row, reply = begin(people, installation, "Code to copy")
    page, body = row.page, f"```python\n{CODE}\n"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    installation.shell(GROW.format(reply=reply, body=body))
    block = row.locator(".code-block")
    expect(block.locator("figcaption")).to_contain_text("Python")
    block.get_by_role("button", name="Wrap").click()
    block.get_by_role("button", name="Show all 60 lines").click()
    installation.shell(GROW.format(reply=reply, body=f"{body}print(1)\n"))
    expect(block).to_contain_text("print(1)")
    expect(block.get_by_role("button", name="Wrap")).to_have_attribute("aria-pressed", "true")

    installation.shell(FINISH.format(reply=reply, body=f"{body}print(1)\n```\n"))

    expect(row).to_have_attribute("data-state", "complete")
    expect(block.get_by_role("button", name="Wrap")).to_have_attribute("aria-pressed", "true")
    expect(block.get_by_role("button", name="Show fewer lines")).to_have_attribute("aria-expanded", "true")
    tall = height_of(block)
    block.get_by_role("button", name="Show fewer lines").click()
    block.get_by_role("button", name="Wrap").click()
    assert height_of(block) < tall
    block.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Code copied.")).to_be_visible()
    assert page.evaluate("() => navigator.clipboard.readText()") == f"{CODE}\nprint(1)\n"


def height_of(block: Locator) -> Any:
    return block.evaluate("block => block.getBoundingClientRect().height")

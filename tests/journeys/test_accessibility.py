"""States of pages that anybody can use: axe finds nothing, in both themes and on a narrow screen. What needs no
hand to be seen is looked at by tests/test_every_page.py."""

import re
from contextlib import nullcontext
from typing import Literal

from playwright.sync_api import Page, expect

from tests.engines.llm.model_server import Answer
from tests.journeys.axe import WHOLE, scrolls_sideways, violations
from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.sample_thread import Scene
from tests.journeys.test_conversation import replies, say, start_thread

PLUGINS = "/admin/memory/memoryplugin/"
OF_UNFOLD = ("serious", "critical")
"""What is mended in the admin: its templates are django-unfold's, whose minor and moderate findings (headings that skip
a level, landmarks without a name) are its own."""


UNDER_A_MENU = {**WHOLE, "rules": {**WHOLE["rules"], "target-size": {"enabled": False}}}
"""What an open menu covers in part is no smaller than it was: it can be used again once the menu is closed."""
Sight = tuple[Literal["light", "dark"], int]
"""A theme and a width in pixels."""


def look(page: Page, sight: Sight, address: str) -> None:
    """Looks at the page that is open, which is not loaded anew for another theme or width."""
    scheme, width = sight
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    found = violations(page, impacts=OF_UNFOLD if "/admin/" in page.url else ())
    assert found == [], f"{address}, {scheme}, {width}px"
    assert not scrolls_sideways(page), f"{address} scrolls sideways at {width}px"


SIGHTS: tuple[Sight, ...] = (("light", 1280), ("dark", 360))


def test_no_violation_in_an_answer_and_what_opens_from_it(people: People, installation: Installation) -> None:
    go_on = installation.model.holds_back_after_first_words("Use **twelve** litres.\n\n```python\nprint('water')\n```")
    page = people.ana(viewport={"width": 1280, "height": 900})
    start_thread(page, "Looks", "The greenhouse needs `12` litres a day.")
    say(page, "@vibe how much water?")
    expect(replies(page)).to_have_attribute("data-state", "writing")
    for sight in SIGHTS:
        look(page, sight, "while it is written")
    go_on.set()
    expect(replies(page)).to_have_attribute("data-state", "complete")
    page.set_viewport_size({"width": 1280, "height": 900})
    replies(page).hover()
    for sight in SIGHTS:
        look(page, sight, "the bar of a message")
    links = [replies(page).locator(link) for link in (".run-context", ".run-details")]
    for link in [str(link.get_attribute("href")) for link in links]:
        page.goto(link)
        for tab in (None, *tabs(page)):
            if tab:
                page.goto(tab)
            for sight in SIGHTS:
                look(page, sight, tab or link)


EVERY_FORM = """# A heading

| bed | litres |
|---|---|
| roses | 12 |

$$x^2$$

Inline \\(y\\), `code`, ~~gone~~ and a note[^1].

```python
print("water")
```

<details><summary>More</summary>

Words.

</details>

- [ ] to do
- [x] done

> quoted :tada:

```mermaid
graph TD
```

[^1]: The note."""


def test_no_violation_in_all_that_markdown_makes(people: People) -> None:
    page = people.ana(viewport={"width": 1280, "height": 900})
    start_thread(page, "Every form", EVERY_FORM)
    page.locator("#messages summary", has_text="More").click()
    for sight in SIGHTS:
        look(page, sight, "Markdown")


def test_no_violation_in_an_answer_that_failed(people: People, installation: Installation) -> None:
    page = people.ana(viewport={"width": 1280, "height": 900})
    start_thread(page, "Failed", "How much water?")
    installation.model.answer = Answer(status=401, error={"message": "This key ended yesterday."})
    say(page, "@vibe how much?")
    expect(replies(page)).to_have_attribute("data-state", "failed")
    for sight in SIGHTS:
        look(page, sight, "an answer that failed")


def tabs(page: Page) -> list[str]:
    """The addresses to which the tabs of a viewer lead."""
    return [str(one.get_attribute("href")) for one in page.locator(".tabs a").all()]


def test_no_violation_in_what_opens_over_a_page(people: People, installation: Installation) -> None:
    page = people.ana(viewport={"width": 1280, "height": 900})
    start_thread(page, "Opened", "Who knows?")

    def open_by_key(key: str, what: str) -> None:
        page.locator("#main").focus()
        page.keyboard.press(key)
        expect(page.locator(what)).to_be_visible()

    page.locator("#messages a.author").first.click()
    expect(page.locator("#card")).to_be_visible()
    look(page, SIGHTS[0], "the card of a person")
    page.keyboard.press("Escape")
    for key, what in (("?", "#help"), ("Control+k", "#palette")):
        open_by_key(key, what)
        look(page, SIGHTS[0], what)
        page.keyboard.press("Escape")
    for summary in (".switcher summary", ".feed-head .notify-menu summary"):
        page.locator(summary).first.click()
        assert violations(page, UNDER_A_MENU) == [], summary
        page.locator(summary).first.click()
    page.locator("#composer-body").fill("@vi")
    expect(page.get_by_role("listbox")).to_be_visible()
    look(page, SIGHTS[0], "whom one may mention")
    page.route(page.url.partition("#")[0], lambda route: route.abort() if route.request.method == "POST" else None)
    page.keyboard.press("Escape")
    say(page, "Not to be sent.")
    expect(page.locator("[data-pending]")).to_contain_text("Not sent yet")
    for sight in SIGHTS:
        look(page, sight, "a message that was not sent")
    page.goto("/w/willow/channels/new/")
    page.get_by_label("Name").fill("general")
    page.keyboard.press("Enter")
    expect(page.get_by_text("There is a channel #general already.")).to_be_focused()
    for sight in SIGHTS:
        look(page, sight, "a form with an error")
    page.goto("/w/willow/profile/")
    page.get_by_role("button", name="Save", exact=False).first.click()
    expect(page.locator(".toast, .notice").first).to_be_visible()
    for sight in SIGHTS:
        look(page, sight, "a note that it was saved")


def test_memory_and_work_can_be_used_by_anybody(people: People, scene: Scene) -> None:
    page = people.ana(viewport={"width": 900, "height": 900})
    alone = (scene.memory, scene.summary, scene.work, scene.handoff, scene.agent, scene.versions)
    beside = [f"{scene.thread}?panel={part}" for part in (scene.memory, scene.work)]
    for address in (*alone, *beside, PLUGINS):
        page.goto(address if address == PLUGINS else f"/w/willow/{address}")
        if address in beside:
            expect(page.locator("#panel").get_by_role("heading", level=1)).to_be_visible()
        with page.expect_response(re.compile("inside")) if address == scene.memory else nullcontext():
            open_everything(page)
        for sight in (("light", 900), ("dark", 360)):
            look(page, sight, address)
            if address in beside:
                box, width = page.locator("#panel").bounding_box(), sight[1]
                assert box
                assert (box["x"], box["width"]) == (width - min(width, 400), min(width, 400))
        page.set_viewport_size({"width": 900, "height": 900})


def open_everything(page: Page) -> None:
    page.locator("#main details, #panel details").evaluate_all("all => all.forEach((one) => { one.open = true })")


def test_memory_and_work_by_keyboard(people: People, scene: Scene) -> None:
    page = people.ana()
    page.goto(f"/w/willow/{scene.thread}")
    panel = page.locator("#panel")
    memory = page.get_by_role("link", name="Memory", exact=True)
    memory.focus()
    page.keyboard.press("Enter")
    expect(panel).to_be_focused()
    leaves = panel.locator("summary", has_text="Summaries of messages")
    leaves.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(panel.locator(".map-words")).to_contain_text("the lemon tree is well")
    page.keyboard.press("Escape")
    expect(memory).to_be_focused()

    page.get_by_role("link", name=re.compile(r"^Work\b")).press("Enter")
    panel.locator("summary", has_text="Add").first.focus()
    page.keyboard.press("Enter")
    expect(panel.get_by_label("Add a constraint").last).to_be_focused()
    page.keyboard.type("No candles.")
    page.keyboard.press("Control+Enter")
    row = panel.locator(".work-row:not(.is-closed)").filter(has_text="No candles.")
    expect(row).to_be_visible()
    expect(panel.locator("summary[aria-label='Add a constraint']")).to_be_focused()
    row.get_by_role("button", name="Drop").press("Enter")
    expect(row).to_be_hidden()
    expect(panel.get_by_role("region", name="Constraints")).to_be_focused()

    page.goto(f"/w/willow/{scene.agent}")
    page.get_by_role("button", name="Make read-only: team").press("Enter")
    expect(page.locator("#block-team")).to_be_focused()


def test_by_keyboard_alone(people: People, installation: Installation) -> None:
    installation.model.says("By keyboard.")
    page = people.ana()
    start_thread(page, "Keyboard", "Hello.")
    page.locator("body").press("Escape")
    page.locator("#composer-body").focus()
    page.keyboard.type("@vi")
    expect(page.get_by_role("listbox")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.type("can you hear me?")
    page.keyboard.press("Enter")
    expect(replies(page)).to_contain_text("By keyboard.")
    page.locator("#main").focus()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    menu = page.locator(".feed-head .notify-menu")
    menu.locator("summary").press("Enter")
    page.keyboard.press("ArrowDown")
    expect(menu.locator(":focus")).to_have_text("All messages")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+Tab")
    expect(menu).not_to_have_attribute("open", "")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()

    page.goto("/w/willow/agents/vibe/level/")
    page.get_by_label("Why?").fill(" ")
    page.keyboard.press("Enter")
    expect(page.locator("[aria-invalid]")).to_be_focused()
    page.goto("/w/willow/channels/new/")
    page.get_by_label("Name").fill("general")
    page.keyboard.press("Enter")
    expect(page.get_by_text("There is a channel #general already.")).to_be_focused()


READ_ALOUD = """
- heading "Read aloud" [level=1]
- link "Dives"
- link "Work"
- link "Memory"
- region "Messages":
  - list:
    - listitem:
      - article /Ana, \\d\\d:\\d\\d/:
        - paragraph:
          - link "@vibe"
          - text: hello
        - group /Message of Ana, \\d\\d:\\d\\d/:
          - link /Reply. Ana, \\d/
          - link /Dive. Ana, \\d/
          - link /Pin to knowledge. Ana, \\d/
          - link /Add reaction. Ana, \\d/
          - button /Save message. Ana, \\d/
    - listitem:
      - article /Vibe, \\d\\d:\\d\\d/:
        - paragraph: Good morning.
        - button /Helpful. Vibe, \\d/
        - button /Not helpful. Vibe, \\d/
        - group /Message of Vibe, \\d\\d:\\d\\d/:
          - link /Reply. Vibe, \\d/
- textbox "Message to Read aloud"
- button "Attach files and images"
- button "Send"
"""
HEAR = """() => {
  const said = document.querySelector("#status");
  const note = () => { document.body.dataset.heard = `${document.body.dataset.heard ?? ""}${said.textContent}. `; };
  new MutationObserver(note).observe(said, { childList: true });
}"""


def test_a_thread_read_aloud(people: People, installation: Installation) -> None:
    """The order of what a screen reader says, names that tell one control from another, and news said once."""
    go_on = installation.model.holds_back("Good morning.")
    page = people.ana(viewport={"width": 900, "height": 700})
    start_thread(page, "Read aloud", "Hello.")
    page.evaluate(HEAR)
    say(page, "@vibe hello")
    expect(page.locator("body")).to_have_attribute("data-heard", "Vibe is writing. ")
    go_on.set()
    expect(replies(page)).to_have_attribute("data-state", "complete")
    expect(page.locator("body")).to_have_attribute("data-heard", "Vibe is writing. Vibe replied. ")
    expect(page.locator("#main")).to_match_aria_snapshot(READ_ALOUD)
    replies(page).get_by_role("link", name="Why this answer?").click()
    expect(page.locator("#panel")).to_be_focused()
    page.keyboard.press("Shift+Tab")  # what lies behind the panel is shown once the keyboard reaches it
    expect(page.locator("#panel")).to_be_hidden()
    expect(page.locator("#composer").locator(":focus")).to_be_in_viewport(ratio=1)


def test_the_command_palette_goes_searches_and_does(people: People, installation: Installation) -> None:
    page = people.ana()
    start_thread(page, "Peonies in pots", "They like it dry.")
    thread = page.url
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator("#composer-body").focus()
    page.keyboard.press("Control+k")
    palette = page.locator("#palette")
    expect(palette.get_by_role("option", selected=True)).to_have_count(1)
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("#composer-body")).to_be_focused()

    page.goto("/w/willow/")
    page.get_by_role("button", name="Menu").first.click()
    page.get_by_role("button", name="Jump to").click()
    expect(palette.get_by_role("option").first).to_contain_text("Peonies in pots")  # where she was
    page.keyboard.type("peonies")
    expect(palette.get_by_role("option")).to_have_text([re.compile("Peonies in pots"), re.compile("Search messages")])
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(re.escape(thread.partition("#")[0])))

    page.keyboard.press("Control+k")
    page.keyboard.type("repotting")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/**")
    expect(page.get_by_role("searchbox")).to_have_value("repotting")
    page.keyboard.press("Control+k")
    page.keyboard.type("keyboard help")
    page.keyboard.press("Enter")
    expect(page.locator("#help")).to_be_visible()

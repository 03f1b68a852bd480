"""Memory as people see it: compacted and opened again, searched, forgotten on demand, recalled by another plugin."""

import re

from playwright.sync_api import Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.memory_steps import KEY, answer_to, context_of, gist, go_to, import_conversation, in_panel
from tests.journeys.test_conversation import start_thread


def test_a_long_conversation_is_compacted_searched_and_forgets(people: People, installation: Installation) -> None:
    model = installation.model
    model.summary = gist
    import_conversation(installation, "The rose garden")
    ana = people.ana()
    go_to(ana, "The rose garden")
    compact_and_open(ana)

    model.calls_first("memory", action="search", query="third beehive")
    model.says("Behind the third beehive.")
    reply = answer_to(ana, "where is the key?")
    assert KEY in model.last_prompt, "the tool's result was not given back"
    viewer = context_of(ana, reply)
    viewer.locator(".share-name").get_by_text("Conversation", exact=True).click()
    expect(viewer).to_contain_text("They spoke about roses and hollyhock.")
    viewer.get_by_role("link", name="Tool calls (1)").click()
    viewer.get_by_text("memory", exact=True).click()
    expect(viewer.locator(".run-call")).to_contain_text("Allowed")
    expect(viewer.locator(".run-call")).to_contain_text('"query": "third beehive"')
    expect(viewer.locator(".run-call")).to_contain_text(f"#3 Basil, 2026-03-01T03:00:00+00:00: {KEY}")

    forget_the_code(ana)
    answer_to(ana, "how do I open the gate?")
    assert "They spoke about roses." in model.last_prompt
    assert "hollyhock" not in model.last_prompt


def test_plugins_are_switched_in_the_middle_of_a_conversation(people: People, installation: Installation) -> None:
    model = installation.model
    ana, admin = people.ana(), people.ana()
    start_thread(ana, "The orchard", "We planted forty quinces.")
    answer_to(ana, "which trees are they?")

    switch_to(admin, "Simple memory", happens="this ends:")
    answer_to(ana, "and how many?")
    assert "We planted forty quinces." in model.last_prompt
    panel = in_panel(ana, "Memory")
    expect(panel).to_contain_text("5 messages need")
    expect(panel.get_by_role("button", name="Compact now")).to_have_count(0)

    switch_to(admin, "Lossless memory", happens="this is new:")
    answer_to(ana, "and when?")
    for said in ("We planted forty quinces.", "which trees are they?", "and how many?"):
        assert said in model.last_prompt
    panel = in_panel(ana, "Memory")
    expect(panel).to_contain_text("7 messages need")
    expect(panel.get_by_role("button", name="Compact now")).to_be_visible()
    ana.goto(f"{ana.url.split('?')[0]}preview/vibe/")
    ana.locator(".share-name").get_by_text("Conversation", exact=True).click()
    expect(ana.get_by_text("We planted forty quinces.")).to_be_visible()


def switch_to(admin: Page, title: str, *, happens: str) -> None:
    """The switch in the admin: it says what happens, and one click more does it."""
    admin.goto("/admin/memory/memoryplugin/")
    admin.get_by_role("button", name=f"Enable {title}").click()
    expect(admin.get_by_text("No message is changed or deleted")).to_be_visible()
    expect(admin.get_by_text(happens)).to_be_visible()
    expect(admin.get_by_role("listitem").filter(has_text="old messages are summarised")).to_be_visible()
    admin.get_by_role("button", name=f"Yes, enable {title}").click()
    expect(admin.get_by_text("Every message stays in reach.")).to_be_visible()
    expect(admin.get_by_role("button", name=f"Enable {title}")).to_have_count(0)


def compact_and_open(page: Page) -> None:
    panel = in_panel(page, "Memory")
    expect(panel).to_contain_text("80 messages need")
    expect(panel).to_contain_text("Each compaction is drawn here")
    panel.get_by_role("button", name="Compact everything").click()
    expect(panel).to_contain_text(
        re.compile(r"Last\s+compacted\s+on\s+.+:\s+[\d,]+\s+→\s+[\d,]+\s+tokens,\s+1\s+new\s+summary\.")
    )
    expect(page.locator("#status")).to_contain_text(re.compile(r"Last\s+compacted"))  # said to who listens
    before, after = re.findall(r"[\d,]+", panel.locator(".map-state strong").last.inner_text())
    assert int(after.replace(",", "")) < int(before.replace(",", ""))
    expect(panel.locator(".plot-mark")).to_have_count(1)
    expect(panel.locator(".map-sentence")).to_contain_text("1 summary of 60 older ones")
    panel.locator(".map-shelves").get_by_text("Summaries of messages", exact=True).click()
    panel.get_by_text(re.compile(r"^\s*60\s+messages")).click()
    expect(panel).to_contain_text("They spoke about roses and hollyhock.")
    expect(panel.locator(".map-original").first).to_contain_text("Bed 1: the roses")
    panel.get_by_role("searchbox").fill("third beehive")
    panel.get_by_role("button", name="Search").click()
    expect(panel.get_by_role("status")).to_have_text("1 found.")
    panel.get_by_role("link", name="message 3").click()
    expect(page.locator("#m-3")).to_contain_text(KEY)
    expect(page).to_have_url(re.compile(r"#m-3$"))


def forget_the_code(page: Page) -> None:
    """Deletes a message that stands in a summary: its words leave the open map, and no later prompt holds them."""
    panel = in_panel(page, "Memory")
    panel.locator(".map-shelves").get_by_text("Summaries of messages", exact=True).click()
    panel.get_by_text(re.compile(r"^\s*60\s+messages")).click()
    expect(panel.locator(".map-words")).to_contain_text("They spoke about roses and hollyhock.")
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("#m-5").hover()
    page.locator("#m-5 .message-more > summary").click()
    page.locator("#m-5").get_by_role("link", name="Delete").click()
    expect(page.locator("#m-5")).to_contain_text("This message was deleted.")
    expect(panel.locator(".map-words")).to_contain_text("They spoke about roses.")
    expect(panel.locator(".map-words")).not_to_contain_text("hollyhock")
    expect(panel).not_to_contain_text("hollyhock")

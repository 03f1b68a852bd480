"""Two people write to one another, rows follow, and what they link to shows itself to whoever may see it."""

import re

from playwright.sync_api import Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import channel_link, say, start_thread


def make_private_channel(page: Page, name: str) -> None:
    page.goto("/w/willow/channels/new/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Private").check()
    page.get_by_role("button", name="Make channel").click()


def test_two_write_to_one_another_and_links_show_what_each_may_see(people: People, installation: Installation) -> None:
    ana = people.ana()
    finn = people.member("Finn")
    start_thread(ana, "Where the tools are", "In the shed by the gate.")
    shed = ana.url
    ana.goto("/w/willow/?show=unread")
    expect(ana.locator('body[data-live="on"]')).to_be_attached()

    finn.goto("/w/willow/members/")
    finn.locator("main").get_by_role("link", name="Message Ana").click()
    expect(finn.get_by_label("Message to Ana")).to_be_focused()
    finn.get_by_label("Message to Ana").fill("Where are the tools?")
    finn.get_by_role("button", name="Send").click()
    expect(finn.get_by_role("heading", name="Ana", level=1)).to_be_visible()

    sidebar = ana.get_by_role("navigation", name="Workspace")
    expect(sidebar.locator('a[data-channel].is-unread[href*="/t/"]')).to_contain_text("Finn")
    line = ana.locator("#inbox .thread-item", has_text="Finn")
    expect(line).to_contain_text("Where are the tools?")
    say(finn, "And the ladder?")
    expect(line.locator("[data-preview]")).to_have_text("And the ladder?")
    line.get_by_role("link").click()
    expect(ana.locator("#messages")).to_contain_text("Where are the tools?")

    say(ana, f"See {shed} for that.")
    preview = finn.locator(".link-preview")
    expect(finn.locator(".message", has=preview)).to_contain_text("Where the tools are")
    make_private_channel(ana, "finns-birthday")
    start_thread(ana, "A surprise", "Cake.", channel="finns-birthday")
    secret = ana.url
    ana.goto(finn.url)
    say(ana, f"Never mind {secret} here.")
    surprise = ana.locator(".message", has=ana.locator(".link-preview", has_text="#finns-birthday"))
    expect(surprise).to_have_text(re.compile("^(?!.*A surprise.*A surprise).*A surprise", re.DOTALL))  # once
    expect(finn.locator("#messages")).to_contain_text("Never mind")
    expect(finn.locator('a[data-preview^="thread-"]')).to_have_count(2)  # it was asked for, and nothing came
    expect(preview).to_have_count(1)


def test_rows_follow_what_is_said_and_read_elsewhere(people: People, installation: Installation) -> None:
    ana = people.ana()
    people.member("Gwen")
    gwen = installation.token("gwen")
    ana.goto("/w/willow/channels/new/")
    ana.get_by_label("Name").fill("beds")
    ana.get_by_role("button", name="Make channel").click()
    start_thread(ana, "By the wall", "Dig.", channel="beds")
    address = ana.url
    start_thread(ana, "By the pond", "Rake.", channel="beds")
    ana.goto("/w/willow/")
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    rows, channel = ana.locator("#inbox .thread-item"), channel_link(ana, "beds")

    for count, words in enumerate(("@ana, how deep?", "And @ana, how wide?"), start=1):
        thread_id = address.rstrip("/").rpartition("/")[2]
        installation.api("POST", f"threads/{thread_id}/messages/", gwen, {"body": words})
        expect(rows.first.get_by_role("link")).to_have_accessible_name(
            re.compile(rf"^By the wall ?, .* new \d\d:\d\d Gwen:? {re.escape(words)} #beds {count + 1} messages$")
        )
        expect(channel).to_have_accessible_name(re.compile(rf"^beds ?, something new {count} mentions$"))
        expect(channel_link(ana, "Mentions")).to_have_accessible_name(re.compile(r"^Mentions \d+ unread$"))

    other = people.ana()
    other.goto(address)
    expect(other.locator("#messages")).to_contain_text("how wide?")
    expect(channel).to_have_accessible_name("beds")
    expect(rows.filter(has_text="By the wall").get_by_role("link")).to_have_accessible_name(
        re.compile(r"^By the wall \d")
    )

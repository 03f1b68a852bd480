"""Filters and fields that complete what is typed, in a browser without JavaScript."""

import pytest
from playwright.sync_api import Page, expect

from tests.journeys.conftest import People, sign_in
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import start_thread

KNOWN = """
from knowledge.services import create_entry
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
ana = member_access(Member.objects.get(workspace__slug="willow", participant__handle="ana"))
create_entry(by=ana, topic="Slug fence", content="Copper tape keeps slugs off.", tags=["fences"])
create_entry(by=ana, topic="Bird net", content="It hangs over the cherries.", tags=["nets"])
"""


@pytest.fixture
def plain(people: People, installation: Installation) -> Page:
    page = people.page(java_script_enabled=False, viewport={"width": 360, "height": 780})
    sign_in(page, installation.email, installation.password)
    return page


def test_knowledge_is_filtered(plain: Page, installation: Installation) -> None:
    installation.shell(KNOWN)
    plain.goto("/w/willow/knowledge/")
    main = plain.locator("#main")
    plain.get_by_label("Tag", exact=True).fill("fences")
    plain.get_by_label("Owner, by handle").fill("@Ana")
    plain.get_by_role("button", name="Search", exact=True).click()
    expect(main).to_contain_text("Copper tape")
    expect(main).not_to_contain_text("cherries")
    expect(plain.get_by_label("Owner, by handle")).to_have_value("@Ana")
    plain.get_by_label("Owner, by handle").fill("nobody")
    plain.get_by_role("button", name="Search", exact=True).click()
    expect(main).to_contain_text("Nobody who can own an entry has the handle “nobody”.")


def test_messages_are_searched_with_filters(plain: Page, people: People) -> None:
    ana = people.ana()
    ana.goto("/w/willow/")
    start_thread(ana, "Compost", "The heap is warm.")
    plain.goto("/w/willow/search/?q=heap")
    expect(plain.locator("#main")).to_contain_text("is warm")
    plain.get_by_label("To", exact=True).fill("2001-01-01")
    plain.get_by_role("button", name="Search", exact=True).click()
    expect(plain.locator("#main")).not_to_contain_text("is warm")


def test_an_entry_is_given_an_owner_by_handle(plain: Page) -> None:
    plain.goto("/w/willow/knowledge/new/")
    plain.get_by_label("Topic").fill("Gate key")
    plain.get_by_label("Content").fill("Under the pot.")
    plain.locator("summary").filter(has_text="owner").click()
    owner = plain.get_by_label("Owner, by handle")
    expect(owner).to_have_value("ana")
    owner.fill("nobody")
    plain.get_by_role("button", name="Save", exact=True).click()
    expect(plain.locator("#main")).to_contain_text("Nobody who can own an entry has the handle “nobody”.")
    expect(plain.get_by_label("Content")).to_have_value("Under the pot.")
    owner.fill("@ana")
    plain.get_by_role("button", name="Save", exact=True).click()
    expect(plain.get_by_role("heading", name="Gate key")).to_be_visible()

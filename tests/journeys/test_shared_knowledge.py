"""What one channel decided reaches agents of another through knowledge alone: pinned, doubted, replaced, expired.

The other channel is the owner's own: restricted knowledge is told where everybody may read it."""

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.journeys.axe import scrolls_sideways, violations
from tests.journeys.conftest import People
from tests.journeys.installation import Installation, Steered
from tests.journeys.memory_steps import answer_to
from tests.journeys.test_accessibility import open_everything
from tests.journeys.test_conversation import say, start_thread
from tests.journeys.test_dives import DRAFT, answered, dived, headline
from tests.journeys.test_knowledge import BEGIN, QUEUE

MOSS = """
from agents.agent.services import create_agent
from openvibe.chat.services import add_to_channel, create_channel
moss = create_agent(by=ana, workspace=member.workspace, handle="moss", name="Moss",
                    soul="identity: {name: Moss, role: Orders what is needed}")
orders = create_channel(by=ana, name="orders", is_private=True)
add_to_channel(channel=orders, participant=moss.participant, by=ana)
create_entry(by=ana, topic="What water barrels cost", content="A barrel is 41 euros.", visibility="restricted")
print(moss.pk)
"""
EXPIRED = """
Entry.objects.filter(topic__startswith="Water", status="active").update(expires_at=timezone.now())
"""
WAY = """
from agents.models import Run
thread = create_thread(channel=Channel.objects.get(workspace__slug="willow", name="general"), by=ana, title="In March")
message = post_message(thread=thread, by=ana, body="Prune in March")
Message.objects.filter(pk=message.pk).update(kind="dive_result")
DiveResult.objects.create(message=message, headline="Prune in March", bullets=["The roses", "The pears", "The vine"],
    agent=vibe.participant, published_by=member.participant)
print(json.dumps([thread.pk, message.pk, Run.objects.latest("pk").pk]))
"""
SAID, REPLACED, SECRET = "Twelve litres a visit", "Twenty litres a visit", "41 euros"
RAW, TOPICS = "Mr. Quill next door", ("Water needed", "What water barrels cost")
QUESTION = "@moss how much water do we need a week, and what does a water barrel cost?"


def asked(page: Page, model: Steered) -> tuple[Locator, set[str]]:
    """Asks Moss in the thread that is open; returns its reply, and what of all this its last prompt held."""
    replies = page.locator('#messages > li[data-handle="moss"]')
    before = replies.count()
    say(page, QUESTION)
    expect(replies.nth(before)).to_have_attribute("data-state", "complete")
    return replies.nth(before), {each for each in (SAID, REPLACED, SECRET, RAW, *TOPICS) if each in model.last_prompt}


def raise_trust(admin: Page, agent: str, level: int) -> None:
    admin.goto(f"/admin/agents/agent/{agent}/trust/")
    admin.get_by_label(re.compile(rf"L{level}\s+")).check()
    admin.get_by_label("Why?").fill("It earned it.")
    admin.get_by_role("button", name="Set the level").click()
    expect(admin.get_by_role("row").filter(has_text=re.compile(rf"L{level} \w+\s*now"))).to_be_visible()


def test_what_one_channel_decided_reaches_another_through_knowledge_alone(
    people: People, installation: Installation
) -> None:
    model = installation.model
    moss = installation.shell(BEGIN + MOSS).splitlines()[-1]
    ana, admin = people.ana(), people.ana()
    dora = people.member("Dorothea")
    pinned_by(dora, model, watched_by=ana)

    start_thread(ana, "What do we order?", "Let us order for next month.", channel="orders")
    for level in (1, 2):
        raise_trust(admin, moss, level) if level > 1 else None
        model.says(f"At L{level} I know nothing of it.")
        model.calls_first("knowledge_search", query="water a week, water barrel")
        assert asked(ana, model)[1] == set()
        assert "knowledge_search, which agents have from L3 on" in model.last_prompt

    raise_trust(admin, moss, 3)
    model.says("Twelve litres, twice.")
    reply, texts = asked(ana, model)
    assert texts == {SAID, TOPICS[0]}
    fenced = re.search(rf'<data source="knowledge"[^>]*>\n[^<]*{SAID}[^<]*</data>', model.last_prompt)
    assert fenced, model.last_prompt
    assert 'decided_by="Dorothea"' in fenced[0]
    assert re.search(r'freshness="expires \d{4}-\d\d-\d\d"', fenced[0])
    raise_trust(admin, moss, 4)
    assert asked(ana, model)[1] == {SAID, SECRET, *TOPICS}

    said_wrong(ana, reply)
    assert asked(ana, model)[1] == {SECRET, TOPICS[1]}
    renewed_by_key(dora)
    assert asked(ana, model)[1] == {SAID, SECRET, *TOPICS}
    superseded(dora)
    assert asked(ana, model)[1] == {REPLACED, SECRET, *TOPICS}
    expired(installation, dora)
    assert asked(ana, model)[1] == {SECRET, TOPICS[1]}


def pinned_by(dora: Page, model: Steered, watched_by: Page) -> None:
    """Dora dives, publishes what the agent drafted and she changed, and pins it in two clicks; Ana sees it live."""
    dora.goto("/w/willow/")
    start_thread(dora, "Watering in summer", f"{RAW} says the beds are thirsty. How much do they need?")
    watched_by.goto(dora.url)
    go_on = model.holds_back_after_first_words("Twelve litres, twice a week.")
    panel = dived(dora, "How many litres a week?")
    expect(panel.locator('.prose[aria-busy="true"]')).to_contain_text("Twelve")
    go_on.set()
    answered(panel, 0, "Twelve litres, twice a week.")
    model.says(DRAFT)
    panel.get_by_role("link", name="Publish…").click()
    panel.get_by_role("button", name="Draft with Vibe").click()
    expect(headline(panel)).to_have_value("Water twice a week")
    headline(panel).fill("Water needed: two visits a week")
    expect(panel.locator("#publish-preview")).to_contain_text("Water needed: two visits a week")
    panel.get_by_role("button", name="Publish", exact=True).click()
    card = watched_by.locator("#messages .result")
    expect(card).to_contain_text("Water needed: two visits a week")
    expect(headline(panel)).to_have_count(0)  # else she would be asked whether what stands there may go
    dora.locator("#messages .result").get_by_role("link", name="Pin to knowledge", exact=True).click()
    panel.get_by_role("button", name="Save", exact=True).click()
    expect(card).to_contain_text("Pinned as Water needed")


def said_wrong(page: Page, reply: Locator) -> None:
    """Says in the viewer of a reply that the entry it had before it was wrong."""
    reply.hover()
    reply.get_by_role("link", name=re.compile("Why this answer")).click()
    panel = page.locator("#panel")
    expect(panel.get_by_role("heading", name="Why this answer?")).to_be_visible()
    panel.locator("summary").filter(has_text=re.compile(r"^\s*Knowledge")).click()
    used = panel.locator(".knowledge-used").filter(has_text="Water needed")
    used.get_by_text("This was wrong").click()
    used.get_by_label(re.compile(r"What\s+is\s+wrong\s+with\s+it")).fill("The beds were dug up.")
    used.get_by_role("button", name="Send to review").click()
    expect(used).to_contain_text("Sent to review: Dorothea decides.")


def renewed_by_key(owner: Page) -> None:
    """The renewal: its owner finds it in her inbox and in the queue, and lets it hold as long again."""
    owner.goto("/w/willow/")
    expect(owner.get_by_role("region", name="Waiting for you")).to_contain_text("“Water needed” was said to be wrong.")
    owner.goto("/w/willow/knowledge/review/")
    item = owner.locator("[data-review]").filter(has_text="Water needed")
    expect(item).to_contain_text("The beds were dug up.")
    item.focus()
    owner.keyboard.press("r")
    expect(item).to_have_count(0)
    expect(owner.locator(".review-state")).to_contain_text("Renewed: “Water needed”.")
    owner.goto("/w/willow/")
    expect(owner.get_by_text("was said to be wrong")).to_have_count(0)


def superseded(page: Page) -> None:
    page.goto("/w/willow/knowledge/?q=litres+of+water")
    page.get_by_role("link", name="Water needed").first.click()
    page.get_by_role("link", name="Supersede").click()
    page.get_by_label("Content").fill(f"- {REPLACED}, since the new beds")
    page.get_by_role("button", name="Supersede", exact=True).click()
    expect(page.locator(".knowledge-entry")).to_contain_text(REPLACED)


def expired(installation: Installation, page: Page) -> None:
    """The expiry: its instant is over, and no job has been: nobody is told it any more."""
    token = installation.token("ana")
    search_path = "knowledge/search/?q=litres+of+water+a+visit"
    assert REPLACED in str(installation.api("GET", search_path, token))
    installation.shell(BEGIN + EXPIRED)
    assert REPLACED not in str(installation.api("GET", search_path, token))
    page.goto("/w/willow/knowledge/?q=litres+of+water+a+visit")
    expect(page.get_by_role("main")).not_to_contain_text(REPLACED)
    page.goto("/w/willow/knowledge/?freshness=expired")
    head = page.locator("#main .entry-head").filter(has_text="Water needed").first
    expect(head).to_contain_text(re.compile(r"expired (just now|\d+ min ago)"))


def test_from_a_message_to_knowledge_by_keyboard(people: People, installation: Installation) -> None:
    page = people.ana()
    start_thread(page, "Keys to the shed", "Where do the keys of the shed hang?")
    panel = dived(page, "Where?")
    answered(panel, 0, "All right.")
    panel.get_by_role("link", name="Publish…").press("Enter")
    expect(headline(panel)).to_be_focused()
    for text in ("Shed keys: by the door", "On the left", "At eye level", "Both of them"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
        if text != "Both of them" and page.evaluate("document.activeElement.tagName") == "BUTTON":
            page.keyboard.press("Tab")
    panel.get_by_role("button", name="Publish", exact=True).press("Enter")
    card = page.locator("#messages > li.is-result")
    expect(card).to_contain_text("Both of them")
    expect(headline(panel)).to_have_count(0)  # else it would be asked whether what stands there may go
    card.focus()
    page.keyboard.press("p")
    topic = panel.get_by_role("combobox", name="Topic")
    expect(topic).to_have_value("Shed keys")
    topic.press("Enter")
    expect(card).to_contain_text("Pinned as Shed keys")
    expect(panel.locator(".knowledge-entry")).to_be_focused()


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1280), ("light", 360)])
def test_the_way_to_knowledge_can_be_used_by_anybody(
    people: People, installation: Installation, scheme: str, width: int
) -> None:
    page = people.ana(color_scheme=scheme)
    start_thread(page, f"The way in {scheme}", "What do we know?")
    answer_to(page, "what do we know?")
    thread, message, run = json.loads(installation.shell(BEGIN + QUEUE + WAY).splitlines()[-1])
    page.set_viewport_size({"width": width, "height": 900})
    panels = [f"t/{thread}/?panel={part}" for part in (f"m/{message}/dive/", f"m/{message}/pin/")]
    pages = (f"m/{message}/dive/", f"m/{message}/pin/", f"t/{thread}/dives/", f"runs/{run}/context/")
    lists = ("", "knowledge/", "knowledge/review/", "search/?q=when+are+the+roses+pruned")
    for address in (*panels, *pages, *lists):
        page.goto(f"/w/willow/{address}")
        if address in panels:
            expect(page.locator("#panel").get_by_role("heading", level=1)).to_be_visible()
        open_everything(page)
        assert violations(page) == [], address
        assert not scrolls_sideways(page), address

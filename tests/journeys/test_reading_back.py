"""Somebody reads what was said long ago in a thread while others go on in it."""

import re

from playwright.sync_api import expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.late_answers import Held, hear, wait_for_event
from tests.journeys.memory_steps import go_to, import_conversation
from tests.journeys.test_away import LIVE
from tests.journeys.test_conversation import say

HOTHOUSE = """
from openvibe.chat.models import Channel
from openvibe.workspaces.models import Member
from tests.factories import make_thread, say_all
ana = Member.objects.get(workspace__slug="willow", participant__handle="ana")
thread = make_thread(Channel.objects.get(workspace__slug="willow", name="general"), ana, "The hothouse")
say_all(thread, ana, [f"Bed {number}: the roses have come on since last week." for number in range(1, 461)])
"""
OTHERS = """
from agents.agent.access import visible_to
from agents.models import Agent
from openvibe.chat.models import Thread
from openvibe.chat.services import post_message
vibe = visible_to(Agent.objects.get(workspace__slug="willow", participant__handle="vibe"))
post_message(thread=Thread.objects.get(title="The hothouse"), by=vibe, body="Somebody left the door open.")
"""
LONG_REPLY = """
from agents.models import Agent
from openvibe.chat.models import Channel
from openvibe.chat.services import create_reply
from openvibe.workspaces.models import Member
from tests.factories import make_thread, say_all
ana = Member.objects.get(workspace__slug="willow", participant__handle="ana")
vibe = Agent.objects.get(workspace__slug="willow", participant__handle="vibe")
thread = make_thread(Channel.objects.get(workspace__slug="willow", name="general"), ana, "The long reply")
create_reply(thread=thread, author=vibe.participant, client_id="run:long")
say_all(thread, ana, [f"Meanwhile, {number}." for number in range(60)])
"""
GROWS = """
from openvibe.chat.models import Message
Message.objects.filter(client_id="run:long").update(body="Word by word."[:{length}])
"""


def test_a_reply_that_grows_far_above_is_not_asked_for(people: People, installation: Installation) -> None:
    installation.shell(LONG_REPLY)
    ana, other = people.ana(), people.ana()
    hear(ana)
    go_to(ana, "The long reply")
    other.goto(ana.url)
    expect(ana.locator("#m-61")).to_be_in_viewport()
    expect(ana.locator("#m-1")).to_have_count(0)
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    asked = list[str]()
    ana.on("request", lambda request: asked.append(request.url))
    for count, length in enumerate((4, 7, 13), start=1):  # the first is told whole
        installation.shell(GROWS.format(length=length))
        wait_for_event(ana, "message_changed", count)
    say(other, "Has it ended?")
    expect(ana.locator("#m-62")).to_contain_text("Has it ended?")
    told_else = "knowledge_changed" in ana.evaluate("window.told")  # by a job, of what an earlier test left
    of_else = ("/read/", "/sidebar/") if told_else else ("/read/",)
    assert [url for url in asked if not any(part in url for part in of_else)] == []


def test_what_is_said_while_later_messages_load_is_shown(people: People, installation: Installation) -> None:
    import_conversation(installation, "The nursery")
    ana, other = people.ana(), people.ana()
    for page in (ana, other):
        go_to(page, "The nursery")
    later = Held(ana, re.compile(r"\?after_seq=\d+$"))
    ana.goto(f"{ana.url.split('?')[0]}?at=3#m-3")
    expect(ana.locator("#m-3")).to_be_in_viewport()
    ana.locator("[data-newer]").scroll_into_view_if_needed()
    route, answer = later.wait_for_answer()
    hear(ana)
    say(other, "A frost is coming tonight.")
    expect(other.locator("#m-81")).to_contain_text("A frost is coming tonight.")
    wait_for_event(ana, "message_posted")
    route.fulfill(response=answer)
    expect(ana.locator("#m-80")).to_be_attached()
    expect(ana.locator("#m-81")).to_contain_text("A frost is coming tonight.")


def test_a_long_way_up_keeps_the_place_and_whoever_writes_is_led_to_the_newest(
    people: People, installation: Installation
) -> None:
    installation.shell(HOTHOUSE)
    ana = people.ana()
    go_to(ana, "The hothouse")
    rows = ana.locator("#messages .message[data-seq]")
    for top in range(411, 11, -50):
        first = ana.locator(f"#m-{top}")
        first.wait_for(state="attached")  # `expect` would describe all of the long page each time it looks in vain
        before = first.evaluate("row => { row.scrollIntoView(); return row.getBoundingClientRect().top }")
        ana.locator(f"#m-{top - 50}").wait_for(state="attached")
        assert abs(first.evaluate("row => row.getBoundingClientRect().top") - before) < 1
        assert rows.count() <= 400
    installation.shell(OTHERS)
    expect(ana.locator("#newer")).to_have_text("1 new ↓")
    expect(ana.locator("#m-61")).to_be_in_viewport()

    say(ana, "Are these still the same beds?")
    expect(ana.locator("#m-462")).to_contain_text("Are these still the same beds?")
    expect(ana.locator("#m-462")).to_be_in_viewport()
    expect(ana.locator("#m-461")).to_contain_text("Somebody left the door open.")
    expect(ana.locator("#m-61")).to_have_count(0)
    expect(ana.locator(".is-pending")).to_have_count(0)

    ana.goto(f"{ana.url.split('?')[0]}?at=3#m-3")
    expect(ana.locator("#m-3")).to_be_in_viewport()
    say(ana, "And this one?")
    expect(ana.locator("#m-463")).to_be_in_viewport()
    assert "at=" not in ana.url
    ana.locator("[data-older]").scroll_into_view_if_needed()
    expect(ana.locator("#m-402")).to_be_attached()


ORANGERY = """
from openvibe.chat.models import Channel
from openvibe.workspaces.models import Member
from tests.factories import make_thread, say_all
ana = Member.objects.get(workspace__slug="willow", participant__handle="ana")
thread = make_thread(Channel.objects.get(workspace__slug="willow", name="general"), ana, {title!r})
say_all(thread, ana, [f"Tree {{number}}. " + "It stands well. " * (number % 23) for number in range(1, 121)])
"""
ALL_LAID_OUT = "() => document.querySelectorAll('#messages > .message:not(.is-laid-out)').length === 0"
TWO_FRAMES = "() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))"
HEIGHTS = """() => {
  const scroller = document.querySelector("#scroller");
  const rows = [...document.querySelectorAll("#messages > .message")];
  const isSkipped = (row) => !row.querySelector(".prose").checkVisibility({ contentVisibilityAuto: true });
  const [skipped, before] = [rows.filter(isSkipped).length, scroller.scrollHeight];
  rows.forEach((row) => row.classList.remove("is-laid-out"));
  const after = scroller.scrollHeight;
  rows.forEach((row) => row.classList.add("is-laid-out"));
  return { rows: rows.length, skipped, before, after };
}"""


def test_rows_out_of_sight_are_not_laid_out_and_are_as_high_as_they_are(
    people: People, installation: Installation
) -> None:
    installation.shell(ORANGERY.format(title="The orangery"))
    ana = people.ana()
    go_to(ana, "The orangery")
    expect(ana.locator("#m-120")).to_be_in_viewport()
    ana.locator("#scroller").evaluate("(scroller) => { scroller.scrollTop = 0; }")
    expect(ana.locator("#m-30")).to_be_attached()
    for width in (1280, 900):
        ana.set_viewport_size({"width": width, "height": 720})
        ana.evaluate(TWO_FRAMES)  # the page was told
        ana.wait_for_function(ALL_LAID_OUT)
        heights = ana.evaluate(HEIGHTS)
        assert heights["before"] == heights["after"]
        assert heights["skipped"] > 20


READ_UP_TO_90 = """
from openvibe.chat.models import Thread
from openvibe.chat.services import mark_read
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
reader = Member.objects.get(workspace__slug="willow", participant__handle="ottoline")
mark_read(thread=Thread.objects.get(title="The palm house"), by=member_access(reader), seq=90)
"""
RECORD_FRAMES = """
window.places = [];
const record = () => {
  const scroller = document.getElementById("scroller");
  if (document.querySelector("#messages > .message")) window.places.push(scroller.scrollTop);
  requestAnimationFrame(record);
};
requestAnimationFrame(record);
"""


def test_a_thread_is_painted_where_it_begins_and_does_not_jump(people: People, installation: Installation) -> None:
    installation.shell(ORANGERY.format(title="The palm house"))
    ana = people.ana()
    go_to(ana, "The palm house")
    address = ana.url.split("?")[0]
    ana.add_init_script(RECORD_FRAMES)
    reader = people.member("Ottoline")
    reader.add_init_script(RECORD_FRAMES)
    installation.shell(READ_UP_TO_90)
    for page, query, row in (
        (ana, "", "#m-120"),
        (ana, "?at=100", "#m-100"),
        (ana, "?at=100#m-100", "#m-100"),
        (reader, "", "#new"),
    ):
        page.goto("about:blank")
        page.goto(f"{address}{query}")
        expect(page.locator(LIVE)).to_be_attached()
        page.evaluate(TWO_FRAMES)
        places = page.evaluate("window.places")
        assert places == [places[0]] * len(places), query
        expect(page.locator(row)).to_be_in_viewport()

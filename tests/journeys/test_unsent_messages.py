"""What somebody wrote and no server took: it goes out once, in its order, or stands where she finds all of it."""

import re
from contextlib import suppress

import pytest
from playwright.sync_api import Error, FilePayload, Page, Route, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.late_answers import Held
from tests.journeys.test_conversation import ROOM, channel_link, say, start_thread
from tests.journeys.test_late_answers import WIDE, thread_of, write
from tests.journeys.test_many_pages import KEPT_LETTERS, LIVE, another
from tests.operations.processes import wait_until

LONG = "Nobody wants to write this again. " * 30 + "The end."
FILE = FilePayload(name="plan.txt", mimeType="text/plain", buffer=b"Roses.")
SINGLE_ROOM = f"""{ROOM}
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
channel = make_channel(ana, {{name!r}}, private=True)
member = Member.objects.get(user__email={{email!r}})
add_to_channel(channel=channel, participant=member.participant, by=member_access(ana))
print(make_thread(channel, ana, "A room").pk)
"""
CLOSE_ROOM = f"""{ROOM}
from openvibe.chat.services import remove_from_channel
from openvibe.workspaces.services import remove_member
member = Member.objects.get(user__email={{email!r}})
if {{removed!r}}:
    remove_member(member=member, by=member_access(ana))
else:
    channel = Channel.objects.get(name={{name!r}})
    remove_from_channel(channel=channel, participant=member.participant, by=member_access(ana))
"""
MAKE_MEMBER = f"""{ROOM}
from openvibe.workspaces.services import update_member_role
member = Member.objects.get(user__email={{email!r}})
update_member_role(member=member, role="member", by=member_access(ana))
"""
FORBIDS = {
    "localStorage": """
        const set = Storage.prototype.setItem;
        Storage.prototype.setItem = function (key, value) {
          if (key.startsWith("outbox-")) throw new DOMException("It is full.", "QuotaExceededError");
          set.call(this, key, value);
        };""",
    "sessionStorage": """
        Object.defineProperty(window, "sessionStorage", {
          get() { throw new DOMException("It is forbidden.", "SecurityError"); },
        });""",
}
"""Scripts that act as browsers do whose storage is full, or that were told to keep nothing."""
NOTE_ORDER = """() => {
  window.order = [];
  const { request } = LockManager.prototype;
  const { setItem } = Storage.prototype;
  LockManager.prototype.request = function (name, ...more) {
    if (name.startsWith("openvibe:letter-")) window.order.push("locked");
    return request.call(this, name, ...more);
  };
  Storage.prototype.setItem = function (key, value) {
    if (key.startsWith("outbox-")) window.order.push("kept");
    return setItem.call(this, key, value);
  };
}"""


def refuse_posts(page: Page, address: str) -> None:
    page.route(address, lambda route: route.abort() if route.request.method == "POST" else route.fallback())


def lose_answer(route: Route) -> None:
    """What was sent is stored, and the answer lost."""
    if route.request.method == "POST":
        route.fetch()
        route.abort()
    else:
        route.fallback()


@pytest.mark.parametrize(
    ("status", "answer"),
    [(200, "{}"), (200, "null"), (200, "<h1>Sign in to this network</h1>"), (408, "It did not arrive in time.")],
)
def test_what_something_else_answered_is_sent_again(people: People, status: int, answer: str) -> None:
    ana = people.ana()
    start_thread(ana, f"A network that answers {status} {answer[:4]}", "Hello.")
    address = ana.url

    def answer_itself(route: Route) -> None:
        if route.request.method == "POST":
            route.fulfill(status=status, body=answer, content_type="application/json")
        else:
            route.fallback()

    ana.route(address, answer_itself)
    say(ana, "From a train.")
    expect(ana.locator("[data-pending]")).to_contain_text("Not sent yet")
    ana.unroute(address)
    expect(ana.locator("#messages .message[data-seq]").last).to_contain_text("From a train.")
    expect(ana.locator("[data-pending]")).to_have_count(0)


def test_what_is_written_while_something_waits_comes_after_it(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "In its order", "Hello.")
    address = ana.url
    ana.route(address, lambda route: route.abort() if "First" in (route.request.post_data or "") else route.fallback())
    for words in ("First.", "Second."):
        say(ana, words)
        expect(ana.locator("#messages > li").last).to_contain_text("Not sent yet")
    ana.unroute(address)
    expect(ana.locator("[data-pending]")).to_have_count(0)
    expect(ana.locator("#messages .message[data-seq] .prose")).to_have_text(["Hello.", "First.", "Second."])


@pytest.mark.parametrize("files", [[], [FILE]])
def test_what_hangs_on_a_lost_connection_goes_out_over_the_next_one(people: People, files: list[FilePayload]) -> None:
    ana = people.ana()
    start_thread(ana, f"Hanging with {len(files)} files", "Hello.")
    page = ana.context.new_page()
    page.clock.install()
    page.goto(ana.url)
    expect(page.locator(LIVE)).to_be_attached()
    sent = Held(page, ana.url, "POST")
    page.locator('#composer input[type="file"]').set_input_files(files)
    say(page, "First.")
    sent.wait()
    say(page, "Second.")
    page.clock.fast_forward("00:10")
    page.evaluate("document.dispatchEvent(new Event('openvibe:connected'))")
    expect(page.locator("#messages .message[data-seq] .prose")).to_have_text(["Hello.", "First.", "Second."])
    expect(page.locator("[data-pending]")).to_have_count(0)


def test_no_other_page_takes_what_this_one_is_about_to_send(people: People) -> None:
    """Others hear that it is kept: by then it is locked."""
    ana = people.ana()
    start_thread(ana, "Mine to send", "Hello.")
    ana.evaluate(NOTE_ORDER)
    say(ana, "Mine.")
    expect(ana.locator("#messages .message[data-seq]").last).to_contain_text("Mine.")
    assert ana.evaluate("window.order")[:2] == ["locked", "kept"]


def test_a_message_whose_answer_was_lost_is_not_said_to_be_unsent(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "A lost answer", "Hello.")
    page = another(ana.context, ana.url)
    page.route(ana.url, lose_answer)
    page.locator('#composer input[type="file"]').set_input_files(FILE)  # it could not be sent again
    say(page, "The plan.")
    expect(page.locator("#messages .message[data-seq]").last).to_contain_text("The plan.")
    wait_until(lambda: page.evaluate(KEPT_LETTERS) == [], "it is not kept any more")
    expect(page.locator("[data-pending]")).to_have_count(0)


SAY_MUCH = f"""{ROOM}
from openvibe.chat.models import Thread
from openvibe.chat.services import post_message
thread = Thread.objects.get(pk={{thread}})
for number in range(120):
    post_message(thread=thread, by=member_access(ana), body=f"More {{{{number}}}}.")
"""


@pytest.mark.parametrize("where", ["inbox", "thread"])
def test_no_later_page_says_that_a_stored_message_with_files_was_not_sent(
    people: People, installation: Installation, where: str
) -> None:
    """The message's answer was lost, and its page was left before anything else told of it."""
    ana = people.ana()
    start_thread(ana, f"A lost answer, {where}", "Hello.")
    page, address, thread = ana.context.new_page(), ana.url, thread_of(ana)
    page.route("**/events/**", lambda route: route.abort())
    page.goto(address)
    posts = list[Route]()
    page.route(address, lambda route: posts.append(route) if route.request.method == "POST" else route.fallback())
    page.locator('#composer input[type="file"]').set_input_files(FILE)
    say(page, "The plan.")
    wait_until(lambda: page.evaluate("1") and posts, "it is sent")
    assert posts[0].fetch().status == 201
    page.close()
    ana.goto("about:blank")
    if where == "thread":  # it stands further up than what the page shows
        installation.shell(SAY_MUCH.format(thread=thread))
    ana.goto({"inbox": "/w/willow/", "thread": address}[where])
    wait_until(lambda: ana.evaluate(KEPT_LETTERS) == [], "it is not kept any more")
    expect(ana.locator(".toast, .send-problem")).to_have_count(0)


def test_a_newer_draft_outlives_what_another_page_left(people: People) -> None:
    """The taken over message begins with the same words, and no answer says that it was stored."""
    ana = people.ana()
    start_thread(ana, "A newer draft", "Hello.")
    address = ana.url
    refuse_posts(ana, address)
    say(ana, "First thing.")
    expect(ana.locator("[data-pending]")).to_contain_text("Not sent yet")
    page = another(ana.context, address)
    write(page, "First")
    page.route(address, lose_answer)
    ana.close()
    expect(page.locator("#messages .message[data-seq]").last).to_contain_text("First thing.")
    elsewhere = people.ana()
    elsewhere.goto(address)
    for each in (elsewhere, page):
        expect(each.locator("#composer-body")).to_have_value("First")


def test_a_draft_that_another_page_sent_is_not_offered_again(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "One draft, two pages", "Hello.")
    write(ana, "Only once.")
    page = another(ana.context, ana.url)
    expect(page.locator("#composer-body")).to_have_value("Only once.")
    ana.locator("#composer-body").press("Enter")
    expect(page.locator("#messages .message[data-seq]").last).to_contain_text("Only once.")
    expect(page.locator("#composer-body")).to_have_value("")


def test_what_another_page_sent_is_nothing_to_choose_any_more(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Chosen by sending", "Hello.")
    page = another(ana.context, ana.url)
    write(ana, "One text.")
    page.locator("#composer-body").fill("Another text.")
    expect(page.locator(".draft-other")).to_have_text("One text.")
    ana.locator("#composer-body").press("Enter")
    expect(page.locator(".draft-choice")).to_have_count(0)
    expect(page.get_by_text("Draft saved")).to_be_visible()
    page.reload()
    expect(page.locator("#composer-body")).to_have_value("Another text.")


def test_a_message_in_a_dive_whose_answer_was_lost_is_not_offered_again(people: People) -> None:
    ana = people.ana(viewport=WIDE)
    start_thread(ana, "A lost answer in a dive", "Hello.")
    ana.locator("#messages > li").focus()
    ana.keyboard.press("d")
    ana.locator("[data-start-body]").fill("Look deeper")
    ana.keyboard.press("Enter")
    rows, field = ana.locator("#dive-messages .message[data-seq]"), ana.locator("#dive-body")
    expect(rows.last).to_have_attribute("data-state", "complete")
    ana.route("**/dive/*/", lose_answer)
    field.fill("Only once.")
    with ana.expect_event("requestfailed"):
        field.press("Enter")
    expect(rows.filter(has_text="Only once.")).to_have_count(1)
    expect(field).to_have_value("")
    expect(ana.locator("#dive .form-problem")).to_have_count(0)


@pytest.mark.parametrize("fault", ["broken server", "deleted thread"])
def test_what_cannot_be_sent_from_elsewhere_stands_there_in_full(
    people: People, installation: Installation, fault: str
) -> None:
    ana = people.ana()
    start_thread(ana, f"Left with a {fault}", "Hello.")
    address, thread = ana.url, thread_of(ana)
    refuse_posts(ana, address)
    say(ana, LONG)
    expect(ana.locator("[data-pending]")).to_contain_text("Not sent yet")
    page = ana.context.new_page()
    if fault == "broken server":
        people.server_breaks = True
        page.route(
            address, lambda route: route.fulfill(status=500) if route.request.method == "POST" else route.fallback()
        )
    else:
        installation.shell(f"from openvibe.chat.models import Thread; Thread.objects.get(pk={thread}).delete()")
    ana.close()
    page.goto("/w/willow/")
    note = page.locator(".toast")
    expect(note.locator("blockquote")).to_have_text(LONG)
    page.reload()
    expect(note.locator("blockquote")).to_have_text(LONG)
    expect(note.get_by_role("link", name="Go to its thread")).to_have_count(int(fault == "broken server"))
    note.get_by_role("button", name="Throw it away").click()
    assert page.evaluate(KEPT_LETTERS) == []


def test_a_page_whose_form_key_is_old_keeps_the_message_until_it_is_loaded_anew(
    people: People, installation: Installation
) -> None:
    ana = people.ana()
    start_thread(ana, "An old form key", "Hello.")
    ana.context.add_cookies([{"name": "csrftoken", "value": "a" * 32, "url": installation.url}])  # as a sign-in does
    say(ana, "Still here.")
    expect(ana.locator("[data-pending]")).to_contain_text("Reload it, and it is sent.")
    ana.reload()
    expect(ana.locator("#messages .message[data-seq]").last).to_contain_text("Still here.")
    expect(ana.locator("#composer-body")).to_have_value("")


def test_what_is_typed_without_a_server_outlives_a_crash(people: People) -> None:
    """The page is told nothing, as on a phone that needs its memory for something else."""
    ana = people.ana()
    start_thread(ana, "A crash", "Hello.")
    page = another(ana.context, ana.url)
    page.route("**/draft/", lambda route: route.abort())
    page.locator("#composer-body").fill("Typed in a tunnel")
    expect(page.locator("[data-saved]")).to_contain_text("offline")
    with suppress(Error):
        page.goto("chrome://crash")
    ana.reload()
    expect(ana.locator("#composer-body")).to_have_value("Typed in a tunnel")


@pytest.mark.parametrize("storage", FORBIDS)
def test_a_browser_that_keeps_nothing_asks_before_a_message_is_lost(people: People, storage: str) -> None:
    ana = people.ana()
    start_thread(ana, f"Without {storage}", "Hello.")
    page = ana.context.new_page()
    page.add_init_script(FORBIDS[storage])
    page.goto(ana.url)
    expect(page.locator(LIVE)).to_be_attached()
    refuse_posts(page, ana.url)
    say(page, "On its way.")
    expect(page.locator("[data-pending]")).to_contain_text("Not sent yet")
    if storage == "localStorage":
        with page.expect_event("dialog") as question:
            page.close(run_before_unload=True)
        assert question.value.type == "beforeunload"
        question.value.dismiss()
    page.unroute(ana.url)
    expect(page.locator("#messages .message[data-seq]").last).to_contain_text("On its way.")


@pytest.mark.parametrize("is_removed", [True, False])
def test_whoever_loses_access_can_copy_what_was_not_sent(
    people: People, installation: Installation, is_removed: bool
) -> None:
    name = f"Gast{is_removed}"
    page, email, room = people.member(name), f"{name}@example.org".lower(), f"room-{is_removed}".lower()
    address = f"/w/willow/t/{installation.shell(SINGLE_ROOM.format(name=room, email=email))}/"
    page.goto(address)
    expect(page.locator(LIVE)).to_be_attached()
    sent = Held(page, f"**{address}", "POST")
    say(page, "On its way.")
    sent.wait()
    page.route("**/draft/", lambda route: None)  # however long it stands there, no server has it
    page.locator("#composer-body").fill("Half a thought")
    installation.shell(CLOSE_ROOM.format(removed=is_removed, email=email, name=room))
    fields = page.locator(".gone").get_by_role("textbox", name="What you wrote was not sent")
    expect(fields).to_have_count(2)
    for field, text in zip(fields.all(), ("On its way.", "Half a thought"), strict=True):
        expect(field).to_have_value(text)
    with page.expect_response(f"**{address}"):
        sent.routes[0].continue_()
    if is_removed:
        return
    page.unroute("**/draft/")
    page.goto("/w/willow/")
    notes = page.locator(".toast")
    expect(notes.filter(has_text="A message of yours was not sent.").locator("blockquote")).to_have_text("On its way.")
    draft = notes.filter(has_text="What you had begun to write as a message cannot be sent any more.")
    expect(draft.locator("blockquote")).to_have_text("Half a thought")
    draft.get_by_role("button", name="Throw it away").click()
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('draft-'))") == []


def test_whoever_may_not_change_a_channel_any_more_can_copy_all_that_was_typed(
    people: People, installation: Installation
) -> None:
    page = people.member("Hilda", role="admin")
    page.goto("/w/willow/")
    channel_link(page, "general").click()
    page.get_by_role("link", name="Channel settings").click()
    expect(page.locator(LIVE)).to_be_attached()
    page.get_by_role("textbox", name=re.compile(r"^\s*Name")).fill("greenhouse")
    page.get_by_label("What it is for").fill("All that grows under glass.")
    installation.shell(MAKE_MEMBER.format(email="hilda@example.org"))
    fields = page.locator(".gone").get_by_role("textbox", name="What you wrote was not sent")
    expect(fields).to_have_count(2)
    for field, text in zip(fields.all(), ("greenhouse", "All that grows under glass."), strict=True):
        expect(field).to_have_value(text)


def test_reading_goes_on_where_nothing_could_be_marked_as_unread(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Marked in vain", "Hello.")
    page = people.member("Rita")
    page.goto(ana.url)
    expect(page.locator(LIVE)).to_be_attached()
    page.route(
        "**/read/", lambda route: route.abort() if "unread" in str(route.request.post_data) else route.fallback()
    )
    page.locator("#messages > li").focus()
    page.keyboard.press("m")
    page.get_by_role("button", name="Mark unread from here").click()
    expect(page.locator(".toast")).to_contain_text("Nothing was changed")
    with page.expect_request(lambda request: "seq=2" in str(request.post_data)):
        say(ana, "And this?")


def test_a_thread_whose_answer_was_lost_is_begun_once(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Before", "Hello.")
    channel_link(ana, "general").click()
    ana.wait_for_url("**/c/**")  # its script runs: it keeps the key of what is begun
    form = ana.locator("#new-thread")

    def begin() -> None:
        if not form.locator("#new-thread-title").is_visible():
            form.locator("summary").click()
        form.locator("#new-thread-title").fill("Begun once")
        form.get_by_label("Message", exact=True).fill("Where is the ladder?")
        form.get_by_role("button", name="Start thread").click()

    ana.route("**/threads/", lose_answer)
    with suppress(Error):  # the page of the browser says that nothing came
        begin()
    ana.wait_for_url("chrome-error://**")
    ana.unroute("**/threads/")
    ana.go_back()
    begin()
    expect(ana.get_by_role("heading", name="Begun once", level=1)).to_be_visible()
    channel_link(ana, "general").click()
    expect(ana.locator(".thread-list").get_by_role("link", name="Begun once")).to_have_count(1)

"""A team and its agent, in real browsers: what one says the other sees, live."""

import re
from functools import partial

import pytest
from playwright.sync_api import APIResponse, Dialog, FilePayload, Locator, Page, Route, expect

from tests.engines.llm.model_server import Answer
from tests.journeys.conftest import People, stop_clock
from tests.journeys.installation import Installation, words_of
from tests.journeys.late_answers import Held, hear
from tests.operations.processes import wait_until

SEND = """async ([address, fields]) => (await fetch(address, {
  method: "POST", body: new URLSearchParams(fields), headers: JSON.parse(document.body.getAttribute("hx-headers")),
})).url"""
"""A script that sends as the page's own form would, and where that leads."""


def channel_link(page: Page, channel: str) -> Locator:
    return page.get_by_role("navigation", name="Workspace").get_by_role("link", name=re.compile(channel)).first


def start_thread(page: Page, title: str, body: str, channel: str = "general") -> None:
    """Starts a thread from any page of the workspace, without the way to the form, and looks at it."""
    address = f"{channel_link(page, channel).get_attribute('href')}threads/"
    page.goto(page.evaluate(SEND, [address, {"title": title, "body": body}]))
    expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()


def say(page: Page, body: str) -> None:
    page.wait_for_load_state()  # before its script runs, Enter is a new line
    composer = page.locator("#composer-body")
    composer.fill(body)
    composer.press("Enter")


def replies(page: Page) -> Locator:
    return page.locator('#messages > li[data-handle="vibe"]')


def invited(people: People, ana: Page, name: str, role: str = "Member") -> Page:
    """Somebody who joins by a link that Ana makes: as `People.member`, with an account made by hand."""
    ana.goto("/w/willow/members/")
    invite = ana.locator("#invite")
    invite.get_by_label("Role").select_option(role)
    invite.get_by_label("#general").check()
    ana.get_by_role("button", name="Make link").click()
    page = people.page()
    page.goto(ana.get_by_label("Invitation link").input_value())
    page.get_by_role("link", name="Make an account").click()
    page.get_by_label("Your name").fill(name)
    page.get_by_label("Email").fill(f"{name.lower()}@example.org")
    page.get_by_label(re.compile(r"^\s*Password")).first.fill("a long enough password 7")
    page.get_by_role("button", name="Make account").click()
    page.get_by_role("button", name=f"Join as {name}").click()
    page.wait_for_url("**/w/willow/**")
    return page


def test_a_reply_streams_to_two_people_and_feedback_is_in_the_next_prompt(
    people: People, installation: Installation
) -> None:
    model = installation.model
    ana = people.ana()
    dora = invited(people, ana, "Dora")
    start_thread(ana, "Pruning the roses", "Hello Dora, look here.")
    dora.goto(ana.url)
    expect(dora.get_by_text("Hello Dora, look here.")).to_be_visible()

    go_on = model.holds_back_after_first_words("Prune the roses in March, before the buds open.")
    say(ana, "@vibe when do I prune the roses?")
    for page in (ana, dora):
        expect(page.locator("#messages").get_by_text("when do I prune the roses?")).to_be_visible()
        expect(replies(page).locator('.prose[aria-busy="true"]')).to_contain_text("Prune")
    assert "before the buds open" not in replies(dora).inner_text()
    go_on.set()
    for page in (ana, dora):
        expect(replies(page)).to_contain_text("Prune the roses in March, before the buds open.")
        expect(replies(page)).to_have_attribute("data-state", "complete")

    replies(ana).get_by_role("button", name="Not helpful").click()
    replies(ana).get_by_label("What should it do differently?").fill("Name the month first.")
    replies(ana).get_by_role("button", name="Save", exact=True).click()
    expect(replies(ana)).to_contain_text("Change what you said")

    model.says("March: prune the apples then.")
    say(ana, "@vibe and the apples?")
    expect(replies(dora).nth(1)).to_contain_text("March: prune the apples then.")
    assert re.search(
        r"\[RECENT FEEDBACK\] User Ana \((just now|\d+ \w+ ago)\): Name the month first\.", model.last_prompt
    )
    expect(replies(ana).first).to_contain_text("In prompt 1×")

    replies(ana).first.get_by_role("button", name="Mark applied").click()
    expect(replies(ana).first).to_contain_text("Applied")
    say(ana, "@vibe and the pears?")
    expect(replies(ana)).to_have_count(3)
    expect(replies(ana).nth(2)).to_have_attribute("data-state", "complete")
    assert "Name the month first" not in model.last_prompt


def test_a_form_that_is_asked_for_outlives_a_change_of_its_message(people: People, installation: Installation) -> None:
    ana = people.ana()
    start_thread(ana, "Pruning the pears", "Look at the pears.")
    say(ana, "@vibe and the pears?")
    expect(replies(ana)).to_have_attribute("data-state", "complete")
    held: list[tuple[Route, APIResponse]] = []
    ana.route("**/feedback/", lambda route: held.append((route, route.fetch())))

    replies(ana).get_by_role("button", name="Not helpful").click()
    expect(replies(ana)).to_have_attribute("data-stale", "yes")  # the change is here before the answer is
    wait_until(lambda: bool(ana.evaluate("1") and held), "the answer is held back")
    route, answer = held[0]
    route.fulfill(response=answer)
    ana.unroute_all(behavior="wait")

    replies(ana).get_by_label("What should it do differently?").fill("Name the month first.")
    replies(ana).get_by_role("button", name="Save", exact=True).click()
    expect(replies(ana)).to_contain_text("Change what you said")


KEEP_PREVIEWS = """(thread) => {
  window.previews = [];
  const preview = () => document.querySelector(`.thread-item:has([href$="${thread}"]) [data-preview]`)?.textContent;
  new MutationObserver(() => window.previews.push(preview()))
    .observe(document.querySelector("[data-refresh]"), { childList: true, subtree: true, characterData: true });
}"""
"""Every preview the page shows of a thread from now on."""


def test_what_came_while_an_answer_was_on_its_way_stays(people: People, installation: Installation) -> None:
    """Neither a swapped message nor a page of the inbox takes back what an event has shown meanwhile."""
    ana = people.ana()
    start_thread(ana, "Newer stays", "Look here.")
    thread, row = ana.url, ana.locator("#messages > li")
    token, message = installation.token("ana"), row.get_attribute("data-id")
    held: list[tuple[Route, APIResponse]] = []
    ana.route("**/m/*/", lambda route: held.append((route, route.fetch())), times=1)
    row.focus()
    ana.keyboard.press("e")
    expect(row.get_by_role("textbox")).to_be_focused()
    ana.keyboard.press("Escape")
    wait_until(lambda: bool(ana.evaluate("1") and held), "the answer is held back")
    installation.api("POST", f"messages/{message}/reactions/", token, {"emoji": "🎉"})
    expect(row).to_have_attribute("data-stale", "yes")
    held[0][0].fulfill(response=held[0][1])
    expect(row.get_by_role("button", name="🎉")).to_be_visible()

    ana.goto("/w/willow/")
    line = ana.locator("#inbox .thread-item", has_text="Newer stays")
    held.clear()
    ana.route(ana.url, lambda route: held.append((route, route.fetch())), times=1)
    thread_id = re.findall(r"/t/(\d+)/", thread)[0]
    installation.api("PATCH", f"threads/{thread_id}/", token, {"title": "Newer stays here"})
    wait_until(lambda: bool(ana.evaluate("1") and held), "the inbox is asked for")
    agent = installation.token("vibe")
    installation.api("POST", f"threads/{thread_id}/messages/", agent, {"body": "The newest."})
    expect(line.locator("[data-preview]")).to_have_text("The newest.")
    ana.evaluate(KEEP_PREVIEWS, f"/t/{thread_id}/")
    held[0][0].fulfill(response=held[0][1])
    installation.api("PATCH", f"threads/{thread_id}/", token, {"title": "Newer stays for good"})
    expect(line).to_contain_text("Newer stays for good")  # in what the page asked for after it
    assert set(ana.evaluate("window.previews")) == {"The newest."}
    ana.unroute_all(behavior="wait")

    line.locator("a").focus()
    for key in ("show-unread", "inbox-channel"):
        choice = ana.locator(f"#{key}")
        choice.press("Enter" if key.startswith("show") else "ArrowDown")
        ana.wait_for_url(re.compile("show=unread" if key.startswith("show") else r"channel=\d"))
        expect(ana.locator(f"#{key}")).to_be_focused()


def test_the_keyboard_never_falls_back_to_the_page(people: People, installation: Installation) -> None:
    ana = people.ana(viewport={"width": 1440, "height": 640})
    start_thread(ana, "By keys", "Hello.\n\n" + "A long story.\n\n" * 20)
    composer, press = ana.locator("#composer-body"), ana.keyboard.press
    composer.press_sequentially("@vibe and now?")
    expect(ana.locator(".preview-line")).to_contain_text("of 8k tokens")
    composer.press("Enter")
    expect(replies(ana)).to_have_attribute("data-state", "complete")
    expect(ana.locator("#composer-preview")).to_be_empty()
    reply, last = replies(ana).first, replies(ana).nth(1)
    composer.press("Escape")
    expect(reply).to_be_focused()

    press("-")
    reason = reply.get_by_label("What should it do differently?")
    expect(reason).to_be_focused()
    expect(reply.get_by_role("button", name="Save", exact=True)).to_be_in_viewport(ratio=1)
    ana.keyboard.type("Be brief.")
    press("Control+Enter")
    expect(reply.get_by_text("Change what you said")).to_be_focused()

    reply.focus()
    press("m")
    with ana.expect_response("**/regenerate/"):
        reply.get_by_role("button", name="Regenerate").press("Enter")
    expect(last.get_by_role("link", name="Another answer to")).to_be_visible()
    expect(last).to_have_attribute("data-state", "complete")
    expect(reply).to_be_hidden()
    expect(last).to_contain_text("2 / 2")
    newest = last.get_attribute("data-id")
    ana.wait_for_function("id => document.activeElement.closest('.message')?.dataset.id === id", arg=newest)
    last.get_by_role("link", name="Earlier answer").press("Enter")
    expect(last).to_contain_text("1 / 2")
    expect(last).to_contain_text("In prompt 1×")
    expect(last.get_by_role("link", name="Later answer")).to_be_focused()
    last.get_by_role("link", name="Later answer").press("Enter")
    expect(last).to_contain_text("2 / 2")
    expect(last.get_by_role("link", name="Earlier answer")).to_be_focused()
    last.focus()
    press("x")
    size = ana.locator("#panel .context-size strong")
    expect(size).to_be_visible()
    expect(last.locator(".run-facts")).to_contain_text(size.inner_text())
    press("Escape")
    expect(last.get_by_role("link", name="Why this answer?")).to_be_focused()

    own = ana.locator('.message[data-mine="yes"]').last
    for key, place in (("Escape", composer), ("Enter", composer)):
        composer.press("ArrowUp")
        expect(own.locator("textarea")).to_be_focused()
        ana.keyboard.type(" Indeed.")
        press(key)
        expect(place).to_be_focused()
    expect(own).to_contain_text("edited")
    expect(own.locator(".prose")).to_have_text("@vibe and now? Indeed.")
    own.focus()
    for said, pressed in (("Saved.", "true"), ("No longer saved.", "false")):
        press("l")
        expect(ana.locator("#status")).to_have_text(said)
        expect(own.locator("[data-save]")).to_have_attribute("aria-pressed", pressed)
    press("d")
    expect(ana.locator("[data-start-body]")).to_be_focused()
    press("Escape")
    expect(ana.locator("#panel")).to_be_hidden()
    expect(own.get_by_role("link", name="Dive")).to_be_focused()
    press("c")
    expect(ana.locator("#new-thread-title")).to_be_focused()


def test_a_long_press_shows_what_there_is_to_do(people: People, installation: Installation) -> None:
    ana = people.ana(viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)
    thread = thread_with_a_reply(people, "By touch")
    stop_clock(ana)  # a press is long when the test says so
    ana.goto(thread)
    ana.evaluate("addEventListener('contextmenu', (event) => event.stopImmediatePropagation(), true)")
    touch, place = ana.context.new_cdp_session(ana), replies(ana).locator(".prose").bounding_box()
    assert place
    points = [{"x": place["x"] + 20 + 60 * step, "y": place["y"] + 8} for step in (0, 1)]

    def move(kind: str, *at: dict[str, float]) -> None:
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(at)})

    move("touchStart", points[0])
    expect(replies(ana)).to_have_class(re.compile("is-pressed"))
    move("touchMove", points[1])  # it was no press
    expect(replies(ana)).not_to_have_class(re.compile("is-pressed"))
    move("touchEnd")
    expect(replies(ana).get_by_role("link", name="Reply")).to_be_hidden()
    expect(replies(ana).get_by_text("Why this answer?")).to_be_visible()  # as the first steps say
    move("touchStart", points[0])
    ana.clock.run_for(499)
    expect(replies(ana).get_by_role("link", name="Reply")).to_be_hidden()
    ana.clock.run_for(1)
    for name in ("Reply", "Dive", "Pin to knowledge", "Why this answer?"):
        expect(replies(ana).get_by_role("link", name=name)).to_be_visible()
    expect(replies(ana).get_by_role("button", name="Save message")).to_be_visible()
    move("touchEnd")
    bar = replies(ana).locator(".message-bar").bounding_box()
    assert bar
    assert bar["x"] + bar["width"] <= 360
    expect(ana.locator("[data-hint]")).to_be_hidden()


def thread_with_a_reply(people: People, title: str) -> str:
    page = people.ana()
    start_thread(page, title, "@vibe hello")
    expect(replies(page)).to_have_attribute("data-state", "complete")
    return page.url


def test_a_panel_closed_before_its_answer_came_stays_closed(people: People, installation: Installation) -> None:
    thread, ana = thread_with_a_reply(people, "Closed again"), people.ana()
    ana.goto(thread)
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    opener = replies(ana).get_by_role("link", name="Why this answer?")
    held: list[Route] = []
    ana.route("**/context/", lambda route: held.append(route), times=1)
    opener.press("Enter")
    wait_until(lambda: bool(ana.evaluate("1") and held), "the panel is asked for")
    with ana.expect_event("requestfailed", lambda request: request.url.endswith("/context/")):  # nobody waits for it
        ana.keyboard.press("Escape")
    expect(opener).to_be_focused()
    expect(ana.locator("#panel")).to_be_empty()
    assert "panel=" not in ana.url


def test_an_open_page_asks_for_nothing_that_it_was_told(people: People, installation: Installation) -> None:
    ana, other = people.ana(), people.ana()
    start_thread(ana, "Told once", "Hello.")
    hear(other)
    other.goto(ana.url)
    expect(other.locator('body[data-live="on"]')).to_be_attached()
    asked: list[str] = []
    other.on("request", lambda request: asked.append(request.url))
    go_on = installation.model.holds_back_after_first_words("**Prune** in March.\n\n- before the buds\n- with care")
    say(ana, "@vibe are you there?")
    expect(replies(other).locator("strong")).to_have_text("Prune")  # it renders while it comes
    go_on.set()
    expect(replies(other)).to_have_attribute("data-state", "complete")
    expect(replies(other).locator("strong")).to_have_text("Prune")
    expect(replies(other).locator("li")).to_have_count(2)
    expect(other.locator("#messages .message[data-seq]")).to_have_count(3)
    told_else = "knowledge_changed" in other.evaluate("window.told")  # by a job, of what an earlier test left
    of_else = ("/read/", "/at-work/", *(("/sidebar/",) if told_else else ()))  # who works where is looked up by itself
    assert [url for url in asked if "/w/willow/" in url and not any(part in url for part in of_else)] == []


def test_stop_keeps_the_text_and_a_failure_can_be_tried_again(people: People, installation: Installation) -> None:
    ana = people.ana()
    start_thread(ana, "Stop and retry", "Hello.")
    go_on = installation.model.holds_back_after_first_words("Once upon a time there was a rose.")
    say(ana, "@vibe tell me a story")
    expect(replies(ana).locator(".prose")).to_contain_text("Once")
    replies(ana).get_by_role("button", name="Stop").click()
    expect(replies(ana)).to_have_attribute("data-state", "stopped")
    expect(replies(ana)).to_contain_text("Once")
    go_on.set()

    installation.model.answer = Answer(status=401)
    say(ana, "@vibe and another?")
    retry = ana.get_by_role("button", name="Retry").last
    expect(retry).to_be_visible()
    expect(ana.locator("#messages")).to_contain_text("key")
    installation.model.says("Another story.")
    retry.click()
    expect(replies(ana).last).to_contain_text("Another story.")
    expect(replies(ana)).to_have_count(2)


def test_the_viewer_shows_what_the_agent_read(people: People, installation: Installation) -> None:
    installation.model.says("Twelve litres.")
    ana = people.ana()
    start_thread(ana, "Watering", "The greenhouse needs twelve litres a day.")
    say(ana, "@vibe how much water?")
    expect(replies(ana)).to_have_attribute("data-state", "complete")
    replies(ana).get_by_role("link", name="Why this answer?").click()
    panel = ana.locator("#panel")
    expect(panel).to_contain_text("/ 8,000")
    expect(panel).to_contain_text("Semi-trusted")
    tab = panel.get_by_role("link", name="Raw messages")
    tab.press("Enter")
    expect(tab).to_have_attribute("aria-current", "page")
    expect(tab).to_be_focused()
    ana.reload()
    expect(ana.locator("#panel")).to_contain_text("/ 8,000")


def test_an_answer_from_before_does_not_take_a_finished_reply_back(people: People, installation: Installation) -> None:
    ana = people.ana()
    start_thread(ana, "Late fetches", "Shall we water today?")
    other = ana.context.new_page()
    other.goto(ana.url)
    go_on = installation.model.holds_back_after_first_words("Twelve litres, twice a week.")
    say(ana, "@vibe how much?")
    expect(replies(ana).last).to_contain_text("Twelve")

    message = Held(ana, "**/m/*/")
    ana.evaluate(
        """() => {
            document.querySelector('.message[data-state="writing"]').dataset.stale = "yes";
            document.dispatchEvent(new Event("htmx:afterRequest"));
        }"""
    )
    route, fragment = message.wait_for_answer()
    go_on.set()
    expect(replies(other).last).to_have_attribute("data-state", "complete")
    with ana.expect_event("requestfinished", lambda request: "/m/" in request.url):
        route.fulfill(response=fragment)
    ana.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(replies(ana).last).to_contain_text("Twelve litres, twice a week.")
    expect(replies(ana).last).to_have_attribute("data-state", "complete")


GIVE_FILE = """(place, kind) => {
  const data = new DataTransfer();
  data.items.add(new File(["day,litres"], `${kind}.csv`, { type: "text/csv" }));
  const given = { bubbles: true, cancelable: true };
  place.dispatchEvent(kind === "drop"
    ? new DragEvent("drop", { ...given, dataTransfer: data })
    : new ClipboardEvent("paste", { ...given, clipboardData: data }));
}"""


def test_a_file_is_attached_read_on_and_saved(people: People, installation: Installation) -> None:
    rows = "\n".join(f"Day {n}: {n % 13} litres" for n in range(5_000))
    model, ana = installation.model, people.ana()
    start_thread(ana, "Watering log", "Here it comes.")
    for kind, place in (("drop", "#messages"), ("paste", "#composer-body")):
        ana.locator(place).evaluate(GIVE_FILE, kind)
    chips = ana.locator("[data-chosen] .file-chip")
    expect(chips).to_have_text([re.compile(r"drop\.csv.*\s*day,litres", re.S), re.compile(r"paste\.csv", re.S)])
    for name in ("drop.csv", "paste.csv"):
        ana.get_by_role("button", name=f"Take {name} out").click()
    files = [("photo.txt", b"\x00\x01"), ("log.txt", rows.encode())]
    chosen = [FilePayload(name=name, mimeType="text/plain", buffer=data) for name, data in files]
    ana.get_by_label("Attach files").set_input_files(chosen)
    say(ana, "The log, and a photo.")
    expect(ana.locator(".composer .form-problem")).to_contain_text("“photo.txt” is neither text nor a document")
    expect(ana.locator("#composer-body")).to_have_value("The log, and a photo.")
    ana.get_by_role("button", name="Take photo.txt out").click()
    ana.locator("#composer-body").press("Enter")
    file = ana.locator("#messages").get_by_role("link", name=re.compile("^log.txt"))
    with ana.expect_download() as download:
        file.click()
    assert (download.value.suggested_filename, download.value.path().read_text()) == ("log.txt", rows)
    expect(ana.locator("[data-chosen]")).to_be_hidden()

    number = (file.get_attribute("href") or "").strip("/").rpartition("/")[2]
    model.says("Five litres.")
    model.calls = [Answer(tool_calls=(("c1", "read_file", f'{{"id": {number}, "find": "Day 4321"}}'),))]
    say(ana, "@vibe how much on day 4321?")
    expect(replies(ana)).to_contain_text("Five litres.")
    assert "Day 4321: 5 litres" in model.last_prompt


def test_a_people_only_thread_says_why_no_agent_answers(people: People, installation: Installation) -> None:
    ana = people.ana()
    channel_link(ana, "general").click()
    ana.locator("details.new-thread").get_by_text("New thread").click()
    ana.get_by_label(re.compile(r"^\s*Title")).fill("Salaries")
    ana.locator(".new-thread").get_by_label("Message", exact=True).fill("@vibe what does everybody earn?")
    ana.get_by_label("People only").check()
    ana.get_by_role("button", name="Start thread").click()
    expect(ana.locator("#messages")).to_contain_text("this thread is for people only")
    assert not any("what does everybody earn?" in words_of(asked) for asked in installation.model.asked)


def test_a_removed_member_sees_nothing_more(people: People, installation: Installation) -> None:
    ana = people.ana()
    cleo = people.member("Cleopatra")
    start_thread(ana, "Before the removal", "You can read this.")
    cleo.goto(ana.url)
    expect(cleo.get_by_text("You can read this.")).to_be_visible()
    installation.shell(
        "from openvibe.workspaces.models import Member\n"
        "from openvibe.workspaces.queries import member_access\n"
        "from openvibe.workspaces.services import remove_member\n"
        "owner = Member.objects.get(role='owner', workspace__slug='willow')\n"
        "remove_member(member=Member.objects.get(user__email='cleopatra@example.org'), by=member_access(owner))"
    )
    expect(cleo.locator("body")).to_contain_text(re.compile(r"no\s+longer", re.I))
    expect(cleo.get_by_text("You can read this.")).to_have_count(0)
    say(ana, "Now we are among ourselves.")
    cleo.goto(ana.url)
    expect(cleo.get_by_text("Now we are among ourselves.")).to_have_count(0)


NEVER_CHECKS = "window.setInterval = () => 0"
"""No page finds that its stream has been silent for long."""


def test_nothing_is_missed_while_the_server_restarts(people: People, installation: Installation) -> None:
    ana, again = people.ana(), people.ana()
    ana.add_init_script(NEVER_CHECKS)
    start_thread(ana, "Restart", "First.")
    again.goto(ana.url)
    expect(again.get_by_text("First.")).to_be_visible()
    go_on = installation.model.holds_back_after_first_words("Second, while nobody could see it.")
    say(ana, "@vibe write slowly")
    expect(replies(ana).locator(".prose")).to_contain_text("Second")
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    served = installation.url
    for page in (ana, again):  # what is asked for while the server is away is refused, however soon it is back
        page.route(f"{served}/**", lambda route: route.abort("connectionrefused"))
    installation.kill("web")
    expect(ana.locator("#composer .connection")).to_be_visible()  # its end tells, not its silence
    expect(replies(ana).get_by_text("Vibe is writing")).to_be_hidden()
    for words in ("Third, unsent.", "Fourth, unsent."):
        say(ana, words)
        unsent = ana.locator("#messages > li").last
        expect(unsent).to_contain_text("Not sent yet")
        expect(unsent.locator(".author")).to_have_text("Ana")
    go_on.set()

    for page in (ana, again):
        page.unroute_all(behavior="wait")
    rows = again.locator("#messages .message[data-seq] .prose")
    expect(rows.nth(4)).to_have_text("Fourth, unsent.")
    expect(rows.nth(3)).to_have_text("Third, unsent.")
    expect(rows.nth(2)).to_contain_text("Second, while nobody could see it.")
    expect(ana.locator(".connection, .is-pending")).to_have_count(0)
    expect(ana.locator("#messages .message[data-seq]")).to_have_count(5)
    ana.reload()
    expect(ana.locator("#messages .message[data-seq]")).to_have_count(5)
    expect(ana.locator(".new-line")).to_have_count(0)  # it was seen live


ROOM = """
from openvibe.chat.models import Channel
from openvibe.chat.services import archive_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
from tests.factories import make_channel, make_thread
ana = Member.objects.get(workspace__slug="willow", participant__handle="ana")
"""
QUARRY = f"""{ROOM}
print(make_thread(make_channel(ana, "quarry"), ana, "Hanging").pk)
"""
ARCHIVE = f"""{ROOM}
archive_channel(channel=Channel.objects.get(name="quarry"), by=member_access(ana), archived=True)
"""


def test_a_server_that_hangs_and_a_channel_that_is_archived_take_no_text(
    people: People, installation: Installation
) -> None:
    thread = f"/w/willow/t/{installation.shell(QUARRY)}/"
    ana = people.page(storage_state=people.signed_in_ana)
    ana.clock.install()
    ana.goto(thread)
    expect(ana.locator("body")).to_have_attribute("data-live", "on")
    with installation.hanging("web"):
        ana.clock.fast_forward("01:00")
        expect(ana.locator("#composer .connection")).to_contain_text("What you write is kept here")
    expect(ana.locator("body")).to_have_attribute("data-live", "on")
    expect(ana.locator(".connection")).to_have_count(0)
    say(ana, "Is somebody there?")
    expect(ana.locator("#messages .message[data-seq]").last).to_contain_text("Is somebody there?")

    ana.locator("#composer-body").fill("Half a thought")
    installation.shell(ARCHIVE)
    expect(ana.locator("#composer .form-problem")).to_contain_text("archived")
    expect(ana.locator("#composer-body")).to_have_value("Half a thought")


def test_hostile_text_stays_text(people: People, installation: Installation) -> None:
    attack = "<img src=x onerror=alert(1)> <script>alert(2)</script> [x](javascript:alert(3)) ![y](http://evil.example/y.png)"
    installation.model.says(attack)
    ana = people.ana()
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    ana.on("dialog", note)
    start_thread(ana, attack, attack)
    say(ana, f"@vibe {attack}")
    expect(replies(ana)).to_have_attribute("data-state", "complete")
    replies(ana).get_by_role("link", name="Why this answer?").click()
    expect(ana.locator("#panel")).to_contain_text("/ 8,000")
    assert dialogs == []

    ana.set_viewport_size({"width": 1280, "height": 240})
    assert not ana.evaluate("document.documentElement.scrollHeight > innerHeight"), "the page is longer than the window"
    ana.emulate_media(media="print")
    assert ana.locator("#scroller").evaluate("list => list.clientHeight === list.scrollHeight"), (
        "paper has no scrollbar"
    )
    expect(ana.locator("#composer")).to_be_hidden()


def wait_for_one_more(page: Page, tried: list[Route]) -> None:
    seen = len(tried)
    wait_until(lambda: page.evaluate("1") and len(tried) > seen, "the stream is asked for again")


@pytest.mark.parametrize("way", ["no answer", "cut", "ended at once"])
def test_what_comes_is_shown_though_no_stream_comes_through(people: People, way: str) -> None:
    words = f"Is anybody there? ({way})"
    ana, other, inbox = people.ana(), people.ana(), people.ana()
    start_thread(other, f"Behind a proxy: {way}", "Hello.")
    tries: dict[Page, list[Route]] = {ana: [], inbox: []}

    def refuse(route: Route, tried: list[Route]) -> None:
        tried.append(route)
        if way == "cut":
            route.abort()
        elif way == "ended at once":
            route.fulfill(content_type="text/event-stream", body="")

    for page, address in ((ana, other.url), (inbox, "/w/willow/")):
        page.route("**/events/**", partial(refuse, tried=tries[page]))
        page.clock.install()
        page.goto(address)
    say(other, words)
    expect(other.get_by_text(words)).to_be_visible()
    for page, tried in tries.items():
        page.clock.fast_forward(4_000)
        if way != "no answer":  # the browser tries again by itself, which is no sign of life
            wait_for_one_more(page, tried)
        page.clock.fast_forward(7_000)  # it would have said something at once; it is looked at each five seconds
    expect(ana.locator("#composer .connection")).to_contain_text("Live updates do not come through")
    expect(ana.locator("#messages").get_by_text(words)).to_be_visible()
    expect(inbox.locator("[data-refresh]").get_by_text(words)).to_be_visible()


def test_people_are_named_in_any_script(people: People) -> None:
    people.member("Özlem")
    ana = people.ana()
    start_thread(ana, "Scripts", "Whom do I mean?")
    box = ana.get_by_role("textbox", name="Message to Scripts")
    box.press_sequentially("@öz")
    choice = ana.get_by_role("option").filter(has_text="Özlem")
    expect(choice).to_be_visible()
    handle = choice.locator(".quiet-note").inner_text()
    box.press("Enter")
    expect(box).to_have_value(f"{handle} ")

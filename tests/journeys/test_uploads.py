"""Files on their way: how far they are is said while they are sent, however slow the line."""

from playwright.sync_api import expect

from tests.journeys.conftest import People
from tests.journeys.test_conversation import start_thread
from tests.operations.processes import wait_until

SLOW_LINE = {"offline": False, "latency": 20, "downloadThroughput": -1, "uploadThroughput": 16 * 1024}
"""Bytes a second: slow enough for a file of half a megabyte to be seen half way, until the line is a quick one."""
QUICK_LINE = {**SLOW_LINE, "uploadThroughput": -1}
WATCH_PROGRESS = """() => {
  window.said = [];
  new MutationObserver(() => {
    const state = document.querySelector("[data-pending] .send-state");
    if (state && state.textContent !== window.said.at(-1)) window.said.push(state.textContent);
  }).observe(document.querySelector("#messages"), { childList: true, subtree: true, characterData: true });
}"""
SHARES = """() => window.said.map((words) => /(\\d+) %/.exec(words)?.[1]).filter(Boolean).map(Number)"""


def test_how_far_an_upload_is_stands_in_its_row_until_it_is_sent(people: People) -> None:
    ana = people.ana()
    ana.goto("/w/willow/")
    start_thread(ana, "Measurements", "Here they come.")
    devtools = ana.context.new_cdp_session(ana)
    devtools.send("Network.enable")
    devtools.send("Network.emulateNetworkConditions", SLOW_LINE)
    file = {"name": "beds.csv", "mimeType": "text/csv", "buffer": b"bed,litres\n" + b"roses,12\n" * 60_000}
    ana.locator("#composer input[type=file]").set_input_files(file)  # type: ignore[arg-type]  # a file of Playwright
    ana.evaluate(WATCH_PROGRESS)
    ana.get_by_role("textbox", name="Message to Measurements").fill("Measured")
    ana.get_by_role("button", name="Send", exact=True).click()
    wait_until(lambda: len({share for share in ana.evaluate(SHARES) if share < 100}) >= 2, "it is seen half way")
    devtools.send("Network.emulateNetworkConditions", QUICK_LINE)
    message = ana.locator("#messages .message").filter(has_text="Measured").filter(has_text="beds.csv")
    expect(message.locator(".send-state")).to_have_count(0, timeout=60_000)
    expect(message).to_have_count(1)
    devtools.detach()
    shares = ana.evaluate(SHARES)
    assert shares == sorted(shares)
    assert shares[-1] == 100


def test_a_file_with_a_long_name_stays_on_the_screen_of_a_phone(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Long names", "Here it comes.")
    ana.set_viewport_size({"width": 360, "height": 740})
    file = {"name": f"{'measured-' * 10}beds.csv", "mimeType": "text/csv", "buffer": b"bed,litres\n"}
    ana.locator("#composer input[type=file]").set_input_files(file)  # type: ignore[arg-type]  # a file of Playwright
    ana.get_by_role("button", name="Send", exact=True).click()
    chip = ana.locator("#messages a.file-chip")
    expect(chip).to_be_visible()
    assert chip.evaluate("(chip) => chip.getBoundingClientRect().right") <= 360

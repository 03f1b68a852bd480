"""Files on their way: how far they are is said while they are sent, however slow the line."""

import re

from playwright.sync_api import expect

from tests.journeys.conftest import People
from tests.journeys.test_conversation import start_thread

SLOW_LINE = {"offline": False, "latency": 20, "downloadThroughput": -1, "uploadThroughput": 256 * 1024}
"""Bytes a second: a file of half a megabyte takes about two seconds, so that its progress is measured many times."""
WATCH_PROGRESS = """() => {
  window.said = [];
  new MutationObserver(() => {
    const state = document.querySelector("[data-pending] .send-state");
    if (state && state.textContent !== window.said.at(-1)) window.said.push(state.textContent);
  }).observe(document.querySelector("#messages"), { childList: true, subtree: true, characterData: true });
}"""


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
    message = ana.locator("#messages .message").filter(has_text="Measured").filter(has_text="beds.csv")
    expect(message.locator(".send-state")).to_have_count(0, timeout=60_000)
    expect(message).to_have_count(1)
    devtools.detach()
    shares = [int(match[1]) for said in ana.evaluate("window.said") if (match := re.search(r"(\d+) %", said))]
    assert shares == sorted(shares)
    assert len({share for share in shares if share < 100}) >= 2, shares
    assert shares[-1] == 100

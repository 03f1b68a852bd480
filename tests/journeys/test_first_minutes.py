"""The first five minutes in a real browser: a new workspace, a pasted key, the first answer, and steps that tick."""

import base64
from threading import Event

from playwright.sync_api import expect

from tests.engines.llm.model_server import Answer, Asked, serving
from tests.journeys.conftest import People

KEY = "sk-proj-canary-0123456789abcdefghijklmnop"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_a_pasted_key_and_an_agent_answers_with_it(people: People) -> None:
    may_finish, hold = Event(), Event()
    hold.set()

    def provider(asked: Asked) -> Answer:
        if asked.path.endswith("/models"):
            wrong = KEY not in asked.headers["authorization"]
            return Answer(status=401) if wrong else Answer("text-embedding-4 sage-2-mini sage-1")
        is_question = "When do I prune?" in str(asked.body["messages"])
        return Answer("Prune in March.", hold_after_first=may_finish if is_question else hold)

    page = people.ana()
    page.goto("/workspaces/new/")
    page.get_by_label("Name").fill("Herb garden")
    page.get_by_role("button", name="Make workspace").click()
    steps = page.get_by_role("region", name="First steps")
    steps.get_by_role("link", name="Make an agent and ask it something").click()
    page.get_by_label("Name", exact=True).fill("Sage")
    page.get_by_label("What is it for?").fill("Knows herbs")
    page.get_by_role("button", name="Create agent").click()
    page.get_by_role("link", name="Inbox").first.click()
    steps.get_by_role("link", name="Connect a model").click()
    page.wait_for_load_state()  # the form asks without leaving the page once its script runs

    with serving(script=provider) as server:
        page.get_by_text("Provider, model and agent").click()
        page.get_by_label("Provider", exact=True).select_option("Another address")
        page.get_by_label("Address").fill(server.base_url)
        key = page.get_by_label("Key", exact=True)
        key.fill("sk-wrong")
        page.get_by_role("button", name="Connect").click()
        expect(page.locator("#connect-result")).to_contain_text("refused the key")
        expect(key).to_have_value("sk-wrong")
        key.fill(KEY)
        key.press("Enter")
        expect(page.get_by_text("Sage answers with sage-2-mini from now on.")).to_be_visible()
        assert KEY not in page.content()

        page.get_by_role("link", name="Message Sage").click()
        page.get_by_label("Message to Sage").fill("When do I prune?")
        page.get_by_role("button", name="Send").click()
        works = page.locator("#sidebar .agent-works")
        expect(works).to_be_visible()
        may_finish.set()
        expect(page.locator("#messages")).to_contain_text("Prune in March.")
        expect(works).to_be_hidden()

    page.goto(page.url.partition("/t/")[0] + "/profile/")
    page.get_by_label("Picture, a PNG").set_input_files({"name": "me.png", "mimeType": "image/png", "buffer": PNG})
    page.get_by_role("button", name="Use this picture").click()
    expect(page.locator(".avatar.is-large img")).to_have_js_property("complete", True)
    page.get_by_role("link", name="Inbox").first.click()
    expect(steps.locator(".is-done")).to_have_text(["Done: Ask Sage something", "Done: Connect a model"])
    steps.get_by_role("button", name="Hide the first steps").click()
    expect(page.get_by_role("heading", name="Waiting for you")).to_be_visible()
    expect(steps).to_have_count(0)

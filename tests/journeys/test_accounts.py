"""Accounts in a real browser: a session that ends leaves nothing on the screen."""

from playwright.sync_api import APIResponse, Route, expect

from tests.journeys.conftest import People, sign_in
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import invited, start_thread
from tests.operations.processes import wait_until

PASSWORD = "a long enough password 7"
"""The password of everybody who was invited."""
TELL = """
from openvibe.base.events import emit
from openvibe.workspaces.models import Workspace
emit("members_changed", workspace_id=Workspace.objects.get(slug="willow").pk)
"""


def test_nothing_stays_on_the_screen_when_the_session_ends(people: People, installation: Installation) -> None:
    ana, phone, title = people.ana(), people.page(), "What Ruth may read"
    page = invited(people, ana, "Ruth")
    sign_in(phone, "ruth@example.org", PASSWORD)
    start_thread(ana, title, "Read it while you can.")
    page.goto(ana.url)
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.locator("body")).to_have_attribute("data-live", "on")
    late: list[tuple[Route, APIResponse]] = []
    page.route("**/sidebar/", lambda route: late.append((route, route.fetch())), times=1)
    installation.shell(TELL)
    wait_until(lambda: bool(page.evaluate("1") and late), "an answer from before is on its way")

    phone.goto("/accounts/sessions/")
    phone.get_by_role("button", name="Sign out everywhere else").click()

    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    late[0][0].fulfill(response=late[0][1])
    assert title not in page.content()
    assert page.title() == "Signed out · OpenVibe"
    assert page.locator(".message, #sidebar, #composer").count() == 0
    expect(page.get_by_role("link", name="Sign in")).to_be_focused()
    page.go_back()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_passkey_signs_in_without_a_password(people: People) -> None:
    """A browser with Chromium's own virtual authenticator; passkeys need a name, so the page is asked for as
    localhost."""
    invited(people, people.ana(), "Piotr")
    page = people.page()
    home = people.installation.url.replace("127.0.0.1", "localhost")
    people.neighbours = (home,)
    devices = page.context.new_cdp_session(page)
    devices.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    options |= {"isUserVerified": True, "automaticPresenceSimulation": True}
    devices.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    page.goto(f"{home}/accounts/login/?next=/accounts/2fa/")
    page.get_by_label("Email").fill("piotr@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    page.get_by_label("Passwordless").check()
    page.wait_for_load_state()  # its script asks for the passkey
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("heading", name="Recovery Codes")).to_be_visible()
    page.goto(f"{home}/accounts/sessions/")
    page.get_by_role("button", name="Sign out here").click()
    expect(page.get_by_role("button", name="Use a passkey")).to_be_visible()
    page.wait_for_load_state()
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url("**/w/**")

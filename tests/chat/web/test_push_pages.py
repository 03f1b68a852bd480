"""The pages by which browsers are notified while none is open: what they send, what they are told, and who may."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from PIL import Image
from pytest_django.fixtures import Settings

from openvibe.chat.models import PushDelivery, PushSubscription, Thread
from openvibe.chat.push.outbox import write_deliveries
from openvibe.chat.services import push_key
from openvibe.chat.web.installed_app import DARK_GROUND, LIGHT_GROUND
from openvibe.engines.network.web_push import decode_base64url, public_point
from openvibe.workspaces.models import Member
from tests.chat.push_service import TestBrowser, number_events
from tests.factories import say

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Member], Client]
ROOT = Path(__file__).parents[3]
ENDPOINT = "https://1.1.1.1/push/1"


def fields(endpoint: str = ENDPOINT, **extra: str) -> dict[str, str]:
    browser = TestBrowser.new()
    return {"endpoint": endpoint, "p256dh": browser.p256dh, "auth": browser.auth_text, **extra}


def test_a_browser_is_turned_on_changed_and_off_by_its_page(dora: Member, home: str, signed_in: SignedIn) -> None:
    browser, address = signed_in(dora), f"{home}push/"
    said = browser.get(address).json()
    assert decode_base64url(said["key"]) == public_point(push_key())
    assert said["private"] is None
    firefox = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
    assert browser.post(address, fields(), headers=firefox).json() == {"private": False}
    row = PushSubscription.objects.get()
    assert (row.user, row.browser) == (dora.user, "Firefox on Linux")
    assert row.session_key == browser.cookies["sessionid"].value
    assert browser.post(address, fields(private="1")).json() == {"private": True}
    assert browser.post(address, fields()).json() == {"private": True}
    assert browser.get(address, {"endpoint": ENDPOINT}).json()["private"] is True
    page = browser.get(f"{home}notifications/").content.decode()
    assert "Browsers that are notified while no page is open" in page
    assert browser.post(f"{address}off/", {"endpoint": ENDPOINT}).status_code == 204
    assert not PushSubscription.objects.exists()


def test_a_browser_is_turned_off_from_the_list_by_its_person_alone(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    signed_in(dora).post(f"{home}push/", fields())
    pk = PushSubscription.objects.get().pk
    for odd in (str(pk), "x", "", "-1", "9" * 30):
        assert signed_in(ana).post(f"{home}push/off/", {"browser": odd}).status_code == 302
    assert PushSubscription.objects.exists()
    assert signed_in(ana).get(f"{home}push/", {"endpoint": ENDPOINT}).json()["private"] is None
    page = signed_in(dora).post(f"{home}push/off/", {"browser": pk}, follow=True).content.decode()
    assert "notified no more" in page
    assert not PushSubscription.objects.exists()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"endpoint": ""}, "bad_push_address"),
        ({"endpoint": "http://10.0.0.1/"}, "bad_push_address"),
        ({"p256dh": "x"}, "bad_push_key"),
        ({"auth": ""}, "bad_push_key"),
        ({"p256dh": "\x00"}, "bad_push_key"),
    ],
)
def test_what_is_no_browser_is_told_so(
    changes: dict[str, str], code: str, dora: Member, home: str, signed_in: SignedIn
) -> None:
    answer = signed_in(dora).post(f"{home}push/", {**fields(), **changes}, headers={"Accept": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["code"] == code


def test_strangers_and_the_signed_out_get_nothing(cleo: Member, dora: Member, home: str, signed_in: SignedIn) -> None:
    for path in ("push/", "push/off/", "push/shown/"):
        assert signed_in(cleo).post(home + path, fields()).status_code == 404
        assert Client().post(home + path, fields()).status_code == 401
    assert signed_in(cleo).get(f"{home}push/").status_code == 404


def test_a_page_says_what_it_has_shown(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(dora)
    browser.post(f"{home}push/", fields())
    write_deliveries()  # from here on
    message = say(thread, ana, "@dora?")
    number_events()
    write_deliveries()
    row = PushDelivery.objects.get()
    for odd in ("", "x", "9" * 30, "0"):
        assert browser.post(f"{home}push/shown/", {"message": odd}).status_code in (204, 400)
    signed_in(ana).post(f"{home}push/shown/", {"message": message.pk})
    row.refresh_from_db()
    assert row.done_at is None
    assert browser.post(f"{home}push/shown/", {"message": message.pk}).status_code == 204
    row.refresh_from_db()
    assert row.done_at


def test_the_marks_of_a_page_tell_account_and_session_apart_and_hold_neither(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    def marks(browser: Client) -> list[str]:
        match = re.search(r'data-session="([0-9a-f]+\.[0-9a-f]+)"', browser.get(home).content.decode())
        assert match
        return match[1].split(".")

    desk, phone, anas = signed_in(dora), signed_in(dora), signed_in(ana)
    assert marks(desk) == marks(desk)
    assert marks(desk)[0] == marks(phone)[0] != marks(anas)[0]
    assert marks(desk)[1] != marks(phone)[1]
    assert desk.cookies["sessionid"].value not in desk.get(home).content.decode()


# --- an app to install ---------------------------------------------------------------------------------------------
def test_the_manifest_names_what_is_there_for_everybody(client: Client) -> None:
    answer = client.get("/manifest.webmanifest")
    assert answer.headers["Content-Type"] == "application/manifest+json"
    assert "Cookie" not in answer.headers.get("Vary", "")
    manifest = answer.json()
    assert manifest["start_url"] == manifest["scope"] == manifest["id"] == "/"
    for icon in manifest["icons"]:
        file = ROOT / "static/img" / icon["src"].rpartition("/")[2]
        if icon["type"] == "image/png":
            with Image.open(file) as image:
                assert "x".join(map(str, image.size)) == icon["sizes"]
        assert file.stat().st_size < 8_000
    assert {icon["purpose"] for icon in manifest["icons"]} == {"any", "maskable"}
    page = client.get("/accounts/login/").content.decode()
    assert '<link rel="manifest" href="/manifest.webmanifest">' in page
    assert 'rel="apple-touch-icon"' in page


def test_the_colour_of_the_window_is_that_of_the_page_in_both_themes(
    ana: Member, home: str, signed_in: SignedIn
) -> None:
    palette = (ROOT / "static/css/palette.css").read_text()
    assert re.search(r"--ground: light-dark\((#\w+), (#\w+)\)", palette).groups() == (LIGHT_GROUND, DARK_GROUND)  # type: ignore[union-attr]

    def media() -> dict[str, str]:
        page = signed_in(ana).get(home).content.decode()
        found = re.findall(r'<meta name="theme-color" content="(#\w+)"[^>]*\s+media="([^"]*)"', page)
        return dict(found)

    by_system = {LIGHT_GROUND: "(prefers-color-scheme: light)", DARK_GROUND: "(prefers-color-scheme: dark)"}
    assert media() == by_system
    for theme, shown in (("light", LIGHT_GROUND), ("dark", DARK_GROUND)):
        signed_in(ana).post("/theme/", {"theme": theme})
        ana.user.refresh_from_db()
        assert media() == {colour: "all" if colour == shown else "not all" for colour in by_system}


def test_the_service_worker_is_at_the_root_and_asked_for_anew(client: Client, settings: Settings) -> None:
    answer = client.get("/service-worker.js")
    assert answer.headers["Content-Type"] == "text/javascript"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.content.decode() == (settings.BASE_DIR / "static/js/service_worker.js").read_text()
    assert "fetch" not in answer.content.decode()  # no request goes through it
    assert client.post("/service-worker.js").status_code == 405
    assert json.loads(client.get("/manifest.webmanifest").content)["display"] == "standalone"

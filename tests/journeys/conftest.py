"""One served installation and one Chromium for all journeys of a test process."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Playwright,
    StorageState,
    expect,
    sync_playwright,
)

from openvibe.runner.bootstrap_venv import HEADLESS_SHELL, find_browser
from tests.journeys.installation import Installation, installed
from tests.journeys.sample_thread import Scene, laid_out
from tests.operations.installation_template import furnish
from tests.operations.processes import nothing_left_of

DISABLED_FEATURES = [
    "SpareRendererForSitePerProcess",  # a process that is started with each page, for a next one of another site
    # Chromium takes the last list; the rest is Playwright's, as far as the headless shell knows it.
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
]
CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(DISABLED_FEATURES)}",
]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
NOTES_STAY = """{
  const later = window.setTimeout;
  window.setTimeout = (work, wait, ...more) => (wait === 8000 ? 0 : later(work, wait, ...more));
}"""
"""A note in the corner goes after eight seconds. On a slow machine nobody would have seen it by then."""
DEADLINE = 60_000  # ms; for slow machines, never a pause
expect.set_options(timeout=DEADLINE)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Function) -> None:
    """A second try begins in an installation of its own: what the first made stands in the way of the same again."""
    if getattr(item, "execution_count", 1) > 1:  # pytest-rerunfailures counts
        for fixture in item._fixtureinfo.name2fixturedefs["installation"]:
            fixture.finish(item._request)  # type: ignore[arg-type]  # and those that depend on it


@pytest.fixture(scope="package")
def installation(migrated_dump: Path) -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="openvibe-journeys-")).resolve()
    folder.chmod(0o755)
    try:
        furnish(folder, migrated_dump)
        with nothing_left_of(folder), installed(folder) as served:
            yield served
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def fresh_model(installation: Installation, request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test steers the model anew, when nothing is under way that an earlier one began; what the server said
    meanwhile is printed with a failure."""
    installation.model.begin_anew()
    said = len(installation.serve.said)
    yield
    print("".join(installation.serve.said[said:])[-6000:])
    installation.model.begin_anew()
    installation.wait_until_idle()


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@contextmanager
def launched(playwright: Playwright, *preferred: str) -> Iterator[Browser]:
    """A Chromium, of these names where one is installed."""
    path = find_browser(*preferred)
    assert path, "No Chromium on this machine: `make test` installs it, or says how."
    with playwright.chromium.launch(executable_path=path, args=CHROMIUM) as browser:
        yield browser


@pytest.fixture(scope="package")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    with launched(playwright, HEADLESS_SHELL) as browser:
        yield browser


JOIN = """
from django.test import Client
from openvibe.chat.models import Channel
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.queries import member_access
from openvibe.workspaces.services import accept_invitation, create_invitation
ana = member_access(Member.objects.get(workspace__slug="willow", participant__handle="ana"))
general = Channel.objects.get(workspace__slug="willow", name="general")
made = create_invitation(workspace=general.workspace, by=ana, role={role!r}, channel_ids=[general.pk])
user = User.objects.create_user(email="{name}@example.org".lower(), name={name!r})
accept_invitation(token=made[1], user=user)
client = Client()
client.force_login(user)
print(client.cookies["sessionid"].value)
"""


ANSWERS = re.compile(
    r"net::ERR_|(status of|Status Error Code) (4\d\d|50[234])|"
    r"htmx:(afterRequest|responseError|sendAbort|sendError|timeout)\b"
)
"""What browsers and htmx log of a request that was refused or cut off: journeys ask for what is refused, and cut
lines. An answer of 500 is none of them: it is allowed where a journey has a server break (`server_breaks`)."""
BROKEN = re.compile(r"(status of|Status Error Code) 500")


class People:
    """Signed-in browsers, each with a person of their own. Nobody's page may leave the machine, nor log an error or a
    warning but of answers that a journey provokes."""

    def __init__(self, browser: Browser, installation: Installation, signed_in_ana: StorageState) -> None:
        self.browser, self.installation, self.signed_in_ana = browser, installation, signed_in_ana
        self.contexts: list[BrowserContext] = []
        self.complaints: list[str] = []
        self.neighbours: tuple[str, ...] = ()
        self.server_breaks = False

    def page(self, **options: object) -> Page:
        context = self.browser.new_context(base_url=self.installation.url, **options)  # type: ignore[arg-type]
        self.contexts.append(context)
        context.set_default_timeout(DEADLINE)
        context.add_init_script(NOTES_STAY)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.context.on("console", self._hear)
        page.on("request", lambda asked: self._stays_here(asked.url))
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        is_provoked = ANSWERS.search(message.text) or (self.server_breaks and BROKEN.search(message.text))
        if message.type in ("error", "warning") and not is_provoked:
            self.complaints.append(f"{message.type}: {message.text} {message.location['url']}")

    def _stays_here(self, url: str) -> None:
        if not url.startswith((self.installation.url, *self.neighbours, "data:", "blob:")):
            self.complaints.append(f"left the machine: {url}")

    def ana(self, **options: object) -> Page:
        """Ana, in her workspace."""
        page = self.page(storage_state=self.signed_in_ana, **options)
        page.goto("/w/willow/")
        return page

    def member(self, name: str, role: str = "member") -> Page:
        """Somebody who joined, in #general too, and is signed in; nothing is shown yet. A name joins once."""
        session = self.installation.shell(JOIN.format(name=name, role=role))
        page = self.page()
        page.context.add_cookies([{"name": "sessionid", "value": session, "url": self.installation.url}])
        return page


def stop_clock(page: Page) -> None:
    """What the page shows from now on waits with its timers until `page.clock` runs on. Not for a page in use."""
    page.clock.install(time=NOON)
    page.clock.pause_at(NOON + timedelta(hours=1))


def sign_in(page: Page, email: str, password: str) -> None:
    page.goto("/accounts/login/")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/w/**")


@pytest.fixture(scope="package")
def signed_in_ana(chromium: Browser, installation: Installation) -> StorageState:
    """What Ana's browser keeps after she signed in as the first start told her to."""
    with chromium.new_context(base_url=installation.url) as context:
        context.set_default_timeout(DEADLINE)
        sign_in(context.new_page(), installation.email, installation.password)
        return context.storage_state()


@pytest.fixture(scope="package")
def scene(installation: Installation) -> Scene:
    """A thread with everything an agent remembers of it, made once for all who share the installation."""
    return laid_out(installation)


@pytest.fixture
def people(chromium: Browser, installation: Installation, signed_in_ana: StorageState) -> Iterator[People]:
    cast = People(chromium, installation, signed_in_ana)
    yield cast
    for context in cast.contexts:
        for page in context.pages:
            with suppress(Error):  # of a page that crashed
                page.unroute_all(behavior="ignoreErrors")  # of what a route still fetches the next test would be told
        context.close()
    assert cast.complaints == []

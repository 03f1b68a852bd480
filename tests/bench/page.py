"""`bench page`: what a page weighs on the wire, when it is painted and how fast a key is answered, in Chromium, of the
server that `make run` starts; on a processor as it is, and on one slowed four times."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_reply
from openvibe.runner.bootstrap_venv import find_browser
from tests.bench.corpus import BenchWorkspace, make_bench_workspace, make_entries, make_thread, vacuum_messages
from tests.bench.http_load import serve_on_free_port, session_key
from tests.bench.live import SAVE_SECONDS, TOKENS_PER_SECOND, long_answer
from tests.bench.measurement import Aim, Measurement, Report
from tests.factories import write_channels
from tests.wire import FETCH_ICONS, Wire

PASSWORD = "a password of the bench"
FIRST_VISIT_BYTES, LATER_PAGE_BYTES = 150_000, 25_000
MAX_PAINT_MS, MAX_KEY_MS = 1_000, 50
RATES = (1, 4)
KEY_PAUSE_SECONDS = 0.12
"""The pause between two keys of somebody who writes 100 words a minute."""
WORDS = "what did we decide on roses, and who told @dora of it? "
MOST_ROWS = 400  # of a page, as `static/js/feed.js` has it
PAINTS = """() => new Promise((resolve) => {
  const first = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  let largest = 0;
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) largest = entry.startTime; })
    .observe({ type: "largest-contentful-paint", buffered: true });
  const look = () => (first() ? setTimeout(() => resolve([first(), largest || first()])) : requestAnimationFrame(look));
  look();
})"""
WATCH_KEYS = """(selector) => {
  const field = document.querySelector(selector);
  const channel = new MessageChannel();
  const waiting = [];
  window.keyTimes = [];
  channel.port1.onmessage = () => { while (waiting.length) window.keyTimes.push(performance.now() - waiting.shift()); };
  addEventListener("keydown", ({ timeStamp }) => {
    requestAnimationFrame(() => { waiting.push(timeStamp); channel.port2.postMessage(null); });
  }, true);
  field.focus();
}"""
SPIN = """() => {
  const begun = performance.now();
  let sum = 0;
  for (let at = 0; at < 3e7; at += 1) sum += at % 7;
  return performance.now() - begun + 0 * sum;
}"""


def measure_page(*, repeats: int = 5, keys: int = 60, messages: int = 10_000, channels: int = 2_000) -> Report:
    """Bytes of a first visit and of later pages; paint and keys of a long thread beside a bare page and field."""
    world = make_bench_workspace()
    world.ana.user.set_password(PASSWORD)
    world.ana.user.save()
    short, long = make_thread(world, 50), make_thread(world, messages)
    make_entries(world, 60)
    write_channels(world.ana, channels)
    vacuum_messages()
    call_command("collectstatic", interactive=False, verbosity=0)
    session = session_key(world.ana.user)  # made here: no database is asked beside a browser
    with serve_on_free_port() as port, _browser() as browser:
        visit = Visit(browser, f"http://127.0.0.1:{port}", world, short, long, session)
        rows = list(visit.measure_bytes())
        for rate in RATES:
            rows += visit.measure_paint(rate, repeats)
        for rate in RATES:
            rows += visit.measure_keys(rate, keys)
    return Report("page", rows, tuple(_aims(rows)))


def _aims(rows: Sequence[Measurement]) -> Iterator[Aim]:
    for row in rows:
        if row.what == "first visit":
            yield Aim("first visit, kB", row.value, FIRST_VISIT_BYTES / 1000)
        elif row.what.startswith("later: "):
            yield Aim(f"{row.what}, kB", row.value, LATER_PAGE_BYTES / 1000)
        elif row.what.startswith("paint: first") and row.ratio:
            yield Aim(f"{row.what}, ms", row.value, MAX_PAINT_MS)
        elif row.what.startswith("key: ") and row.ratio and row.what.endswith("p95"):
            yield Aim(f"{row.what}, ms", row.value, MAX_KEY_MS)


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True)
class Visit:
    """Ana at her browser."""

    browser: Browser
    base: str
    world: BenchWorkspace
    short: Thread
    long: Thread
    session: str

    @property
    def home(self) -> str:
        return f"/w/{self.world.ana.workspace.slug}"

    def measure_bytes(self) -> Iterator[Measurement]:
        """Bytes of a first visit, to sign-in, inbox and a thread, with nothing in the cache; of each later page."""
        context = self._context()
        page = context.new_page()
        wire = Wire.of(context.new_cdp_session(page))
        page.goto("/accounts/login/")
        page.evaluate(FETCH_ICONS)  # a browser with a window asks for them
        _rest(page)
        yield Measurement("first visit: sign-in", sum(wire.sizes.values()) / 1000, "kB")
        page.fill("input[name=login]", self.world.ana.user.email)
        page.fill("input[name=password]", PASSWORD)
        page.click("main button[type=submit]")
        page.wait_for_url("**/w/**")
        page.goto(f"{self.home}/")
        _rest(page)
        page.goto(f"{self.home}/t/{self.short.pk}/")
        _rest(page)
        sizes = wire.take()
        yield Measurement("first visit", sum(sizes.values()) / 1000, "kB")
        for kind, ending in (("scripts", ".js"), ("styles", ".css")):
            size = sum(size for path, size in sizes.items() if path.endswith(ending))
            yield Measurement(f"of it, {kind}", size / 1000, "kB")
        yield Measurement("of it, requests", len(sizes), "")
        for name, path in self._later_pages().items():
            page.goto(path)
            _rest(page)
            yield Measurement(f"later: {name}", sum(wire.take().values()) / 1000, "kB")
        context.close()

    def _later_pages(self) -> dict[str, str]:
        home = self.home
        return {
            "inbox": f"{home}/",
            "thread of 50 messages": f"{home}/t/{self.short.pk}/",
            f"thread of {self.long.last_seq:,} messages": f"{home}/t/{self.long.pk}/",
            "channel": f"{home}/c/{self.world.channel.pk}/",
            "channels to browse": f"{home}/channels/",
            "knowledge": f"{home}/knowledge/",
            "agent": f"{home}/agents/vibe/",
            "search": f"{home}/search/?q={self.world.language.words[300]}",
        }

    def measure_paint(self, rate: int, repeats: int) -> Iterator[Measurement]:
        """Times to the first and the largest paint of a long thread, with and without its files in the cache."""
        path, times = f"{self.home}/t/{self.long.pk}/", dict[str, list[tuple[float, float]]]()
        for _ in range(repeats):
            context = self._context(signed_in=True)
            page = context.new_page()
            _slow_down(context.new_cdp_session(page), rate)
            for name, each in (("floor", "/healthz"), ("nothing cached", path), ("files cached", path)):
                page.goto(each)
                times.setdefault(name, []).append(tuple(page.evaluate(PAINTS)))
                _rest(page)
            times.setdefault("spin", []).append((page.evaluate(SPIN), 0.0))
            context.close()
        floor = median(first for first, _ in times["floor"])
        yield Measurement(f"floor: a page of one word painted, processor slowed {rate} ×", floor, "ms")
        yield Measurement(f"a loop, processor slowed {rate} ×", median(first for first, _ in times["spin"]), "ms")
        for name in ("nothing cached", "files cached"):
            for what, at in (("first", 0), ("largest", 1)):
                value = median(each[at] for each in times[name])
                label = f"paint: {what}, {self.long.last_seq:,} messages, {name}, slowed {rate} ×"
                yield Measurement(label, value, "ms", value / floor)

    def measure_keys(self, rate: int, keys: int) -> Iterator[Measurement]:
        """Times from a key to the paint that shows it, in a bare field and in the composer."""
        context = self._context(signed_in=True)
        page = context.new_page()
        cdp = context.new_cdp_session(page)
        page.goto("/healthz")
        page.set_content("<textarea></textarea>")
        _slow_down(cdp, rate)
        cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        floor = _type(page, cdp, "textarea", keys)
        yield from _key_rows("floor: a bare field", rate, floor, None)
        page.goto(f"{self.home}/t/{self.long.pk}/")
        _rest(page)
        composer, field = f"key: composer of {self.long.last_seq:,} messages", "#composer-body"
        yield from _key_rows(composer, rate, _type(page, cdp, field, keys), floor)
        with self._answer_grows():
            yield from _key_rows(f"{composer}, an answer streams", rate, _type(page, cdp, field, keys), floor)
        _load_rows(page)
        yield from _key_rows(f"{composer}, {MOST_ROWS} shown", rate, _type(page, cdp, field, keys), floor)
        context.close()

    def _context(self, *, signed_in: bool = False) -> BrowserContext:
        context = self.browser.new_context(base_url=self.base, viewport={"width": 1440, "height": 900})
        if signed_in:
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": self.session, "url": self.base}])
        return context

    @contextmanager
    def _answer_grows(self) -> Iterator[None]:
        """The second half of a long answer with code, saved as a worker saves it."""
        is_over = threading.Event()
        thread = threading.Thread(target=_write_answer, args=(self.world, self.long, is_over))
        thread.start()
        time.sleep(4 * SAVE_SECONDS)
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _write_answer(world: BenchWorkspace, thread: Thread, is_over: threading.Event) -> None:
    body = long_answer(world)
    thread.refresh_from_db()
    reply = create_reply(thread=thread, author=world.vibe.participant, client_id=f"bench:{thread.last_seq}:page")
    step = round(TOKENS_PER_SECOND * SAVE_SECONDS * 4)
    for end in range(len(body) // 2, len(body) + step, step):
        Message.objects.filter(pk=reply.pk).update(body=body[:end])
        if is_over.wait(SAVE_SECONDS):
            break
    Message.objects.filter(pk=reply.pk).update(state=Message.State.COMPLETE)
    connection.close()


def _slow_down(cdp: CDPSession, rate: int) -> None:
    cdp.send("Emulation.setCPUThrottlingRate", {"rate": rate})


def _rest(page: Page) -> None:
    """Waits until the page has all that it asks for by itself."""
    page.wait_for_load_state()
    if page.locator("body[data-events]").count():
        page.wait_for_selector('body[data-live="on"]')
    page.wait_for_timeout(1_500)


@dataclass(frozen=True)
class Keys:
    """Milliseconds from each key to the paint that shows it, sorted, and of the page's processor time for one key."""

    times: Sequence[float]
    processor: float

    def percentile(self, share: float) -> float:
        return self.times[int(len(self.times) * share)]


def _type(page: Page, cdp: CDPSession, selector: str, keys: int) -> Keys:
    page.evaluate(WATCH_KEYS, selector)
    begun = _processor_seconds(cdp)
    text = (WORDS * (1 + keys // len(WORDS)))[:keys]
    for letter in text:
        page.keyboard.press("Space" if letter == " " else letter)
        page.wait_for_timeout(1000 * KEY_PAUSE_SECONDS)
    page.wait_for_function("(count) => window.keyTimes.length >= count", arg=keys)
    used = _processor_seconds(cdp) - begun
    times = sorted(float(each) for each in page.evaluate("window.keyTimes"))
    page.fill(selector, "")
    return Keys(times, 1000 * used / keys)


def _processor_seconds(cdp: CDPSession) -> float:
    metrics = cdp.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def _load_rows(page: Page) -> None:
    """Scrolls up until the page holds as many messages as it ever does, then to their middle."""
    count, scroller = "document.querySelectorAll('#messages > .message').length", "document.querySelector('#scroller')"
    for _ in range(2 * MOST_ROWS // 50):
        if page.evaluate(count) >= MOST_ROWS:
            break
        page.evaluate(f"{scroller}.scrollTop = 0")
        page.wait_for_timeout(500)
    page.evaluate(f"{scroller}.scrollTop = {scroller}.scrollHeight / 2")
    page.wait_for_timeout(2_000)


def _key_rows(what: str, rate: int, keys: Keys, floor: Keys | None) -> Iterator[Measurement]:
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        value = keys.percentile(share)
        ratio = value / floor.percentile(share) if floor else None
        yield Measurement(f"{what}, slowed {rate} ×, {name}", value, "ms", ratio)
    ratio = keys.processor / floor.processor if floor else None
    yield Measurement(f"{what}, slowed {rate} ×, processor time a key", keys.processor, "ms", ratio)

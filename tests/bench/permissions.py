"""`bench permissions`: from a call that an agent elsewhere asks leave for to its card in a page of a real browser, and
from the press of *Allow once* to the agent that goes on. A program speaks the Agent Client Protocol as real ones do,
behind `openvibe run`, under the server that `make run` starts."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from playwright.sync_api import Page

from agents.models import Agent
from openvibe.api.services import issue_token
from tests.bench.corpus import BenchWorkspace, make_bench_workspace, make_thread
from tests.bench.http_load import serve_on_free_port, session_key
from tests.bench.live import open_pages, percentiles
from tests.bench.measurement import Aim, Report

MAX_MILLISECONDS = 1_000
PATIENCE_MILLISECONDS = 30_000.0
SCOPES = ("read", "write", "memory", "knowledge")
PROGRAM = Path(__file__).parents[1] / "client" / "scripted_agent.py"
WATCH_CARDS = """() => {
  window.cardAt = {};
  window.pressedAt = {};
  const numberOf = (card) => card?.textContent.match(/ls bed-(\\d+)/)?.[1];
  new MutationObserver(() => document.querySelectorAll("#messages .run-permission").forEach((card) => {
    const number = numberOf(card);
    if (number) window.cardAt[number] ??= Date.now() / 1000;
  })).observe(document.querySelector("#messages"), { childList: true, subtree: true });
  document.addEventListener("click", (event) => {
    const number = numberOf(event.target.closest(".run-permission"));
    if (number) window.pressedAt[number] ??= Date.now() / 1000;
  }, true);
}"""


def measure_permissions(*, calls: int = 20) -> Report:
    """Measures so many calls, one after the other, each allowed by a person as soon as its card is there."""
    world = make_bench_workspace(level=3)
    Agent.objects.filter(pk=world.vibe.pk).update(answers_itself=True)
    thread = make_thread(world, 50)
    cookie = f"{settings.SESSION_COOKIE_NAME}={session_key(world.ana.user)}"
    _, token = issue_token(participant=world.ana.participant, name="bench", scopes=("write",))
    path = f"/w/{world.ana.workspace.slug}/t/{thread.pk}/"
    with (
        tempfile.TemporaryDirectory(prefix="openvibe-") as folder,
        serve_on_free_port() as port,
        _running(world, port, Path(folder)) as asked,
        open_pages(port, path, [cookie]) as ((page,), _),
    ):
        page.evaluate(WATCH_CARDS)
        _post(port, thread.pk, token, f"@vibe script-series series-{calls}")
        for number in range(calls):
            _allow(page, number)
        _wait_for(lambda: len(_rows(asked)) == calls)
        cards, pressed = page.evaluate("window.cardAt"), page.evaluate("window.pressedAt")
        rows = _rows(asked)
    to_card = sorted(cards[str(row["number"])] - row["asked_at"] for row in rows)
    to_agent = sorted(row["answered_at"] - pressed[str(row["number"])] for row in rows)
    measurements = [*percentiles("asked → card", to_card), *percentiles("allowed → the agent goes on", to_agent)]
    value = {row.what: row.value for row in measurements}
    aims = [Aim(f"{what}, p95, ms", value[f"{what}, p95"], MAX_MILLISECONDS) for what in ("asked → card", GOES_ON)]
    return Report("permissions", measurements, aims)


GOES_ON = "allowed → the agent goes on"


@contextmanager
def _running(world: BenchWorkspace, port: int, folder: Path) -> Iterator[Path]:
    """The agent's program, once it listens; the file of what it was asked."""
    _, secret = issue_token(participant=world.vibe.participant, name="bench", scopes=SCOPES)
    source = str(settings.BASE_DIR / "client" / "src")
    own = {"OPENVIBE_URL": f"http://127.0.0.1:{port}", "OPENVIBE_TOKEN": secret, "PYTHONPATH": source}
    words = ["-m", "openvibe_client.cli", "run", "--as", "vibe", "--acp", "--directory", str(folder), "--"]
    command = [sys.executable, *words, sys.executable, str(PROGRAM), str(folder)]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder), **own}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        try:
            for line in program.stderr:
                if "listens" in line:
                    break
            yield folder / "asked.jsonl"
        finally:
            program.terminate()
            program.stderr.read()


def _post(port: int, thread_id: int, token: str, body: str) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    caller.request("POST", f"/api/v1/threads/{thread_id}/messages/", json.dumps({"body": body}), headers)
    assert caller.getresponse().read()
    caller.close()


def _allow(page: Page, number: int) -> None:
    """Presses *Allow once* on the card of this call."""
    card = page.locator("#messages .run-permission", has_text=f"ls bed-{number:02}")
    card.get_by_role("button", name="Allow once").click(timeout=PATIENCE_MILLISECONDS)


def _rows(asked: Path) -> list[dict[str, Any]]:
    lines = asked.read_text(encoding="utf-8").splitlines() if asked.exists() else []
    return [row for row in map(json.loads, lines) if row["method"] == "answered"]


def _wait_for(is_so: Any) -> None:
    deadline = time.monotonic() + PATIENCE_MILLISECONDS / 1000
    while time.monotonic() < deadline and not is_so():
        time.sleep(0.05)

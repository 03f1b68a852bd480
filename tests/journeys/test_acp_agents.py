"""Agents that speak the Agent Client Protocol behind `openvibe run`, in a served installation."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from tests.client.shim import Shim, shim_before
from tests.journeys.installation import Installation
from tests.journeys.test_openvibe_client import CLIENT, MAKE_AGENT, SCOPES
from tests.journeys.test_run_recovery import API_PAUSE, ask, messages
from tests.operations.processes import PATIENCE, wait_until

SCRIPT = Path(__file__).parents[1] / "client" / "scripted_agent.py"
OVER = ("done", "stopped", "failed")
numbers = count(1)


@dataclass
class Garden:
    """An agent of the workspace, the scripted program that answers for it, and Ana, who talks to it."""

    installation: Installation
    shim: Shim
    folder: Path
    handle: str
    token: str
    own_token: str
    programs: ExitStack = field(default_factory=ExitStack)
    log: list[str] = field(default_factory=list)

    def start(self, *abilities: str, state: str = "state", url: str = "") -> subprocess.Popen[str]:
        """`openvibe run` with the program, from the moment it listens."""
        program = self.spawn(*abilities, state=state, url=url)
        wait_until(lambda: any("listens" in line for line in self.log) or program.poll() is not None, "it listens")
        assert program.poll() is None, self.log
        return program

    def spawn(self, *abilities: str, state: str = "state", url: str = "") -> subprocess.Popen[str]:
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": CLIENT,
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / state),
            "OPENVIBE_URL": url or self.shim.url,
            "OPENVIBE_TOKEN": self.own_token,
        }
        words = ["run", "--acp", "--as", self.handle, "--", sys.executable, str(SCRIPT), str(self.folder), *abilities]
        program = self.programs.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "openvibe_client.cli", *words],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        self.programs.callback(program.kill)
        self.log.clear()
        Thread(target=self._read, args=(program,), daemon=True).start()
        return program

    def _read(self, program: subprocess.Popen[str]) -> None:
        assert program.stdout is not None
        for line in program.stdout:
            self.log.append(line)

    def ask(self, text: str, thread: int | None = None) -> int:
        body = f"@{self.handle} {text}"
        if thread is None:
            return ask(self.installation, self.token, body)[0]
        self.installation.api("POST", f"threads/{thread}/messages/", self.token, {"body": body})
        return thread

    def run_of(self, thread: int) -> dict[str, Any]:
        runs = self.installation.api("GET", f"runs/?thread={thread}", self.token)["results"]
        return dict(self.installation.api("GET", f"runs/{runs[0]['id']}/", self.token)) if runs else {"state": ""}

    def ended(self, thread: int, number: int = 1) -> dict[str, Any]:
        def is_over() -> bool:
            runs = self.installation.api("GET", f"runs/?thread={thread}", self.token)["results"]
            return len(runs) == number and all(run["state"] in OVER for run in runs)

        wait_until(is_over, f"the answers in {thread}: {self.log}", pause=API_PAUSE)
        return self.run_of(thread)

    def said(self, thread: int) -> list[str]:
        rows = messages(self.installation, self.token, thread)
        return [row["body"] for row in rows if row["author"]["handle"] == self.handle]

    def steps(self, run: dict[str, Any]) -> list[dict[str, Any]]:
        return [event["step"] for event in run["events"] if event["step"]]

    def asked(self, method: str) -> list[dict[str, Any]]:
        """What the program was asked by this method so far."""
        file = self.folder / "asked.jsonl"
        rows = map(json.loads, file.read_text(encoding="utf-8").splitlines()) if file.exists() else []
        return [row for row in rows if row["method"] == method]

    def is_asked(self, method: str, times: int = 1) -> Callable[[], bool]:
        return lambda: len(self.asked(method)) >= times


@pytest.fixture
def garden(installation: Installation, tmp_path: Path) -> Iterator[Garden]:
    handle = f"moss{next(numbers)}"
    installation.shell(MAKE_AGENT.format(handle=handle, name=handle.title()))
    tokens = (installation.token("ana"), installation.token(handle, SCOPES))
    with shim_before(installation.url) as shim:
        here = Garden(installation, shim, tmp_path, handle, *tokens)
        with here.programs:
            yield here


def test_words_thoughts_calls_and_the_plan_are_shown(garden: Garden) -> None:
    garden.start("babble")
    run = garden.ended(thread := garden.ask("script-show"))
    assert (run["state"], garden.said(thread)) == ("done", ["I look.\n\nDone."])
    assert (run["model"], run["input_tokens"], run["output_tokens"]) == ("scripted-1", 105, 10)
    edit = next(step for step in garden.steps(run) if step["kind"] == "tool")
    assert (edit["text"], edit["tool"], edit["state"]) == ("Edit roses.txt", "edit", "done")
    assert "Roses first." in json.dumps(run)
    assert [entry["content"] for entry in garden.shim.plans[-1]] == ["Look", "Prune"]
    (new,), (listed,) = garden.asked("new"), garden.asked("tools")
    assert "knowledge_search" in listed["names"]
    assert garden.own_token not in json.dumps([new, *garden.asked("prompt")])


def test_a_thread_goes_on_in_its_session_and_only_what_is_new_is_asked_for(garden: Garden) -> None:
    program = garden.start("no-http")
    thread = garden.ask("when?")
    first = garden.ended(thread)
    garden.ended(garden.ask("and why? script-plain", thread), 2)
    assert [row["session"] for row in garden.asked("prompt")] == ["session-1", "session-1"]
    assert len(garden.asked("initialize")) == 1
    program.terminate()
    assert program.wait(PATIENCE) == 143
    garden.start()
    garden.ended(garden.ask("and where? script-plain", thread), 3)
    assert len(garden.asked("new")) == len(garden.asked("load")) == 1
    assert "What was said before." not in garden.said(thread)[-1], "a session's history is no answer"
    assert next(body["after_run"] for body in garden.shim.contexts if "after_run" in body) == first["id"]


def test_people_decide_what_it_may_do_and_their_note_reaches_it(garden: Garden) -> None:
    garden.shim.default = "waiting"
    garden.start()
    thread = garden.ask("script-permit")
    wait_until(lambda: garden.shim.asked, "it asks")
    (question,) = garden.shim.asked
    assert (question["kind"], question["command"], question["title"]) == ("execute", "ls roses", "`ls roses`")
    garden.shim.decide("denied", why="Ana denied it.", note="Look, do not list.")
    garden.installation.api("POST", "work/", garden.token, {"thread": thread, "kind": "todo", "text": "Look"})
    run = garden.ended(thread)
    assert garden.asked("outcome")[0]["outcome"] == "no"
    assert "Look, do not list." in garden.asked("prompt")[-1]["text"]
    (step,) = garden.steps(run)
    assert (step["state"], step["result"]) == ("refused", "Ana denied it. Look, do not list.")


def test_allowed_for_good_is_still_asked_of_the_workspace_each_time(garden: Garden) -> None:
    garden.shim.scope = "always"
    garden.start()
    garden.ended(garden.ask("script-permit"))
    assert garden.asked("outcome")[-1]["outcome"] == "go"


def test_a_question_asked_twice_is_one_and_another_command_is_another(garden: Garden) -> None:
    garden.start()
    garden.ended(thread := garden.ask("script-twice"))
    assert garden.said(thread) == ["Chose go, go, go."]
    assert [question["command"] for question in garden.shim.asked] == ["ls roses", "rm -r roses"]


def test_options_that_nobody_knows_are_never_chosen(garden: Garden) -> None:
    garden.start()
    garden.ended(thread := garden.ask("script-strange"))
    assert garden.said(thread) == ['Chose {"outcome": "cancelled"}.']


def test_stop_cancels_the_turn_and_whoever_asks_then_gets_nothing(garden: Garden) -> None:
    (garden.folder / "ask-after-stop").touch()
    garden.start()
    thread = garden.ask("script-forever")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    garden.installation.api("POST", f"runs/{garden.run_of(thread)['id']}/stop/", garden.token, {})
    wait_until(garden.is_asked("outcome"), "it hears of the stop")
    assert garden.asked("outcome")[0]["outcome"] == "cancelled"
    assert (garden.shim.asked, garden.run_of(thread)["state"]) == ([], "stopped")
    wait_until(lambda: any(line.endswith(": stopped.\n") for line in garden.log), "it says so")
    garden.ended(garden.ask("and now? script-plain", thread), 2)
    assert len(garden.asked("initialize")) == 1, "its process goes on"


def test_stop_while_people_are_asked_and_one_that_hears_nothing_is_ended(garden: Garden) -> None:
    garden.shim.default = "waiting"
    garden.start()
    asking, deaf = garden.ask("script-permit"), garden.ask("script-deaf")
    wait_until(lambda: garden.shim.asked and garden.said(deaf), "both are under way", pause=API_PAUSE)
    process = psutil.Process(int(garden.said(deaf)[0]))
    for thread in (asking, deaf):
        garden.installation.api("POST", f"runs/{garden.run_of(thread)['id']}/stop/", garden.token, {})
    wait_until(garden.is_asked("outcome"), "the question is taken back")
    assert garden.asked("outcome")[0]["outcome"] == "cancelled"
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "it is ended")
    assert "failed" not in "".join(garden.log)


def test_one_that_dies_between_question_and_answer_fails_in_a_sentence(garden: Garden) -> None:
    garden.shim.default = "waiting"
    garden.start()
    thread = garden.ask("script-die")
    wait_until(lambda: garden.shim.asked, "it asks")
    (garden.folder / "die").touch()
    run = garden.ended(thread)
    sentence, _, details = run["error"].partition("\n\n")
    assert run["state"] == "failed"
    assert sentence.endswith("It ended with exit code 7: Error: out of roses")
    assert "at prune (garden.js:1:1)" in details
    garden.ended(garden.ask("still there? script-plain", thread), 2)
    assert garden.said(thread), "a new process answers"


def test_an_error_in_json_becomes_its_sentence(garden: Garden) -> None:
    garden.start()
    run = garden.ended(garden.ask("script-fail"))
    assert run["error"].partition("\n\n")[0].endswith("Your credit balance is too low.")


def test_fifty_megabytes_in_one_update_and_a_hundred_thousand_changed_lines(garden: Garden) -> None:
    program = garden.start()
    huge, many = garden.ask("script-huge"), garden.ask("script-many")
    run = garden.ended(huge)
    assert garden.said(huge) == ["Before. After."]
    assert any("bytes in updates" in step["text"] for step in garden.steps(run))
    assert garden.ended(many)["state"] == "done"
    assert psutil.Process(program.pid).memory_info().rss < 300_000_000


def test_what_people_say_meanwhile_is_its_next_prompt(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-wait")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    garden.shim.said.append("And what of the hedge?")
    (garden.folder / "go-on").touch()
    run = garden.ended(thread)
    assert (garden.asked("prompt")[-1]["text"], len(garden.asked("new"))) == ("And what of the hedge?", 1)
    assert garden.said(thread) == ["Slowly.\n\nPrune in March. Turn 2."]
    assert run["input_tokens"] == 2 * 105


def test_an_interruption_is_heard_at_once(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-wait")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    garden.shim.said.append("Stop that. The hedge first.")
    garden.shim.interrupt = True
    assert garden.ended(thread)["state"] == "done"
    assert len(garden.asked("cancel")) == 1
    assert garden.asked("prompt")[-1]["text"] == "Stop that. The hedge first."


def test_a_server_that_is_away_for_a_while_costs_no_answer(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-wait")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    garden.shim.is_away = True
    (garden.folder / "go-on").touch()
    wait_until(lambda: garden.shim.refused > 4, "it tries again")
    garden.shim.is_away = False
    assert garden.ended(thread)["state"] == "done"


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_what_was_under_way_goes_on_after_a_restart(garden: Garden, end: str) -> None:
    program = garden.start()
    thread = garden.ask("script-wait")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    getattr(program, end)()
    program.wait(PATIENCE)
    garden.start()
    wait_until(garden.is_asked("prompt", 2), "it is told to go on")
    assert garden.ended(thread)["state"] == "done"
    assert "Go on where you were" in garden.asked("prompt")[-1]["text"]
    assert garden.said(thread) == ["Slowly.\n\nPrune in March. Turn 1."]


def test_one_that_cannot_load_its_session_says_that_it_broke_off(garden: Garden) -> None:
    program = garden.start("no-load")
    thread = garden.ask("script-wait")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    program.kill()
    program.wait(PATIENCE)
    garden.start("no-load")
    run = garden.ended(thread)
    assert (run["state"], garden.said(thread)) == ("failed", ["Slowly."])
    assert "broke off" in run["error"]


def test_it_waits_for_the_tools_and_says_when_they_do_not_come(garden: Garden) -> None:
    garden.start("no-tools")
    run = garden.ended(garden.ask("when?"))
    assert any("tools were not there in time" in step["text"] for step in garden.steps(run))


def test_two_clients_of_one_agent_answer_once(garden: Garden) -> None:
    garden.start()
    second = garden.spawn()
    assert second.wait(PATIENCE) == 2
    wait_until(lambda: any("is run here already" in line for line in garden.log), "it says why")
    garden.start(state="elsewhere")
    garden.ended(thread := garden.ask("when?"))
    assert len(garden.said(thread)) == len(garden.asked("prompt")) == 1


def test_before_an_older_server_nothing_is_allowed_and_that_is_said(garden: Garden) -> None:
    with shim_before(garden.installation.url, is_old=True) as old:
        garden.start(url=old.url)
        run = garden.ended(garden.ask("script-permit"))
        shown = garden.ended(garden.ask("script-show"))
    assert garden.asked("outcome")[0]["outcome"] == "no"
    assert "older than its client" in garden.steps(run)[0]["result"]
    assert any("☑ Look" in step["text"] for step in garden.steps(shown))

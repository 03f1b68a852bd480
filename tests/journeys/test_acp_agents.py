"""Agents that speak the Agent Client Protocol behind `openvibe run`, in a served installation."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any

import psutil
import pytest

from tests.journeys.installation import Installation
from tests.journeys.test_openvibe_client import CLIENT, MAKE_AGENT, SCOPES
from tests.journeys.test_run_recovery import API_PAUSE, ask, messages
from tests.operations.processes import PATIENCE, wait_until

SCRIPT = Path(__file__).parents[1] / "client" / "scripted_agent.py"
OVER = ("done", "stopped", "failed")
TURNS = 50
WITHOUT_FALLBACK = """
from openvibe_client import turn
from openvibe_client.cli import main
turn.ASK_AGAIN_SECONDS = 86_400.0
raise SystemExit(main())
"""
PLANS = """
from agents.runs.external.plans import agent_plans
print([(entry["content"], entry["status"]) for plan in agent_plans({thread}) for entry in plan.entries])
"""
numbers = count(1)


@dataclass
class Garden:
    """An agent of the workspace, the scripted program that answers for it, and Ana, who talks to it."""

    installation: Installation
    folder: Path
    handle: str
    token: str
    own_token: str
    programs: ExitStack = field(default_factory=ExitStack)
    log: list[str] = field(default_factory=list)

    def start(
        self, *abilities: str, state: str = "state", without_fallback: bool = False, options: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """`openvibe run` with the program and these options, from the moment it listens."""
        program = self.spawn(*abilities, state=state, without_fallback=without_fallback, options=options)
        self.wait_until_it_listens(program)
        return program

    def wait_until_it_listens(self, program: subprocess.Popen[str]) -> None:
        wait_until(lambda: any("listens" in line for line in self.log) or program.poll() is not None, "it listens")
        assert program.poll() is None, self.log

    def spawn(
        self, *abilities: str, state: str = "state", without_fallback: bool = False, options: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """`without_fallback`: it never looks again by itself whether people have decided."""
        words = ["run", "--acp", "--as", self.handle, *options, *self.command(*abilities)]
        return self.call(*words, state=state, without_fallback=without_fallback, env=self.who)

    @property
    def who(self) -> dict[str, str]:
        return {"OPENVIBE_URL": self.installation.url, "OPENVIBE_TOKEN": self.own_token}

    def command(self, *abilities: str) -> list[str]:
        return ["--", sys.executable, str(SCRIPT), str(self.folder), *abilities]

    def call(
        self, *words: str, state: str = "state", without_fallback: bool = False, env: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """The client's command with these words."""
        usual = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": CLIENT,
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / state),
        }
        start = ["-c", WITHOUT_FALLBACK] if without_fallback else ["-m", "openvibe_client.cli"]
        program = self.programs.enter_context(
            subprocess.Popen(
                [sys.executable, *start, *words],
                env={**usual, **(env or {})},
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

    def api(self, method: str, path: str, body: object = None) -> Any:
        """What Ana does."""
        return self.installation.api(method, path, self.token, body)

    def ask(self, text: str, thread: int | None = None) -> int:
        body = f"@{self.handle} {text}"
        if thread is None:
            return ask(self.installation, self.token, body)[0]
        self.say(thread, body)
        return thread

    def say(self, thread: int, body: str) -> None:
        self.api("POST", f"threads/{thread}/messages/", {"body": body})

    def run_of(self, thread: int) -> dict[str, Any]:
        runs = self.api("GET", f"runs/?thread={thread}")["results"]
        return dict(self.api("GET", f"runs/{runs[0]['id']}/")) if runs else {"state": ""}

    def ended(self, thread: int, number: int = 1) -> dict[str, Any]:
        def is_over() -> bool:
            runs = self.api("GET", f"runs/?thread={thread}")["results"]
            return len(runs) == number and all(run["state"] in OVER for run in runs)

        wait_until(is_over, f"the answers in {thread}: {self.log}", pause=API_PAUSE)
        return self.run_of(thread)

    def cards(self, thread: int, number: int = 1) -> list[dict[str, Any]]:
        """What people are asked in the thread, once they are asked so often."""

        def rows() -> list[dict[str, Any]]:
            return list(self.api("GET", f"approvals/?thread={thread}&state=requested")["results"])

        wait_until(lambda: len(rows()) == number, f"it asks {number} times: {self.log}", pause=API_PAUSE)
        return rows()

    def decide(self, thread: int, *, granted: bool, note: str = "") -> dict[str, Any]:
        """Ana answers what it asks; the call that it was about."""
        (card,) = self.cards(thread)
        self.api("POST", f"approvals/{card['id']}/decide/", {"granted": granted, "note": note})
        return dict(card["call"]["permission"])

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

    def is_back(self) -> bool:
        """Whether the server answers."""
        try:
            return bool(self.api("GET", "me/"))
        except OSError:
            return False

    def is_asked(self, method: str, times: int = 1) -> Callable[[], bool]:
        return lambda: len(self.asked(method)) >= times


@pytest.fixture
def garden(installation: Installation, tmp_path: Path) -> Iterator[Garden]:
    handle = f"moss{next(numbers)}"
    installation.shell(MAKE_AGENT.format(handle=handle, name=handle.title()))
    tokens = (installation.token("ana", "read,write,admin"), installation.token(handle, SCOPES))
    here = Garden(installation, tmp_path, handle, *tokens)
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
    (file,) = edit["files"]
    assert (file["path"], file["added"], file["removed"]) == ("roses.txt", 1, 1)
    plan = [("Look", "completed"), ("Prune", "pending")]
    assert garden.installation.shell(PLANS.format(thread=thread)) == str(plan)
    (new,), (listed,) = garden.asked("new"), garden.asked("tools")
    assert "knowledge_search" in listed["names"]
    assert garden.own_token not in json.dumps([new, *garden.asked("prompt")])


def test_a_thread_goes_on_in_its_session_and_only_what_is_new_is_asked_for(garden: Garden) -> None:
    program = garden.start("no-http")
    thread = garden.ask("when?")
    garden.ended(thread)
    garden.ended(garden.ask("and why? script-plain", thread), 2)
    assert [row["session"] for row in garden.asked("prompt")] == ["session-1", "session-1"]
    assert len(garden.asked("initialize")) == 1
    program.terminate()
    assert program.wait(PATIENCE) == 143
    garden.start()
    garden.ended(garden.ask("and where? script-plain", thread), 3)
    assert len(garden.asked("new")) == len(garden.asked("load")) == 1
    assert "What was said before." not in garden.said(thread)[-1], "a session's history is no answer"
    whole, *new = [row["text"] for row in garden.asked("prompt")]
    assert "Answers from elsewhere" in whole
    assert [("why?" in text, "where?" in text, "when?" in text) for text in new] == [(1, 0, 0), (0, 1, 0)]


def test_people_decide_what_it_may_do_and_their_note_reaches_it(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-permit")
    call = garden.decide(thread, granted=False, note="Look, do not list.")
    assert (call["kind"], call["command"], call["title"]) == ("execute", "ls roses", "`ls roses`")
    run = garden.ended(thread)
    assert garden.asked("outcome")[0]["outcome"] == "no"
    assert "Look, do not list." in garden.asked("prompt")[-1]["text"]
    (step,) = garden.steps(run)
    assert (step["state"], step["result"]) == ("refused", "Ana denied this. Look, do not list.")


def test_words_after_a_call_that_it_only_asked_for_are_a_new_paragraph(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-tells")
    garden.decide(thread, granted=True)
    garden.ended(thread)
    assert garden.said(thread) == ["I look.\n\nChose go."]


def test_a_decision_reaches_it_by_the_event_of_its_thread(garden: Garden) -> None:
    garden.start(without_fallback=True)
    for granted, outcome in ((True, "go"), (False, "no")):
        thread = garden.ask("script-permit")
        garden.decide(thread, granted=granted)
        garden.ended(thread)
        assert garden.asked("outcome")[-1]["outcome"] == outcome


def test_allowed_for_good_is_still_asked_of_the_workspace_each_time(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-permit")
    (card,) = garden.cards(thread)
    garden.api("POST", f"approvals/{card['id']}/always/", {"pattern": "ls *"})
    garden.ended(thread)
    garden.ended(garden.ask("script-permit", thread), 2)
    assert [row["outcome"] for row in garden.asked("outcome")] == ["go", "go"]
    (rule,) = garden.api("GET", f"agents/{garden.handle}/rules/")["results"]
    garden.api("DELETE", f"agents/{garden.handle}/rules/{rule['id']}/")
    garden.ask("script-permit", thread)
    garden.decide(thread, granted=False)
    garden.ended(thread, 3)
    assert garden.asked("outcome")[-1]["outcome"] == "no"


def test_files_are_judged_by_their_place_in_its_folder(garden: Garden) -> None:
    garden.api("POST", f"agents/{garden.handle}/rules/", {"kind": "edit", "effect": "allow", "pattern": "beds/*"})
    garden.start()
    thread = garden.ask("script-edits")
    assert garden.decide(thread, granted=False)["paths"] == ["/etc/roses.txt"]
    garden.ended(thread)
    assert [row["outcome"] for row in garden.asked("outcome")] == ["go", "no"]


def test_what_is_too_long_for_people_to_see_is_denied(garden: Garden) -> None:
    garden.start()
    run = garden.ended(garden.ask("script-endless"))
    assert garden.asked("outcome")[0]["outcome"] == "no"
    (step,) = garden.steps(run)
    assert (step["state"], "20000" in step["result"].replace(",", "")) == ("refused", True)


def test_a_question_asked_twice_is_one_and_another_command_is_another(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-twice")
    commands = [garden.decide(thread, granted=True)["command"] for _ in range(2)]
    garden.ended(thread)
    assert garden.said(thread) == ["Chose go, go, go."]
    assert commands == ["ls roses", "rm -r roses"]


def test_options_that_nobody_knows_are_never_chosen(garden: Garden) -> None:
    garden.start()
    garden.ended(thread := garden.ask("script-strange"))
    assert garden.said(thread) == ['Chose {"outcome": "cancelled"}.']


def test_stop_cancels_the_turn_and_whoever_asks_then_gets_nothing(garden: Garden) -> None:
    (garden.folder / "ask-after-stop").touch()
    garden.start()
    thread = garden.ask("script-forever")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    garden.api("POST", f"runs/{garden.run_of(thread)['id']}/stop/", {})
    wait_until(garden.is_asked("outcome"), "it hears of the stop")
    assert garden.asked("outcome")[0]["outcome"] == "cancelled"
    assert garden.api("GET", f"approvals/?thread={thread}")["results"] == []
    assert garden.run_of(thread)["state"] == "stopped"
    wait_until(lambda: any(line.endswith(": stopped.\n") for line in garden.log), "it says so")
    garden.ended(garden.ask("and now? script-plain", thread), 2)
    assert len(garden.asked("initialize")) == 1, "its process goes on"


def test_stop_while_people_are_asked_and_one_that_hears_nothing_is_ended(garden: Garden) -> None:
    garden.start()
    asking, deaf = garden.ask("script-permit"), garden.ask("script-deaf")
    garden.cards(asking)
    wait_until(lambda: garden.said(deaf), "both are under way", pause=API_PAUSE)
    process = psutil.Process(int(garden.said(deaf)[0]))
    for thread in (asking, deaf):
        garden.api("POST", f"runs/{garden.run_of(thread)['id']}/stop/", {})
    wait_until(garden.is_asked("outcome"), "the question is taken back")
    assert garden.asked("outcome")[0]["outcome"] == "cancelled"
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "it is ended")
    assert "failed" not in "".join(garden.log)


def test_one_that_dies_between_question_and_answer_fails_in_a_sentence(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-die")
    garden.cards(thread)
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
    garden.say(thread, "And what of the hedge?")
    garden.say(thread, f"@{garden.handle} and the ivy?")
    (garden.folder / "go-on").touch()
    garden.ended(thread, 2)
    first, second = garden.asked("prompt")
    assert "hedge" not in first["text"]
    assert "And what of the hedge?" in second["text"]
    assert "and the ivy?" in second["text"]
    assert len(garden.asked("new")) == 1
    assert garden.said(thread) == ["Slowly.\n\nPrune in March. Turn 2."]
    runs = garden.api("GET", f"runs/?thread={thread}")["results"]
    assert sorted(run["input_tokens"] for run in runs) == [0, 2 * 105], "the second is answered by the first"


def test_an_interruption_is_heard_at_once(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-wait")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    garden.say(thread, "Not that. The hedge first.")
    garden.api("POST", f"runs/{garden.run_of(thread)['id']}/interrupt/", {})
    assert garden.ended(thread)["state"] == "done"
    assert len(garden.asked("cancel")) == 1
    assert "Not that. The hedge first." in garden.asked("prompt")[-1]["text"]


def test_a_server_that_is_away_for_a_while_costs_no_answer(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("script-wait")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    garden.installation.kill("web")
    (garden.folder / "go-on").touch()
    wait_until(garden.is_back, "the server is back", pause=API_PAUSE)
    assert garden.ended(thread)["state"] == "done"
    assert garden.said(thread) == ["Slowly.\n\nPrune in March. Turn 1."] or garden.said(thread) == ["Slowly."]


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_what_was_under_way_goes_on_after_a_restart(garden: Garden, end: str) -> None:
    program = garden.start()
    thread = garden.ask("script-wait")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    getattr(program, end)()
    program.wait(PATIENCE)
    garden.start()
    wait_until(garden.is_asked("prompt", 2), "it is told to go on")
    run = garden.ended(thread)
    assert (run["state"], run["attempt"]) == ("done", 2)
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


def test_a_command_without_the_protocol_is_not_run_twice(garden: Garden) -> None:
    os.mkfifo(garden.folder / "go-on")
    script = "cat > /dev/null; echo begun >> runs; echo Slowly.; read line < go-on"
    command = ["run", "--plain", "--as", garden.handle, "--directory", str(garden.folder), "--", "sh", "-c", script]
    program = garden.call(*command, env=garden.who)
    garden.wait_until_it_listens(program)
    thread = garden.ask("when?")
    wait_until(lambda: garden.said(thread), "its first words", pause=API_PAUSE)
    program.kill()
    program.wait(PATIENCE)
    garden.wait_until_it_listens(garden.call(*command, env=garden.who))
    run = garden.ended(thread)
    assert (run["state"], garden.said(thread)) == ("failed", ["Slowly.\n"])
    assert "broke off" in run["error"]
    assert (garden.folder / "runs").read_text(encoding="ascii") == "begun\n"
    (garden.folder / "go-on").write_text("\n", encoding="ascii")


def test_it_waits_for_the_tools_and_says_when_they_do_not_come(garden: Garden) -> None:
    garden.start("no-tools")
    run = garden.ended(garden.ask("when?"))
    assert any("tools were not there in time" in step["text"] for step in garden.steps(run))


def test_a_turn_that_never_ends_is_ended_at_its_limit(garden: Garden) -> None:
    garden.start(options=["--timeout", "3"])
    run = garden.ended(thread := garden.ask("script-deaf"))
    process = psutil.Process(int(garden.said(thread)[0])) if psutil.pid_exists(int(garden.said(thread)[0])) else None
    assert run["state"] == "failed"
    assert "longer than its limit of 0.05 minutes" in run["error"]
    assert process is None or process.status() == psutil.STATUS_ZOMBIE
    garden.ended(garden.ask("still there? script-plain", thread), 2)
    assert "Prune in March." in garden.said(thread)[-1], "a new process answers"


def test_an_agent_that_sends_what_it_likes_costs_nobody_anything(garden: Garden) -> None:
    """Texts of megabytes, NUL and characters that are not seen, a plan without end, and hundreds of turns of one call:
    each is cut, and the words still come."""
    program = garden.start()
    run = garden.ended(thread := garden.ask("script-hostile"))
    assert (run["state"], garden.said(thread)[0][-11:]) == ("done", "Still here.")
    assert len(run["events"]) < 250
    assert max(len(step["text"]) for step in garden.steps(run)) <= 100_000
    assert "\x00" not in json.dumps(run)
    (edit,) = garden.steps(run)
    assert (edit["files"][0]["path"], edit["state"]) == ("ab", "done")
    plan = garden.installation.shell(PLANS.format(thread=thread))
    assert 100 * 400 < len(plan) < 100 * 3_100
    garden.ended(garden.ask("and now? script-plain", thread), 2)
    assert program.poll() is None


def test_two_clients_of_one_agent_answer_once(garden: Garden) -> None:
    garden.start()
    second = garden.spawn()
    assert second.wait(PATIENCE) == 2
    wait_until(lambda: any("is run here already" in line for line in garden.log), "it says why")
    garden.start(state="elsewhere")
    garden.ended(thread := garden.ask("when?"))
    assert len(garden.said(thread)) == len(garden.asked("prompt")) == 1


def test_an_agent_joins_with_a_code_and_runs_from_then_on(garden: Garden) -> None:
    code = garden.api("POST", f"agents/{garden.handle}/join-codes/", {"command": "claude"})
    words = ["join", code["code"], "--url", garden.installation.url, "--acp", *garden.command()]
    program = garden.call(*words)
    garden.wait_until_it_listens(program)
    garden.ended(thread := garden.ask("when?"))
    assert garden.said(thread) == ["Prune in March. Turn 1."]
    (kept,) = (garden.folder / ".config" / "openvibe" / "agents").iterdir()
    joined = json.loads(kept.read_text(encoding="utf-8"))
    assert (joined["handle"], joined["url"]) == (garden.handle, garden.installation.url)
    assert (kept.stat().st_mode & 0o077, kept.parent.stat().st_mode & 0o077) == (0, 0)
    assert joined["token"] not in "".join(garden.log)
    program.terminate()
    program.wait(PATIENCE)

    again = garden.call(*words)
    assert again.wait(PATIENCE) == 1
    wait_until(lambda: any("code" in line for line in garden.log), "it says why")
    garden.wait_until_it_listens(garden.call("run", "--as", garden.handle, "--acp", *garden.command()))


def test_what_a_turn_costs_stays_flat_over_fifty_turns(garden: Garden) -> None:
    garden.start()
    thread = garden.ask("When do we prune the roses by the shed?")
    for number in range(2, TURNS + 1):
        garden.ended(thread, number - 1)
        garden.ask("And the next bed, which has grown so much?", thread)
    garden.ended(thread, TURNS)
    _, *sent = [row["text"] for row in garden.asked("prompt")]
    assert len(sent) == TURNS - 1
    usual = median(map(len, sent))
    others = [text for text in sent if not 0.8 * usual <= len(text) <= 1.2 * usual]
    assert not others, "\n\n".join(others)
    assert len(garden.asked("new")) == 1
    read = [run["input_tokens"] for run in garden.api("GET", f"runs/?thread={thread}&limit=100")["results"]]
    assert set(read) == {105}

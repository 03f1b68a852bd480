"""A whole OpenVibe as people meet it: `manage.py serve` with everything it starts, and a model that can be steered."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import psutil

from openvibe.engines.serving.supervisor import PROCESS_NAME_PREFIX
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving
from tests.operations.processes import PATIENCE, free_port, processes_of, python, wait_until
from tests.operations.server import Serving

SET_UP = """
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Workspace
Endpoint.objects.create(workspace=Workspace.objects.get(slug="willow"), name="Steered", kind="openai",
    base_url={base_url!r}, api_key="sk-test-canary-0123456789abcdef", model="gpt-4o", is_default=True,
    timeout_seconds=600)
"""

SHELL = """
import contextlib, io, json, sys, traceback
for line in sys.stdin:
    said, problem = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(said):
            exec(json.loads(line), dict(globals()))
    except BaseException:
        problem = traceback.format_exc()
    print("done " + json.dumps([said.getvalue(), problem]), flush=True)
"""
ISSUE_TOKEN = """
from django.core.management import call_command
of_whom = ["--workspace", "willow", "--handle", {handle!r}]
call_command("token", "issue", *of_whom, "--name", "test", "--scopes", {scopes!r})
"""

UNFINISHED = """
from agents.models import RUNS, Run
from memory.plugins.models import COMPACTIONS, Compaction
runs = Run.objects.filter(RUNS.condition, state__in=RUNS.unfinished, agent__answers_itself=False)
print([*runs.values_list("pk", flat=True), *Compaction.objects.filter(state__in=COMPACTIONS.unfinished)])
"""

MODEL_HERE = {
    "OPENVIBE_ALLOW_PRIVATE_ENDPOINTS": "1",
    "OPENVIBE_MODEL_FIRST_ANSWER_SECONDS": "600",
    "OPENVIBE_MODEL_TOTAL_SECONDS": "600",
}
"""A model on this machine, which a test may hold back for as long as it likes."""
SUMMARISE = 'task="summarise"'


@dataclass
class Steered:
    """What the model says: set `answer`; everything it was asked stands in `asked`.

    `calls` comes before `answer`, one for each prompt that offers tools. `summary` makes a summary of what was said,
    where one is asked for; without it the model says its `answer` there too.
    """

    answer: Answer = field(default_factory=lambda: Answer(text="Prune in March."))
    calls: list[Answer] = field(default_factory=list)
    summary: Callable[[str], str] | None = None
    asked: list[Asked] = field(default_factory=list)
    _held: list[Event] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if self.summary is not None and SUMMARISE in words_of(asked):
            return Answer(text=self.summary(words_of(asked)))
        return self.calls.pop(0) if self.calls and asked.body.get("tools") else self.answer

    def says(self, text: str) -> None:
        self.answer = Answer(text=text)

    def calls_first(self, name: str, text: str = "", **arguments: object) -> None:
        """Has the model call this tool before its answer."""
        number = f"call-{len(self.asked)}-{len(self.calls)}"
        self.calls.append(Answer(text=text, tool_calls=((number, name, json.dumps(arguments)),)))

    def holds_back_after_first_words(self, text: str) -> Event:
        """The next answers stop after their first words until the event is set."""
        self.answer = Answer(text=text, hold_after_first=self._hold())
        return self._held[-1]

    def holds_back(self, text: str) -> Event:
        """The next answers come once the event is set: also those that are not streamed."""
        self.answer = Answer(text=text, hold=self._hold())
        return self._held[-1]

    def _hold(self) -> Event:
        self._held.append(Event())
        return self._held[-1]

    def begin_anew(self) -> None:
        """Begins as before the first test: whatever was held back goes on, and nothing of it is remembered."""
        for go_on in self._held:
            go_on.set()
        self.says("All right.")
        self.calls, self.summary, self._held = [], None, []

    @property
    def last_prompt(self) -> str:
        """Everything the newest prompt of an agent held, as one text."""
        return words_of(next(asked for asked in reversed(self.asked) if asked.body.get("tools")))


def words_of(asked: Asked) -> str:
    return "\n".join(str(message["content"]) for message in asked.body["messages"])


class Shell:
    """One `manage.py shell` for a whole installation: a new one for each piece of code takes seconds to start."""

    def __init__(self, var: Path) -> None:
        self.process = python("manage.py", "shell", "-v", "0", "-c", SHELL, var=var, **MODEL_HERE)

    def run(self, code: str) -> str:
        """What the code printed. Its names are gone afterwards."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        log = []
        for line in self.process.stdout:
            if line.startswith("done "):
                said, problem = json.loads(line.removeprefix("done "))
                assert not problem, problem
                return str(said).strip()
            log.append(line)
        raise AssertionError("the shell ended: " + "".join(log))

    def close(self) -> None:
        self.process.communicate()


@dataclass
class Installation:
    """A served OpenVibe with its first workspace, Willow & Co, and Ana who owns it."""

    var: Path
    serve: Serving
    model: Steered
    email: str
    password: str
    _shell: Shell

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.serve.port}"

    def kill(self, service: str) -> None:
        """`kill -9` for every process of one of the services (`openvibe.runner.services`)."""
        for process in self._processes(service):
            with suppress(psutil.Error):
                process.kill()

    @contextmanager
    def hanging(self, service: str) -> Iterator[None]:
        """Stops a service: inside, its processes do nothing, and close nothing."""
        processes = self._processes(service)
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def _processes(self, service: str) -> list[psutil.Process]:
        name = f"{PROCESS_NAME_PREFIX}{service}"
        processes = processes_of(self.var, name)
        assert processes, f"nothing runs as {name}"
        return processes

    def shell(self, code: str) -> str:
        """Runs Python inside the installation, as `manage.py shell -c` does; returns what it printed."""
        return self._shell.run(code)

    def wait_until_idle(self) -> None:
        """Waits until nothing is under way that could ask the model: no run, no compaction."""
        wait_until(lambda: self.shell(UNFINISHED) == "[]", "the end of all runs and compactions", pause=0.05)

    def manage(self, *arguments: str) -> str:
        """A command of `manage.py`, in the shell: a process for each takes seconds to start. What it printed."""
        return self.shell(f"from django.core.management import call_command; call_command(*{arguments!r})")

    def token(self, handle: str, scopes: str = "read,write") -> str:
        said = self.shell(ISSUE_TOKEN.format(handle=handle, scopes=scopes))
        match = re.search(r"ovk_[\w-]+", said)
        assert match, said
        return match.group()

    def api(self, method: str, path: str, token: str, body: object = None) -> Any:
        """Calls the API; returns the decoded answer of a 2xx, else urllib's HTTPError."""
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answered:
            text = answered.read()
        return json.loads(text) if text else None


@contextmanager
def installed(var: Path) -> Iterator[Installation]:
    """`manage.py serve` in this folder, until it is ready; stopped as Ctrl-C would."""
    model = Steered()
    with serving(script=model) as endpoint:
        serve = Serving(var, free_port(), OPENVIBE_WORKER_CONCURRENCY="2", **MODEL_HERE)
        shell = Shell(var)
        serve.wait_for("OpenVibe is ready")
        installation = Installation(var, serve, model, *sign_in_of(var), shell)
        installation.shell(SET_UP.format(base_url=endpoint.base_url))
        try:
            yield installation
        finally:
            installation._shell.close()
            serve.interrupt()


def sign_in_of(var: Path) -> tuple[str, str]:
    """E-mail and password that the first start printed and kept."""
    said = (var / "sign-in.txt").read_text(encoding="utf-8")
    match = re.search(r"e-mail: (\S+)\npassword: (\S+)", said)
    assert match, said
    return match[1], match[2]


__all__ = ["FakeEndpoint", "Installation", "Steered", "installed"]

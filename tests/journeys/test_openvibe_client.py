"""Agents in other processes, with the client people install: the guide's own, and commands behind `openvibe run`."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.engines.llm.model_server import Answer
from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import say, start_thread
from tests.journeys.test_run_recovery import API_PAUSE, ask, messages
from tests.operations.processes import PATIENCE, wait_until

MAKE_AGENT = """
from agents.models import Agent
from agents.agent.services import create_agent
from openvibe.chat.models import Channel
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
owner = Member.objects.get(role="owner", workspace__slug="willow")
agent = create_agent(by=member_access(owner), workspace=owner.workspace, handle={handle!r}, name={name!r},
                     soul="identity: {{name: {name}, role: Answers from elsewhere}}")
Agent.objects.filter(pk=agent.pk).update(answers_itself=True, level=3)
general = Channel.objects.get(workspace=owner.workspace, name="general")
add_to_channel(channel=general, participant=agent.participant, by=member_access(owner))
"""
MODEL_URL = "from openvibe.engines.llm.models import Endpoint; print(Endpoint.objects.get(name='Steered').base_url)"
SCOPES = "read,write,memory,knowledge"
CLIENT = str(Path(__file__).parents[2] / "client" / "src")


def replies(page: Page) -> Locator:
    return page.locator('#messages > li[data-handle="ivy"]')


@contextmanager
def listening(
    installation: Installation, handle: str, *command: str, **settings: str
) -> Iterator[subprocess.Popen[str]]:
    """A listening Python program, as an agent that was made for it, from its first line on."""
    installation.shell(MAKE_AGENT.format(handle=handle, name=handle.title()))
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": CLIENT,
        "OPENVIBE_URL": installation.url,
        "OPENVIBE_TOKEN": installation.token(handle, SCOPES),
        **settings,
    }
    with subprocess.Popen(
        [sys.executable, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        assert program.stdout is not None
        first = program.stdout.readline()
        assert first.startswith(f"@{handle} listens"), first + program.stdout.read()
        try:
            yield program
        finally:
            program.kill()


def test_an_agent_elsewhere_writes_is_stopped_and_learns(people: People, installation: Installation) -> None:
    model = {"OPENAI_BASE_URL": installation.shell(MODEL_URL), "OPENAI_API_KEY": "sk-of-its-own"}
    token = installation.token("ana")
    guide = Path(__file__).parents[2] / "docs" / "client.md"
    (script,) = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    assert len(script.splitlines()) <= 30
    with listening(installation, "ivy", "-c", script, **model):
        ana = people.ana()
        start_thread(ana, "An agent elsewhere", "Roses are pruned in late winter.")
        go_on = installation.model.holds_back_after_first_words("Once upon a time there was a rose.")
        say(ana, "@ivy tell me a story")
        reply = replies(ana).first
        expect(reply).to_have_attribute("data-state", "writing")
        expect(reply).to_contain_text("Once")
        expect(reply).not_to_contain_text("rose")
        go_on.set()
        expect(reply).to_contain_text("there was a rose.")
        expect(reply).to_have_attribute("data-state", "complete")

        ivy = installation.token("ivy", SCOPES)
        wait_until(lambda: installation.api("GET", "progress/", ivy)["results"], "its progress", pause=API_PAUSE)
        notes = {"label": "notes", "content": "Asked last by @ana. Lessons: 0."}
        wait_until(lambda: notes in blocks_of(installation, ivy), "its notes", pause=API_PAUSE)
        written = installation.api("GET", "runs/?agent=ivy", token)["results"][0]
        body = {"message": written["reply"], "verdict": "down", "text": "Name the rose."}
        installation.api("POST", "feedback/", token, body)

        go_on = installation.model.holds_back_after_first_words("Twice upon a time there was Rosa.")
        say(ana, "@ivy and another?")
        second = replies(ana).last
        expect(second).to_contain_text("Twice")
        second.get_by_role("button", name="Stop").click()
        expect(second).to_have_attribute("data-state", "stopped")
        go_on.set()
        expect(second).not_to_contain_text("Rosa")
        prompts = [str(asked.body["messages"]) for asked in installation.model.asked]  # others may have asked since
        assert any("Name the rose." in prompt for prompt in prompts if "@ivy and another?" in prompt)

        installation.model.answer = Answer(status=400, error={"message": "This model is away."})
        say(ana, "@ivy are you there?")

        def is_told() -> bool:
            newest = installation.api("GET", "runs/?agent=ivy", token)["results"][0]
            return "This model is away." in newest["error"]

        wait_until(is_told, "the model's error", pause=API_PAUSE)

        installation.model.says("Rosa canina.")  # it goes on after a Stop, and after its model's error
        say(ana, "@ivy which rose?")
        expect(replies(ana).last).to_contain_text("Rosa canina.")
        notes["content"] = "Asked last by @ana. Lessons: 1."
        wait_until(lambda: notes in blocks_of(installation, ivy), "its new notes", pause=API_PAUSE)


def blocks_of(installation: Installation, token: str) -> list[dict[str, str]]:
    blocks = installation.api("GET", "blocks/", token)["results"]
    return [{name: block[name] for name in ("label", "content")} for block in blocks]


COMMAND = r"""
import os, sys, time
context = sys.stdin.read()
said = context[context.rindex("@yew "):]
def tell(text):
    print(text, end="", flush=True)
if "break" in said:
    tell("Half")
    sys.stderr.write("Traceback (most recent call last):\n  File \"x.py\", line 1\n")
    sys.stderr.write("no such rose, key sk-abcdefghijklmnopqrstuv\n")
    sys.exit(3)
if "forever" in said:
    tell(os.getpid())
    time.sleep(600)
if "flood" in said:
    for _ in range(500):
        tell("x" * 10_000)
    sys.exit()
sys.stdout.buffer.write(b"Gr\xc3\xbcn \xff")
sys.stdout.buffer.flush()
tell(" knows its answer" if "you, earlier]\nGr" in context else "")
tell(" token!" if "OPENVIBE_TOKEN" in os.environ else "")
"""


@pytest.fixture
def runner(installation: Installation, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`openvibe run` with a command of the test's own; its state is kept below `tmp_path`."""
    (tmp_path / "command.py").write_text(COMMAND)
    run = ["-m", "openvibe_client.cli", "run", "--as", "yew"]
    command = ["--plain", "--", sys.executable, str(tmp_path / "command.py")]
    settings = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    with listening(installation, "yew", *run, *command, **settings) as program:
        yield program


def test_a_command_answers_as_an_agent(
    installation: Installation, runner: subprocess.Popen[str], tmp_path: Path
) -> None:
    token = installation.token("ana")

    def ended(thread: int, number: int = 1) -> list[dict[str, str]]:
        runs: list[dict[str, str]] = installation.api("GET", f"runs/?thread={thread}", token)["results"]
        is_over = len(runs) == number and all(run["state"] in ("done", "stopped", "failed") for run in runs)
        return runs if is_over else []

    def answer_of(thread: int) -> str:
        return str(messages(installation, token, thread)[-1]["body"])

    forever, _ = ask(installation, token, "@yew go on forever")
    broken, _ = ask(installation, token, "@yew break off")
    flood, _ = ask(installation, token, "@yew flood us")
    plain, _ = ask(installation, token, "@yew what is green?")
    wait_until(lambda: ended(plain), "the first answer", pause=API_PAUSE)
    installation.api("POST", f"threads/{plain}/messages/", token, {"body": "@yew and still?"})
    for thread, number in ((broken, 1), (flood, 1), (plain, 2)):
        wait_until(partial(ended, thread, number), "the answers", pause=API_PAUSE)

    (failure,) = ended(broken)
    assert (failure["state"], answer_of(broken)) == ("failed", "Half")
    sentence, _, details = failure["error"].partition("\n\n")
    reason = "ended with exit code 3: no such rose, key [secret removed]"
    assert sentence == f"{Path(sys.executable).name} {reason}"
    assert details.startswith("Traceback (most recent call last):")
    assert len(answer_of(flood)) == 100_000
    assert answer_of(flood).endswith("was cut here.]")
    said = [m["body"] for m in messages(installation, token, plain) if m["author"]["handle"] == "yew"]
    assert said == ["Grün \ufffd", "Grün \ufffd knows its answer"]
    (state_file,) = tmp_path.glob("state/openvibe/*.json")
    assert state_file.stat().st_mode & 0o077 == 0

    wait_until(lambda: answer_of(forever).isdigit(), "its first word", pause=API_PAUSE)
    (endless,) = installation.api("GET", f"runs/?thread={forever}", token)["results"]
    command = psutil.Process(int(answer_of(forever)))
    installation.api("POST", f"runs/{endless['id']}/stop/", token, {})
    assert ended(forever)[0]["state"] == "stopped"
    wait_until(lambda: not command.is_running(), "the command ends")

    again, _ = ask(installation, token, "@yew go on forever once more")
    wait_until(lambda: answer_of(again).isdigit(), "its first word", pause=API_PAUSE)
    last = psutil.Process(int(answer_of(again)))
    runner.send_signal(signal.SIGINT)
    assert runner.wait(PATIENCE) == 130
    assert not last.is_running()
    assert "ended where it runs" in ended(again)[0]["error"]

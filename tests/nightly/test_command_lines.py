"""Real command lines from npm behind `openvibe run`: what they make of the protocol is what the client needs.

Where npm is not there, or the packages cannot be had, nothing is tried. Their model is a server on this machine."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.llm.model_server import Answer, Asked, serving
from tests.journeys.installation import Installation, installed
from tests.journeys.test_openvibe_client import CLIENT, MAKE_AGENT, SCOPES
from tests.journeys.test_run_recovery import API_PAUSE, ask, messages
from tests.nightly.conftest import figures
from tests.operations.installation_template import furnish
from tests.operations.processes import nothing_left_of, wait_until

PACKAGES = {
    "opencode": "opencode-ai",
    "qwen": "@qwen-code/qwen-code",
    "claude": "@agentclientprotocol/claude-agent-acp",
    "codex": "@agentclientprotocol/codex-acp",
}
SHELLS = {"opencode": "bash", "qwen": "run_shell_command", "claude": "Bash", "codex": "exec_command"}
RESULTS = ('"role": "tool"', '"type": "tool_result"', '"type": "function_call_output"')
"""What an answer of a tool is in the requests of the three protocols that they speak."""

INSTALL_SECONDS, ANSWER_SECONDS = 900, 180.0


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the installed command lines."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed here")
    folder = tmp_path_factory.mktemp("npm")
    words = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES.values()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot have them: {done.stderr[-300:]}")
    for package in PACKAGES.values():
        found = json.loads((folder / "node_modules" / package / "package.json").read_text(encoding="utf-8"))
        figures.append(f"command line {package} {found['version']}")
    return folder / "node_modules" / ".bin"


@pytest.fixture(scope="module")
def served(migrated_dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("served").resolve()
    furnish(folder, migrated_dump)
    with nothing_left_of(folder), installed(folder) as installation:
        yield installation


def settings_of(home: Path, model_url: str) -> dict[str, str]:
    """The environment in which each of them asks the model at this address."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": model_url, "apiKey": "sk-x"},
        "models": {"gpt-4o": {"name": "gpt-4o"}},
    }
    config = {"autoupdate": False, "share": "disabled", "model": "here/gpt-4o", "provider": {"here": provider}}
    (home / ".config" / "opencode").mkdir(parents=True)
    (home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(config))
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(model_url=model_url))
    return {
        **{"OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "sk-x", "OPENAI_MODEL": "gpt-4o"},
        **{"ANTHROPIC_BASE_URL": model_url.removesuffix("/v1"), "ANTHROPIC_API_KEY": "sk-x"},
        **{"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    }


CODEX_CONFIG = """
model = "gpt-4o"
model_provider = "here"
[model_providers.here]
name = "here"
base_url = "{model_url}"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""


def shell_call(name: str, command: str) -> str:
    """The arguments with which the model has this command line run a command, outside its own sandbox."""
    if name == "codex":
        return json.dumps({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "A rose"})
    return json.dumps({"command": command, "description": "Plants a rose"})


def tool_names(asked: Asked) -> set[str]:
    """The tools that a request offers, in any of the protocols."""
    return {str(tool.get("name") or tool.get("function", {}).get("name")) for tool in asked.body.get("tools") or ()}


@pytest.mark.parametrize("name", PACKAGES)
def test_it_streams_asks_before_it_acts_and_takes_up_its_session(
    served: Installation, commands: Path, tmp_path: Path, name: str
) -> None:
    handle, garden = f"{name}r", tmp_path / "garden"
    garden.mkdir()
    served.shell(MAKE_AGENT.format(handle=handle, name=handle.title()))
    token = served.token("ana")
    shell = shell_call(name, f"touch {garden}/rose")

    def plants_one_rose(asked: Asked) -> Answer:
        text = json.dumps(asked.body.get("messages") or asked.body.get("input"))
        has_result = any(result in text for result in RESULTS)
        if SHELLS[name] in tool_names(asked) and "plant a rose" in text and not has_result:
            return Answer(text="I plant it.", tool_calls=(("call-1", SHELLS[name], shell),))
        return Answer(text="It is remembered." if has_result and "and now" in text else "It grows.")

    with serving(script=plants_one_rose) as model:
        env = {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": CLIENT,
            "HOME": str(tmp_path),
            "OPENVIBE_URL": served.url,
            "OPENVIBE_TOKEN": served.token(handle, SCOPES),
            **settings_of(tmp_path, model.base_url),
        }
        words = [sys.executable, "-m", "openvibe_client.cli", "run", "--as", handle, "--directory", str(garden)]

        def said(thread: int) -> str:
            rows = messages(served, token, thread)
            return "\n".join(row["body"] for row in rows if row["author"]["handle"] == handle)

        calls: list[dict[str, Any]] = []

        def allows() -> bool:
            """Ana allows what waits for her; whether that was all."""
            for card in served.api("GET", f"approvals/?thread={thread}&state=requested", token)["results"]:
                calls.append(card["call"]["permission"])
                served.api("POST", f"approvals/{card['id']}/decide/", token, {"granted": True})
            return True

        def is_done() -> bool:
            """Whether the newest run ended well: a turn that is cut off is no part of a session everywhere."""
            return bool(served.api("GET", f"runs/?thread={thread}", token)["results"][0]["state"] == "done")

        thread, _ = ask(served, token, f"@{handle} plant a rose")
        for text, expected in (("", "It grows."), ("and now?", "It is remembered.")):
            if text:
                served.api("POST", f"threads/{thread}/messages/", token, {"body": f"@{handle} {text}"})
            with subprocess.Popen([*words, "--", name], env=env, stderr=subprocess.PIPE, text=True) as program:
                wait_until(lambda: allows() and expected in said(thread), expected, ANSWER_SECONDS, API_PAUSE)  # noqa: B023
                wait_until(is_done, "its turn is over", ANSWER_SECONDS, API_PAUSE)
                program.terminate()
        (call,) = calls
        assert (call["kind"], call["command"]) == ("execute", f"touch {garden}/rose")
        assert (garden / "rose").exists()
        assert "I plant it." in said(thread)

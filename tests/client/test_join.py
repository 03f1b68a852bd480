"""`openvibe join`, its service, and `openvibe host`: tokens in private files, units of people's own, agents kept up."""

import json
import os
import plistlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.connect.client_wheel import read_client_wheel
from openvibe_client.cli import main
from openvibe_client.host import read_agents
from openvibe_client.http import VERSION
from openvibe_client.join import BadUsage, find_joined, install_service
from openvibe_client.known import find_launch, known_commands
from tests.client.test_connections import Serve, serve
from tests.operations.processes import PATIENCE, wait_until

__all__ = ["serve"]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A home of the test's own; signals are as before afterwards."""
    for name in ("OPENVIBE_URL", "OPENVIBE_TOKEN", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    yield tmp_path
    signal.signal(signal.SIGTERM, before[0])
    signal.signal(signal.SIGINT, before[1])


def test_an_agent_of_two_workspaces_is_asked_which(home: Path) -> None:
    folder = home / ".config" / "openvibe" / "agents"
    folder.mkdir(parents=True)
    for number in (1, 2):
        row = {"url": f"https://vibe{number}.example", "token": f"ovk_{number}", "handle": "reed"}
        (folder / f"reed@vibe{number}.example.json").write_text(json.dumps(row))
    (folder / "reed@broken.json").write_text("{")
    assert find_joined("reed", "https://vibe2.example/") == ("https://vibe2.example", "ovk_2")
    assert find_joined("ivy", None) is None
    with pytest.raises(BadUsage, match=r"Say which with --url: https://vibe1\.example, https://vibe2\.example"):
        find_joined("reed", None)


def test_a_service_is_the_persons_own_and_says_what_it_did(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls, log = home / "calls", list[str]()
    for name in ("systemctl", "launchctl"):
        (home / name).write_text(f'#!/bin/sh\necho "$(basename $0) $*" >> {calls}\n')
        (home / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    words = ["--", "claude", "--model", 'o"pus 100%']
    monkeypatch.setattr(sys, "platform", "linux")
    install_service("reed", words, "https://vibe.example", tmp_path, log.append)
    unit = (home / ".config" / "systemd" / "user" / "openvibe-reed.service").read_text()
    assert f"--as reed --url https://vibe.example --directory {tmp_path} -- claude --model" in unit
    assert '"o\\"pus 100%%"' in unit
    assert "ovk_" not in unit
    monkeypatch.setattr(sys, "platform", "darwin")
    install_service("reed", words, "https://vibe.example", tmp_path, log.append)
    plist = plistlib.loads((home / "Library" / "LaunchAgents" / "org.openvibe.reed.plist").read_bytes())
    assert plist["ProgramArguments"][-3:] == words[1:]
    ran = calls.read_text().splitlines()
    assert ran[:2] == ["systemctl --user daemon-reload", "systemctl --user enable --now openvibe-reed.service"]
    assert ran[2].startswith("launchctl bootstrap gui/")
    assert sum(line.startswith(("Wrote ", "Ran ")) for line in log) == 5
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(BadUsage, match="never for root"):
        install_service("reed", words, "https://vibe.example", tmp_path, log.append)


def test_a_service_of_one_that_uvx_took_takes_the_servers_wheel_by_its_full_name(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("uvx", "systemctl"):
        (home / name).write_text("#!/bin/sh\n")
        (home / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "prefix", "/home/ana/.cache/uv/archive-v0/x")
    install_service("reed", ["--", "claude"], "https://vibe.example/", tmp_path, print)
    unit = (home / ".config" / "systemd" / "user" / "openvibe-reed.service").read_text()
    wheel = f"https://vibe.example/client/{read_client_wheel().filename}"
    assert f"ExecStart={home}/uvx --from {wheel} openvibe run --as reed" in unit


def test_the_pages_name_the_wheel_as_it_is() -> None:
    filename = read_client_wheel().filename
    assert filename == f"openvibe_client-{VERSION}-py3-none-any.whl"
    for page in ("docs/client.md", "docs/agent-developers.md", "client/README.md"):
        named = re.findall(r"openvibe_client-[\w.-]+\.whl", (ROOT / page).read_text(encoding="utf-8"))
        assert set(named) == {filename}, page


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no agent"),
        ("[reed]", "has no command"),
        ("reed = 1", "names no agent"),
        ("[reed]\ncommands = ['claude']", "has no command"),
        ("[reed]\ncommand = 'claude'", "has no command"),
        ("[reed]\ncommand = [1]", "has no command"),
        ("[reed", "cannot be read"),
    ],
)
def test_a_file_of_agents_that_is_wrong_is_refused_in_words(
    home: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "agents.toml").write_text(text)
    assert main(["host", str(home / "agents.toml")]) == 2
    assert problem in capsys.readouterr().err


def test_a_file_of_agents_says_how_each_is_run(home: Path) -> None:
    (home / "agents.toml").write_text(
        'url = "https://vibe.example"\n[reed]\ncommand = ["claude", "-x"]\nno_mcp = true\nplain = false\n'
        '[ivy]\ncommand = ["codex"]\ndirectory = "~/garden"\nat_once = 2\nurl = "https://other.example"\n'
    )
    agents = read_agents(home / "agents.toml")
    assert " ".join(agents["reed"]) == "run --as reed --url https://vibe.example --no-mcp -- claude -x"
    other = f"run --as ivy --url https://other.example --directory {home}/garden --at-once 2 -- codex"
    assert " ".join(agents["ivy"]) == other


def test_an_agent_that_dies_is_started_again_and_one_that_is_wrong_is_not(serve: Serve, home: Path) -> None:
    """Two clients of a server that ends their streams: each start is heard of there."""
    script = serve(GET_events=[b"id: 6\n: open\n\nevent: gone\ndata: {}\n\n"])
    (home / "token").write_text("ovk_x")
    row = f'command = ["cat"]\nplain = true\nurl = "{script.url}"\ntoken_file = "{home}/token"\n'
    (home / "agents.toml").write_text(f"[reed]\n{row}[ivy]\n{row}")
    words = [sys.executable, "-m", "openvibe_client.cli", "host", str(home / "agents.toml")]
    path = str(Path(sys.modules["openvibe_client"].__file__ or "").parents[1])
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "HOME": str(home)}
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as host:
        wait_until(lambda: len(script.headers("GET events")) >= 2, "it is started again")
        host.terminate()
        assert host.stderr is not None
        said = host.stderr.read()
        assert host.wait(PATIENCE) == 143
    assert "@reed ended with exit code 1 and is started again" in said
    assert "@ivy is not started again" in said


def test_each_known_command_has_its_forms(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("claude", "codex-acp", "gemini", "npx", "opencode"):
        (home / name).write_text("#!/bin/sh\n")
        (home / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(home))
    package = ("npx", "--yes", "@agentclientprotocol/claude-agent-acp")
    assert find_launch(["claude", "--model", "o"]).forms == (package,)
    assert find_launch(["claude", "--model", "o"]).plain == ("claude", "-p", "--model", "o")
    assert find_launch(["codex", "-c", "x=1"]).forms[0] == ("codex-acp", "-c", "x=1")
    assert find_launch([f"{home}/gemini", "-m", "x"]).forms[0] == (f"{home}/gemini", "--acp", "-m", "x")
    assert find_launch(["gemini", "--acp", "-m", "x"]).forms == (("gemini", "--acp", "-m", "x"),)
    assert "ask" in find_launch(["opencode"]).env["OPENCODE_PERMISSION"]
    assert find_launch(["./mine", "-x"]).forms == (("./mine", "-x"),)
    assert find_launch(["claude"], is_plain=True).forms == ()
    for row in known_commands().values():
        assert row.keys() <= {"acp", "plain", "env", "mode"}
        assert row["acp"]

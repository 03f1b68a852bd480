"""`openvibe join`: a code from the page becomes a token in a private file. `--service` keeps the agent running."""

import json
import os
import platform
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openvibe_client.http import VERSION, Api
from openvibe_client.sessions import file_name, write_private


class BadUsage(Exception):
    """What the operator has to mend."""


def config_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "openvibe"


def join(code: str, url: str, command: Sequence[str]) -> tuple[str, str]:
    """Exchanges the code, and keeps the token. The agent's handle and its OpenVibe's address. Raises ApiError."""
    body = {"code": code, "host": platform.node()[:200], "command": Path(command[0]).name[:400], "client": VERSION}
    joined: dict[str, Any] = Api(url, None).call("POST", "join/", body, is_repeatable=False)
    address = joined["url"]
    path = config_folder() / "agents" / f"{file_name(address, joined['handle'])}.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".new")
    write_private(draft, json.dumps({"url": address, "token": joined["token"], "handle": joined["handle"]}))
    draft.replace(path)
    return joined["handle"], address


def find_joined(handle: str, url: str | None) -> tuple[str, str] | None:
    """Address and token of an agent that joined from here; None where it did not. Raises BadUsage where there are
    several."""
    found = []
    for path in sorted((config_folder() / "agents").glob("*.json")):
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["handle"] == handle and (url is None or kept["url"].rstrip("/") == url.rstrip("/")):
                found.append((kept["url"], kept["token"]))
        except (OSError, ValueError, KeyError):
            continue
    if len(found) > 1:
        urls = ", ".join(each for each, _ in found)
        raise BadUsage(f"@{handle} joined several workspaces from here. Say which with --url: {urls}")
    return found[0] if found else None


def install_service(handle: str, words: Sequence[str], url: str, directory: Path, log: Callable[[str], object]) -> None:
    """Writes and starts a service of this user, never of the machine. Raises BadUsage."""
    if os.geteuid() == 0:
        raise BadUsage(
            "A service is made for a person's own account, never for root: what the agent does is done as they."
        )
    command = [*_self(url), "run", "--as", handle, "--url", url, "--directory", str(directory), *words]
    is_mac = sys.platform == "darwin"
    if is_mac:
        path = Path.home() / "Library" / "LaunchAgents" / f"org.openvibe.{handle}.plist"
        log_file = str(Path.home() / "Library" / "Logs" / f"openvibe-{handle}.log")
        unit = {
            "Label": f"org.openvibe.{handle}",
            "ProgramArguments": command,
            "EnvironmentVariables": {"PATH": os.environ["PATH"]},
            "KeepAlive": {"SuccessfulExit": False},
            "RunAtLoad": True,
            "StandardErrorPath": log_file,
        }
        text = plistlib.dumps(unit).decode()
        calls = [["launchctl", "bootstrap", f"gui/{os.getuid()}", str(path)]]
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        path = base / "systemd" / "user" / f"openvibe-{handle}.service"
        text = SYSTEMD_UNIT.format(
            handle=handle, path=_quoted(os.environ["PATH"]), command=" ".join(_quoted(word) for word in command)
        )
        unit_call = ["systemctl", "--user"]
        calls = [[*unit_call, "daemon-reload"], [*unit_call, "enable", "--now", path.name]]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    log(f"Wrote {path}.")
    for call in calls:
        try:
            done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadUsage(f"{shlex.join(call)} could not be run: {error}. Run it by hand.") from None
        if done.returncode:
            raise BadUsage(f"{shlex.join(call)} failed: {done.stderr.strip()}")
        log(f"Ran {shlex.join(call)}.")
    if not is_mac:
        log("It runs while you are signed in; `loginctl enable-linger` has it run always.")


SYSTEMD_UNIT = """[Unit]
Description=@{handle} of OpenVibe
After=network-online.target

[Service]
Environment="PATH={path}"
ExecStart={command}
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=5
KillMode=mixed
TimeoutStopSec=30

[Install]
WantedBy=default.target
"""


def _self(url: str) -> list[str]:
    """The client itself as a command that is still there tomorrow: what `uvx` makes is swept away at times."""
    uvx = shutil.which("uvx")
    if uvx and "archive-v" in sys.prefix:
        wheel = f"{url.rstrip('/')}/client/openvibe_client-{VERSION}-py3-none-any.whl"
        return [uvx, "--from", wheel, "openvibe"]
    return [sys.executable, "-m", "openvibe_client.cli"]


def _quoted(word: str) -> str:
    """A word as systemd reads it in a unit."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if not escaped or set(escaped) & set(" \t'\";") else escaped

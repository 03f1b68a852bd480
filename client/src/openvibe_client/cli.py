"""The command `openvibe`."""

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from openvibe_client.http import ApiError
from openvibe_client.presets import BadPreset, Preset, load_presets
from openvibe_client.run import Options, Runner
from openvibe_client.sessions import Sessions, state_file
from openvibe_client.vibe import Vibe


class BadUsage(Exception):
    """What the operator has to mend."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, 2 for what is asked wrongly, 1 when the server wants no more, 130 after Ctrl-C."""
    asked = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C, too, which a shell's background jobs are born deaf to
        signal.signal(number, _interrupt)
    try:
        options = _options(asked)
        vibe = Vibe(options.url, options.token)
        _check_token(vibe, asked.handle.strip().lstrip("@").lower())
        sessions = Sessions(state_file(options.url, vibe.handle))
        Runner(vibe, sessions, options, _log).run()
    except (BadUsage, BadPreset, ValueError) as error:
        _log(str(error))
        return 2
    except ApiError as error:
        _log(str(error))
        return 1
    except KeyboardInterrupt:
        _log("Ended.")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="openvibe")
    run = parser.add_subparsers(required=True).add_parser(
        "run", help="have a command answer what an agent is asked", description=RUN_DESCRIPTION
    )
    run.add_argument("--as", dest="handle", required=True, metavar="HANDLE", help="the agent the token belongs to")
    run.add_argument("--url", default=os.environ.get("OPENVIBE_URL"), help="of OpenVibe; else OPENVIBE_URL")
    run.add_argument("--token-file", type=Path, help="else OPENVIBE_TOKEN")
    run.add_argument("--preset", help="else the command's name, where there is a preset of that name, or plain text")
    run.add_argument("--config", type=Path, help="presets of your own; else openvibe/run.toml where XDG keeps settings")
    run.add_argument("--directory", type=Path, help="where the command runs; else here")
    run.add_argument("--at-once", type=int, default=4, metavar="N", help="threads answered at the same time (4)")
    run.add_argument("--timeout", type=float, default=3600, metavar="SECONDS", help="for one answer (3600)")
    run.add_argument("--no-mcp", action="store_true", help="do not offer OpenVibe's tools to the command")
    run.add_argument("command", nargs="*", metavar="COMMAND", help="after --: the command and arguments of your own")
    return parser


RUN_DESCRIPTION = "Hears what people say to the agent, has the command answer, and streams its words into the thread."


def _options(asked: argparse.Namespace) -> Options:
    preset = _preset(asked)
    command = tuple(asked.command) or preset.command
    if not command:
        raise BadUsage("Say which command answers: openvibe run --as HANDLE -- COMMAND …")
    if shutil.which(command[0]) is None:
        raise BadUsage(f"There is no command {command[0]} here.")
    if not asked.url:
        raise BadUsage("Say where OpenVibe is: --url, or OPENVIBE_URL.")
    token = _read(asked.token_file).strip() if asked.token_file else os.environ.get("OPENVIBE_TOKEN")
    if not token:
        raise BadUsage("Say who the agent is: its token in OPENVIBE_TOKEN, or --token-file.")
    if asked.at_once < 1 or asked.timeout <= 0:
        raise BadUsage("--at-once and --timeout are numbers above 0.")
    return Options(
        url=asked.url,
        token=token,
        command=command,
        preset=preset,
        at_once=asked.at_once,
        timeout=asked.timeout,
        with_mcp=not asked.no_mcp,
        directory=asked.directory,
    )


def _check_token(vibe: Vibe, handle: str) -> None:
    """Raises BadUsage where the token is not that of the agent of this handle, or a model here answers for it."""
    owner = f"This token is @{vibe.handle}'s"
    if not vibe.is_agent:
        raise BadUsage(f"{owner}, who is no agent. Give it an agent's own: Workspace settings, Tokens for the API.")
    if vibe.handle != handle:
        raise BadUsage(f"{owner}, not @{handle}'s. Say --as {vibe.handle}, or give it a token of @{handle}'s own.")
    if not vibe.answers_itself():
        raise BadUsage(
            f"OpenVibe answers for @{handle}. Choose “A program elsewhere, through the API” in its settings, and start "
            "this again."
        )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadUsage(f"{path} cannot be read: {error.strerror}.") from None


def _preset(asked: argparse.Namespace) -> Preset:
    config: Path | None = asked.config
    if config is None:
        usual = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "openvibe" / "run.toml"
        config = usual if usual.exists() else None
    try:
        presets = load_presets(config)
    except OSError as error:
        raise BadUsage(f"{config} cannot be read: {error.strerror}.") from None
    if asked.preset is not None and asked.preset not in presets:
        raise BadUsage(f"There is no preset {asked.preset}. There are {', '.join(sorted(presets))}.")
    name = asked.preset or (Path(asked.command[0]).name if asked.command else "")
    return presets.get(name, Preset())


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

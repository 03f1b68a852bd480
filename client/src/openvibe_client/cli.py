"""The command `openvibe`."""

import argparse
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from openvibe_client.http import ApiError
from openvibe_client.join import BadUsage, find_joined, install_service, join
from openvibe_client.known import find_launch
from openvibe_client.sessions import Sessions, state_file
from openvibe_client.vibe import Vibe

if TYPE_CHECKING:
    from openvibe_client.run import Answerer


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, 2 for what is asked wrongly, 1 when the server wants no more, 130 after Ctrl-C, 143 after
    SIGTERM."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)
    asked = _parser().parse_args(words[:end])
    if "command" in asked:
        asked.command += words[end + 1 :]
    logging.getLogger().addHandler(logging.NullHandler())  # the SDK logs what agents send and it does not know
    signal.signal(signal.SIGINT, _interrupt)  # which a shell's background jobs are born deaf to
    signal.signal(signal.SIGTERM, _terminate)
    try:
        asked.run(asked)
    except (BadUsage, ValueError) as error:
        _log(str(error))
        return 2
    except ApiError as error:
        _log(str(error))
        return 1
    except KeyboardInterrupt as interrupt:
        _log("Ended.")
        return 130 if type(interrupt) is KeyboardInterrupt else 143
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="openvibe")
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="have a command answer what an agent is asked", description=RUN_DESCRIPTION)
    run.add_argument("--as", dest="handle", required=True, metavar="HANDLE", help="the agent the token belongs to")
    run.add_argument("--token-file", type=Path, help="else OPENVIBE_TOKEN, else what `openvibe join` kept")
    joining = commands.add_parser(
        "join", help="bring an agent in with the code of its page", description=JOIN_DESCRIPTION
    )
    joining.add_argument("code", help="from the page Connect an agent; it holds ten minutes, and once")
    joining.add_argument("--service", action="store_true", help="keep it running, as a service of systemd or launchd")
    for each in (run, joining):
        each.add_argument("--url", default=os.environ.get("OPENVIBE_URL"), help="of OpenVibe; else OPENVIBE_URL")
        each.add_argument("--directory", type=Path, help="where the command runs; else here")
        each.add_argument("--at-once", type=int, default=4, metavar="N", help="threads answered at the same time (4)")
        each.add_argument(
            "--timeout", type=float, metavar="SECONDS", help="for one answer; else what the agent's page says"
        )
        each.add_argument("--acp", action="store_true", help="the command speaks the Agent Client Protocol for sure")
        each.add_argument("--plain", action="store_true", help="give the command a text and take what it prints")
        each.add_argument("--no-mcp", action="store_true", help="do not offer OpenVibe's tools to the command")
        each.add_argument("command", nargs="*", metavar="COMMAND", help="after --: the command and its arguments")
    host = commands.add_parser("host", help="run several agents, as a file says")
    host.add_argument("file", type=Path, help='TOML: a table an agent, such as [reed] with command = ["claude"]')
    run.set_defaults(run=_run)
    joining.set_defaults(run=_join)
    host.set_defaults(run=_host)
    return parser


RUN_DESCRIPTION = "Hears what people say to the agent, has the command answer, and streams its words into the thread."
JOIN_DESCRIPTION = "Exchanges the code for a token, keeps it in a file that only you may read, and runs the agent."


def _join(asked: argparse.Namespace) -> None:
    _check(asked)
    if asked.service and os.geteuid() == 0:
        raise BadUsage("--service is for a person's own account, never for root. The code is still good.")
    asked.handle, asked.url = join(asked.code, asked.url, asked.command)
    _log(f"@{asked.handle} joined. Its token is kept in a file that only you may read.")
    if not asked.service:
        asked.token_file = None
        os.environ.pop("OPENVIBE_TOKEN", None)
        _run(asked)
        return
    flags = [
        f"--{name}" for name, is_set in (("acp", asked.acp), ("plain", asked.plain), ("no-mcp", asked.no_mcp)) if is_set
    ]
    numbers = ["--at-once", str(asked.at_once)]
    directory = asked.directory or Path.cwd()
    install_service(asked.handle, [*numbers, *flags, "--", *asked.command], asked.url, directory.resolve(), _log)


def _host(asked: argparse.Namespace) -> None:
    from openvibe_client.host import Host, read_agents

    Host(read_agents(asked.file), _log).run()


def _check(asked: argparse.Namespace) -> None:
    if not asked.command:
        raise BadUsage("Say which command answers, after --: … -- claude")
    if shutil.which(asked.command[0]) is None and (asked.plain or not find_launch(asked.command).is_known):
        raise BadUsage(f"There is no command {asked.command[0]} here.")
    if asked.at_once < 1 or (asked.timeout is not None and asked.timeout <= 0):
        raise BadUsage("--at-once and --timeout are numbers above 0.")
    if asked.directory is not None and not asked.directory.is_dir():
        raise BadUsage(f"{asked.directory} is no folder.")
    if not asked.url and asked.run is _join:
        raise BadUsage("Say where OpenVibe is: --url, or OPENVIBE_URL.")


def _run(asked: argparse.Namespace) -> None:
    """Answers for as long as the token holds. Raises BadUsage, ApiError."""
    from openvibe_client.run import Runner

    _check(asked)
    handle = asked.handle.strip().lstrip("@").lower()
    url, token = _who(asked, handle)
    vibe = Vibe(url, token)
    minutes = _check_token(vibe, handle)
    sessions = Sessions(state_file(url, vibe.handle))
    if not sessions.take():
        raise BadUsage(
            f"@{vibe.handle} is run here already, by another `openvibe run`. Two would answer in each other's way."
        )
    answerer = _answerer(asked, vibe, sessions, asked.timeout or 60.0 * minutes)
    Runner(vibe, sessions, answerer, _log, at_once=asked.at_once).run()


def _who(asked: argparse.Namespace, handle: str) -> tuple[str, str]:
    """Address and token: as asked for, or as `openvibe join` kept them."""
    token = _read(asked.token_file).strip() if asked.token_file else os.environ.get("OPENVIBE_TOKEN")
    joined = None if token else find_joined(handle, asked.url)
    if joined is not None:
        return joined
    if not asked.url:
        raise BadUsage("Say where OpenVibe is: --url, or OPENVIBE_URL.")
    if not token:
        raise BadUsage(
            "Say who the agent is: its token in OPENVIBE_TOKEN, or --token-file; or have it join: openvibe join."
        )
    return asked.url, token


def _answerer(asked: argparse.Namespace, vibe: Vibe, sessions: Sessions, run_seconds: float) -> "Answerer":
    """What answers: by the protocol where the command speaks it, in plain text otherwise."""
    from openvibe_client.acp_answers import AcpAnswers
    from openvibe_client.plain_answers import PlainAnswers
    from openvibe_client.tools import ToolsServer

    launch = find_launch(asked.command, is_plain=asked.plain, is_acp=asked.acp)
    env = {name: value for name, value in os.environ.items() if name != "OPENVIBE_TOKEN"} | {"NO_COLOR": "1"}
    common: dict[str, Any] = {"env": env, "directory": asked.directory, "run_seconds": run_seconds}
    if launch.forms:
        tools = None if asked.no_mcp else ToolsServer(vibe.api)
        agent = AcpAnswers(launch, sessions=sessions, tools=tools, at_once=asked.at_once, **common)
        if agent.begin(_log):
            return agent
        agent.end(is_leaving=False)
        if asked.acp:
            raise BadUsage(f"{launch.name} did not answer as the Agent Client Protocol has it. Leave --acp away.")
    if not asked.plain:
        _log(f"{launch.name} answers in plain text: nothing of what it does is shown or asked for.")
    return PlainAnswers(launch.plain, **common)


def _check_token(vibe: Vibe, handle: str) -> float:
    """How many minutes an answer of the agent may take. Raises BadUsage where the token is not that of the agent of
    this handle, or a model here answers for it."""
    owner = f"This token is @{vibe.handle}'s"
    if not vibe.is_agent:
        raise BadUsage(f"{owner}, who is no agent. Give it an agent's own: Workspace settings, Tokens for the API.")
    if vibe.handle != handle:
        raise BadUsage(f"{owner}, not @{handle}'s. Say --as {vibe.handle}, or give it a token of @{handle}'s own.")
    agent = vibe.agent()
    if not agent["answers_itself"]:
        raise BadUsage(
            f"OpenVibe answers for @{handle}. Choose “A program elsewhere, through the API” in its settings, and start "
            "this again."
        )
    return float(agent["run_minutes"])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadUsage(f"{path} cannot be read: {error.strerror}.") from None


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> None:
    from openvibe_client.run import Termination

    raise Termination


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

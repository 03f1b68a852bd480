"""An agent that speaks the Agent Client Protocol on standard input and output: its process, connection and session.

The protocol is the SDK's. What it leaves open is closed here: a line of any length, lines that are no JSON-RPC, options
and updates nobody knows, and a process that leaves others behind."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast, get_args

from acp import PROTOCOL_VERSION, RequestError, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    ClientCapabilities,
    DeniedOutcome,
    EnvVariable,
    HttpMcpServer,
    Implementation,
    McpServerStdio,
    PermissionOption,
    PermissionOptionKind,
    PromptResponse,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from openvibe_client.failure import CommandFailed, end_of, failure_of
from openvibe_client.http import VERSION
from openvibe_client.tools import ADDRESS
from openvibe_client.turn import Turn, model_of

MAX_LINE_BYTES = 8_000_000
MAX_ERROR_BYTES = 8_000
GRACE_SECONDS = 5.0
SESSION_SECONDS = 60.0
AUTHENTICATION_REQUIRED, METHOD_NOT_FOUND = -32000, -32601
_OPTION_KINDS = get_args(PermissionOptionKind)


class NoProtocol(Exception):
    """The command does not speak the protocol; what it said on standard error."""


class Lines:
    """The transport: a JSON-RPC message a line. What is longer, or no message, is passed over, and the turn is told; an
    answer that long ends the connection, since somebody waits for it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer, self.skipped_bytes = reader, writer, 0

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        while line := await self._read_line():
            with suppress(ValueError, RecursionError):
                message = json.loads(line)
                if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
                    return _without_unknown_options(message)
        return None

    async def close(self) -> None:
        self._writer.close()

    async def _read_line(self) -> bytes:
        """The next line; b"" at the end."""
        kept: list[bytes] = []
        length = 0
        while True:
            try:
                part = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                part = await self._reader.readexactly(error.consumed)
            except (asyncio.IncompleteReadError, OSError):
                return b""
            length += len(part)
            if length <= MAX_LINE_BYTES or not kept:
                kept.append(part)
            if not part.endswith(b"\n"):
                continue
            if length <= MAX_LINE_BYTES:
                return b"".join(kept)
            if b'"method"' not in kept[0][:1_000]:
                return b""
            self.skipped_bytes += length
            kept, length = [], 0


def _without_unknown_options(message: dict[str, Any]) -> dict[str, Any]:
    """The SDK refuses a whole request for one option it does not know."""
    params = message.get("params")
    if isinstance(params, dict) and isinstance(options := params.get("options"), list):
        known = [each for each in options if isinstance(each, dict) and each.get("kind") in _OPTION_KINDS]
        return {**message, "params": {**params, "options": known}}
    return message


class AgentProcess:
    """One process, of one thread's session at a time. All of it happens on one event loop."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        self._process, self._errors = process, b""
        self.lines = Lines(process.stdout, process.stdin)
        self._connection = ClientSideConnection(cast(Any, self), self.lines)
        self._reader = asyncio.create_task(self._read_errors())
        self._capabilities: Any = None
        self.session, self.model, self.used_at = "", "", 0.0
        self._modes: list[str] = []
        self._mode = ""
        self.turn: Turn | None = None

    @classmethod
    async def start(
        cls, words: Sequence[str], env: Mapping[str, str], folder: str, wait_seconds: float
    ) -> "AgentProcess":
        """A process that answered `initialize` in time. Raises NoProtocol, OSError."""
        pipe = asyncio.subprocess.PIPE
        started = await asyncio.create_subprocess_exec(
            *words, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=folder, start_new_session=True, limit=1_000_000
        )
        process = cls(started)
        own = Implementation(name="openvibe", title="OpenVibe", version=VERSION)
        try:
            asked = process._connection.initialize(PROTOCOL_VERSION, ClientCapabilities(), own)
            initialized = await asyncio.wait_for(asked, wait_seconds)
            process._capabilities = initialized.agent_capabilities
        except Exception:  # whatever it is that came, it was no answer
            await process.close()
            raise NoProtocol(process.errors) from None
        except BaseException:
            await process.close()
            raise
        return process

    @property
    def errors(self) -> str:
        return self._errors.decode("utf-8", "replace").strip()

    @property
    def is_over(self) -> bool:
        return self._process.returncode is not None

    async def open_session(self, kept: str, directory: str, tools_url: str, mode: str) -> bool:
        """Opens the kept session, else a new one; whether it is new. Raises CommandFailed."""
        if kept and kept == self.session:
            return False
        servers = self._servers(tools_url)
        capabilities = self._capabilities
        is_resumable = capabilities and capabilities.session_capabilities and capabilities.session_capabilities.resume
        load: Any = None
        if kept and is_resumable:
            load = self._connection.resume_session(session_id=kept, cwd=directory, mcp_servers=servers)
        elif kept and capabilities and capabilities.load_session:
            load = self._connection.load_session(cwd=directory, session_id=kept, mcp_servers=servers)
        if load is not None:
            with suppress(RequestError, ValueError, TimeoutError, ConnectionError):  # it may be gone
                self._take_state(await asyncio.wait_for(load, SESSION_SECONDS))
                self.session = kept
                await self._set_mode(mode)
                return False
        try:
            new = await asyncio.wait_for(self._connection.new_session(directory, mcp_servers=servers), SESSION_SECONDS)
        except TimeoutError:
            raise CommandFailed(f"It began no session within {SESSION_SECONDS:g} seconds.", self.errors) from None
        except (RequestError, ValueError, ConnectionError) as error:
            raise await self.failure(error) from None
        self.session = new.session_id
        self._take_state(new)
        await self._set_mode(mode)
        return True

    def _servers(self, url: str) -> list[Any]:
        if not url:
            return []
        if self._capabilities and self._capabilities.mcp_capabilities and self._capabilities.mcp_capabilities.http:
            return [HttpMcpServer(type="http", name="openvibe", url=url, headers=[])]
        env = {ADDRESS: url, "PYTHONPATH": str(Path(__file__).parents[1])}
        variables = [EnvVariable(name=name, value=value) for name, value in env.items()]
        words = ["-m", "openvibe_client.tools"]
        return [McpServerStdio(name="openvibe", command=sys.executable, args=words, env=variables)]

    def _take_state(self, state: Any) -> None:
        """What the session says of its model and its modes."""
        self.model = model_of(state.config_options)
        self._modes = [mode.id for mode in state.modes.available_modes] if state.modes else []
        self._mode = state.modes.current_mode_id if state.modes else ""

    async def _set_mode(self, mode: str) -> None:
        """Has it ask before it acts, where it has such a mode and is in another."""
        if mode in self._modes and mode != self._mode:
            with suppress(RequestError, ValueError, TimeoutError):
                await asyncio.wait_for(self._connection.set_session_mode(self.session, mode), SESSION_SECONDS)

    async def prompt(self, text: str) -> PromptResponse:
        """The end of the turn. Raises CommandFailed."""
        try:
            return await self._connection.prompt(self.session, [text_block(text)])
        except (RequestError, ValueError, ConnectionError) as error:
            raise await self.failure(error) from None

    async def cancel(self) -> None:
        with suppress(ConnectionError, OSError):
            await self._connection.cancel(self.session)

    async def failure(self, error: Exception) -> CommandFailed:
        """The reason why it could not, in words for people."""
        if isinstance(error, RequestError):
            if error.code == AUTHENTICATION_REQUIRED:
                return CommandFailed("It is not signed in where it runs. Start it there once and sign in.", str(error))
            data = error.data if isinstance(error.data, str) else json.dumps(error.data) if error.data else ""
            return failure_of(str(error)[:500], data or self.errors)
        if not isinstance(error, ConnectionError):
            return CommandFailed("It answered what its protocol does not know.", str(error)[:2_000])
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        code = self._process.returncode
        if code is None:
            return failure_of("It broke off its connection.", self.errors)
        return failure_of(end_of("It", code), self.errors)

    async def close(self) -> None:
        """Ends it and everything it started."""
        with suppress(Exception):
            await self._connection.close()
        if self._process.returncode is None:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        await self._process.wait()
        self._reader.cancel()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(65_536):
            self._errors = (self._errors + data)[-MAX_ERROR_BYTES:]

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        """What the agent says and does: of the turn that is under way, and of no other."""
        if self.turn is not None and session_id == self.session:
            self.turn.take(update)

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **more: Any
    ) -> RequestPermissionResponse:
        if self.turn is None or session_id != self.session:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return await self.turn.permit(tool_call, options)

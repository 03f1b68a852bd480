"""`openvibe run`: a command answers what an agent is asked, one session of it a thread, several threads at once."""

import json
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from openvibe_client.answer import Answer
from openvibe_client.command import Command, CommandResult
from openvibe_client.output import OutputReader
from openvibe_client.presets import Preset
from openvibe_client.sessions import Sessions, write_private
from openvibe_client.vibe import Mention, Vibe, write_position

MAX_ERROR_LINES = 12


@dataclass(frozen=True)
class Options:
    """What the command line asks for. `timeout` in seconds, for one answer."""

    url: str
    token: str
    command: tuple[str, ...]
    preset: Preset
    at_once: int = 4
    timeout: float = 3600.0
    with_mcp: bool = True
    directory: Path | None = None


class CommandFailed(Exception):
    """The reason why there is no whole answer, in words for people."""


class Runner:
    """Hears mentions and has the command answer them: in order within a thread, `at_once` threads at a time."""

    def __init__(self, vibe: Vibe, sessions: Sessions, options: Options, log: Callable[[str], object]) -> None:
        self.vibe, self.sessions, self.options, self._log = vibe, sessions, options, log
        self._waiting: dict[int, deque[Mention]] = {}
        self._commands: set[Command] = set()
        self._lock = threading.Lock()
        self._is_ending = False

    def run(self) -> None:
        """Runs until the token may not listen any more (ApiError), or KeyboardInterrupt; nothing is left running
        then."""
        with ThreadPoolExecutor(self.options.at_once, thread_name_prefix="openvibe-run") as pool:
            try:
                mentions = self.vibe.mentions(position_file=self.sessions.position_file)
                command, preset = self.options.command[0], self.options.preset.name
                self._log(f"@{self.vibe.handle} listens at {self.options.url}, and answers with {command} ({preset}).")
                for mention in mentions:
                    with self._lock:
                        is_idle = mention.thread not in self._waiting
                        self._waiting.setdefault(mention.thread, deque()).append(mention)
                    if is_idle:
                        pool.submit(self._answer_thread, mention.thread)
            finally:
                self._end()

    def _end(self) -> None:
        """Ends the commands. What nobody began is told again to the next start."""
        with self._lock:
            self._is_ending = True
            positions = [mention.position for waiting in self._waiting.values() for mention in waiting]
            self._waiting = {thread: deque() for thread in self._waiting}
            stops = [threading.Thread(target=command.stop) for command in self._commands]
        for stop in stops:  # at once: each may take a while
            stop.start()
        for stop in stops:
            stop.join()
        if positions:
            write_position(self.sessions.position_file, min(positions) - 1)

    def _answer_thread(self, thread: int) -> None:
        while True:
            with self._lock:
                if not self._waiting[thread]:
                    del self._waiting[thread]
                    return
                mention = self._waiting[thread].popleft()
            try:
                self._log(f"Message {mention.id} in thread {thread}, of @{mention.author}: begun.")
                state = self._answer(mention)
                self._log(f"Message {mention.id}: {state}.")
            except Exception as error:  # the next mention is answered all the same
                self._log(f"Message {mention.id}: {type(error).__name__}: {error}")

    def _answer(self, mention: Mention) -> str:
        """The state in which the answer ended."""
        commands: list[Command] = []

        def stop() -> None:
            for command in commands:
                command.stop()

        with mention.answer(on_end=stop) as answer:
            context = mention.context().text
            session = self.sessions.get(mention.thread, self.options.preset.name)
            try:
                try:
                    self._execute(mention, answer, context, session, commands)
                except CommandFailed:
                    if not session or answer.has_words or self._is_ending:
                        raise
                    self.sessions.set(mention.thread, self.options.preset.name, None)  # it may be gone: begin a new one
                    self._execute(mention, answer, context, None, commands)
            except CommandFailed as error:
                answer.fail(str(error))
        return answer.state

    def _execute(
        self, mention: Mention, answer: Answer, context: str, session: str | None, commands: list[Command]
    ) -> None:
        """One run of the command, its words written as they come. Raises CommandFailed, Stopped."""
        preset = self.options.preset
        reader = OutputReader(preset, answer.write)
        with tempfile.TemporaryDirectory(prefix="openvibe-") as folder:
            words = self._command_line(mention, context, session, Path(folder))
            given = {"stdin": context, "request": mention.text}.get(preset.input, "")
            command = self._start(words)
            commands.append(command)
            try:
                answer.check()
                result = command.run(given, reader.feed, timeout=self.options.timeout)
            finally:
                command.stop()
                with self._lock:
                    self._commands.discard(command)
        answer.check()
        reader.feed(b"", is_last=True)
        if reason := self._failure(result, reader, has_words=answer.has_words):
            raise CommandFailed(reason)
        if reader.session:
            self.sessions.set(mention.thread, preset.name, reader.session)

    def _start(self, words: list[str]) -> Command:
        env = {name: value for name, value in os.environ.items() if name != "OPENVIBE_TOKEN"}
        with self._lock:
            if self._is_ending:
                raise CommandFailed("`openvibe run` was ended where it runs.")
            try:
                command = Command(words, env={**env, "NO_COLOR": "1"}, directory=self.options.directory)
            except OSError as error:
                raise CommandFailed(f"{words[0]} could not be started: {error.strerror}.") from None
            self._commands.add(command)
        return command

    def _command_line(self, mention: Mention, context: str, session: str | None, folder: Path) -> list[str]:
        preset, with_mcp = self.options.preset, self.options.with_mcp
        values = {"request": mention.text, "thread": str(mention.thread)}
        for name, text in (("context_file", context), ("mcp_file", self._mcp_servers())):
            path = folder / ("context.txt" if name == "context_file" else "mcp.json")
            write_private(path, text)
            values[name] = str(path)
        return preset.command_line(self.options.command, values=values, session=session, with_mcp=with_mcp)

    def _mcp_servers(self) -> str:
        """OpenVibe as an MCP server, in the form that MCP clients read, with this agent's token."""
        server = {
            "type": "http",
            "url": f"{self.options.url.rstrip('/')}/mcp",
            "headers": {"Authorization": f"Bearer {self.options.token}"},
        }
        return json.dumps({"mcpServers": {"openvibe": server}})

    def _failure(self, result: CommandResult, reader: OutputReader, *, has_words: bool) -> str:
        """The reason why the answer is none, or not whole; empty when it is."""
        if self._is_ending:
            return "`openvibe run` was ended where it runs."
        name = Path(self.options.command[0]).name
        if result.is_timed_out:
            reason = f"{name} was ended: it took longer than {self.options.timeout:g} seconds."
        elif reader.error:
            reason = f"{name}: {reader.error}"
        elif result.exit_code < 0:
            reason = f"{name} was ended by {_signal_name(-result.exit_code)}."
        elif result.exit_code:
            reason = f"{name} ended with exit code {result.exit_code}."
        elif not has_words:
            reason = f"{name} answered nothing."
        else:
            return ""
        lines = "\n".join(result.errors.splitlines()[-MAX_ERROR_LINES:]).replace(self.options.token, "[secret removed]")
        return f"{reason}\n{lines}".strip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

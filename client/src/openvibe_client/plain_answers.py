"""Answers by a command that reads a text and prints its answer: a process a message, its words written as they come."""

import codecs
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from openvibe_client.acp_answers import END_MESSAGE
from openvibe_client.answer import Answer
from openvibe_client.command import Command, CommandResult
from openvibe_client.failure import CommandFailed, end_of, failure_of
from openvibe_client.vibe import Mention

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_BEGUN_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,500}\x1b?)?$")


class PlainAnswers:
    """Gives the whole context to the command on standard input. `answer` may be called from several threads."""

    keeps_sessions = False

    def __init__(
        self, words: Sequence[str], *, env: Mapping[str, str], directory: Path | None, run_seconds: float
    ) -> None:
        self.name = Path(words[0]).name
        self._words, self._env, self._directory, self._run_seconds = words, env, directory, run_seconds
        self._commands: set[Command] = set()
        self._lock, self._is_ending = threading.Lock(), False

    def answer(self, mention: Mention, answer: Answer, *, is_resumed: bool = False) -> None:
        """Writes the whole answer and finishes it. Raises CommandFailed, Stopped."""
        if is_resumed:
            raise CommandFailed("The answer broke off: `openvibe run` was started anew while it was written.")
        context = mention.context().text
        command = self._start()
        answer.on_change = lambda: command.stop() if answer.is_over else None
        decoder = TextDecoder()
        try:
            answer.check()
            result = command.run(context, lambda data: answer.write(decoder.decode(data)), timeout=self._run_seconds)
        finally:
            command.stop()
            with self._lock:
                self._commands.discard(command)
        answer.check()
        answer.write(decoder.decode(b"", is_last=True))
        self._check(result, has_words=answer.has_words)
        answer.finish()

    def wake(self, thread: int) -> None:
        """Nothing: it asks for nothing."""

    def end(self, *, is_leaving: bool) -> None:
        """Ends the commands, at once: each may take a while. What they wrote cannot be gone on with."""
        with self._lock:
            self._is_ending = True
            stops = [threading.Thread(target=command.stop) for command in self._commands]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()

    def _start(self) -> Command:
        with self._lock:
            if self._is_ending:
                raise CommandFailed(END_MESSAGE)
            try:
                command = Command(self._words, env=self._env, directory=self._directory)
            except OSError as error:
                raise CommandFailed(f"{self.name} could not be started: {error.strerror}.") from None
            self._commands.add(command)
        return command

    def _check(self, result: CommandResult, *, has_words: bool) -> None:
        """Raises CommandFailed where the answer is none, or not whole."""
        if self._is_ending:
            raise CommandFailed(END_MESSAGE)
        if result.is_timed_out:
            reason = f"{self.name} was ended: it took longer than {self._run_seconds / 60:g} minutes."
        elif result.exit_code:
            reason = end_of(self.name, result.exit_code)
        elif not has_words:
            reason = f"{self.name} answered nothing."
        else:
            return
        raise failure_of(reason, result.errors)


class TextDecoder:
    """Bytes as they come to text, without a terminal's escapes; what is no UTF-8 is marked."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def decode(self, data: bytes, *, is_last: bool = False) -> str:
        text = self._rest + self._decoder.decode(data, is_last)
        begun = None if is_last else _BEGUN_ESCAPE.search(text)
        text, self._rest = (text[: begun.start()], text[begun.start() :]) if begun else (text, "")
        return _ESCAPES.sub("", text)

"""Answers by an agent that speaks the protocol: a process a thread, its session kept, Stop, steering."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from openvibe_client.agent_process import AgentProcess, NoProtocol
from openvibe_client.answer import Answer, Stopped
from openvibe_client.failure import CommandFailed
from openvibe_client.known import Launch
from openvibe_client.prompt_text import GO_ON, text_of
from openvibe_client.sessions import Sessions
from openvibe_client.tools import ToolsServer
from openvibe_client.turn import Turn
from openvibe_client.vibe import Mention

CANCEL_SECONDS = 10.0
"""How long an agent may take to end its turn once it was told to; then its process is ended."""
TOOLS_SECONDS = 10.0
MAX_TOKENS = 100_000_000
"""The most that the server takes."""
IDLE_SECONDS = 600.0
"""How long a process is kept for the next message of its thread."""
END_MESSAGE = "`openvibe run` was ended where it runs."
NO_RESUMING = "The answer broke off: `openvibe run` was started anew, and {name} cannot take up its session."
LIMITS = {
    "max_tokens": "It stopped at its model's limit of tokens.",
    "max_turn_requests": "It stopped at its own limit.",
}


class AcpAnswers:
    """Answers messages through `launch.forms`. `answer` may be called from several threads, once a thread of talk."""

    keeps_sessions = True

    def __init__(
        self,
        launch: Launch,
        *,
        sessions: Sessions,
        env: Mapping[str, str],
        directory: Path | None,
        tools: ToolsServer | None,
        at_once: int,
        run_seconds: float,
    ) -> None:
        self.name, self._launch, self._sessions = launch.name, launch, sessions
        self._folder = str((directory or Path.cwd()).resolve())
        self._env = {**launch.env, **env}
        self._tools, self._at_once, self._run_seconds = tools, at_once, run_seconds
        self._form: Sequence[str] = ()
        self._processes: dict[int, AgentProcess] = {}
        self._spare: AgentProcess | None = None
        self._turns: dict[int, Turn] = {}
        self._listings: dict[AgentProcess, tuple[str, threading.Event]] = {}
        self._lists_late = self._is_ending = self.is_leaving = False
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(8 * at_once + 8, thread_name_prefix="openvibe-calls"))
        threading.Thread(target=self._loop.run_forever, name="openvibe-acp", daemon=True).start()

    def begin(self, log: Callable[[str], object]) -> bool:
        """Whether the command speaks the protocol, in one of its forms. Its process is kept for the first message."""
        for form in self._launch.forms:
            if form[0] == "npx":
                log(f"Takes {form[2]} from npm, unless it is there already.")
            try:
                self._spare = self._call(self._start(form, self._launch.wait_seconds)).result()
            except (NoProtocol, OSError) as error:
                if self._launch.mode or len(self._launch.forms) > 1:
                    log(f"{' '.join(form)} does not speak the Agent Client Protocol here. {str(error)[-300:]}".strip())
                continue
            self._form = form
            return True
        return False

    def answer(self, mention: Mention, answer: Answer, *, is_resumed: bool = False) -> None:
        """Writes the whole answer and finishes it. `is_resumed`: the agent was prompted for it before the client was
        started anew. Raises CommandFailed, Stopped."""
        self._call(self._answer(mention, answer, is_resumed=is_resumed)).result()

    def wake(self, thread: int) -> None:
        """Something changed in a thread: permissions that are waited for are read again."""
        if turn := self._turns.get(thread):
            self._loop.call_soon_threadsafe(turn.wake)

    def end(self, *, is_leaving: bool) -> None:
        """Ends the processes. What is under way fails, or, when `is_leaving`, is left to the next start."""
        self._is_ending, self.is_leaving = True, is_leaving
        self._call(self._end()).result()
        if self._tools is not None:
            self._tools.close()

    async def _end(self) -> None:
        processes = [*self._processes.values(), *([self._spare] if self._spare else [])]
        await asyncio.gather(*(process.close() for process in processes))

    def _call(self, work: Any) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _start(self, form: Sequence[str], wait_seconds: float) -> AgentProcess:
        process = await AgentProcess.start(form, self._env, self._folder, wait_seconds)
        if self._tools is not None:
            self._listings[process] = self._tools.open()
        return process

    async def _process_of(self, thread: int) -> AgentProcess:
        """The process of this thread. As many are kept as threads are answered at once; the longest idle one goes."""
        process = self._processes.pop(thread, None) or self._spare
        self._spare = None if process is self._spare else self._spare
        if process is None or process.is_over:
            if process is not None:
                self._listings.pop(process, None)
            idle = [each for each in self._processes if each not in self._turns]
            for other in idle[: max(0, len(self._processes) + 1 - self._at_once)]:
                await self._drop(other)
            try:
                process = await self._start(self._form, self._launch.wait_seconds)
            except NoProtocol as error:
                raise CommandFailed(f"{self.name} could not be started.", str(error)) from None
            except OSError as error:
                raise CommandFailed(f"{self.name} could not be started: {error.strerror}.") from None
        self._processes[thread] = process
        if self._is_ending:
            await self._drop(thread)
            raise CommandFailed(END_MESSAGE)
        return process

    async def _drop(self, thread: int) -> None:
        if process := self._processes.pop(thread, None):
            self._listings.pop(process, None)
            await process.close()

    async def _answer(self, mention: Mention, answer: Answer, *, is_resumed: bool) -> None:
        turn = Turn(answer, self._folder)
        answer.on_change = lambda: self.wake(mention.thread)
        self._turns[mention.thread], state = turn, "failed"
        process = None
        try:
            process = await self._process_of(mention.thread)
            text = await self._open(process, mention, turn, is_resumed=is_resumed)
            usage = await self._converse(process, turn, text)
            state = "completed"
        except CommandFailed as error:
            if self._is_ending and self.is_leaving:
                raise Stopped from None
            reason = END_MESSAGE if self._is_ending else f"{self.name}: {error.reason}"
            raise CommandFailed(reason, "" if self._is_ending else error.details) from None
        finally:
            del self._turns[mention.thread]
            await asyncio.to_thread(turn.close, state)
            if process is not None:
                process.turn = None
                self._loop.call_later(IDLE_SECONDS, self._drop_idle, mention.thread, process)
        await asyncio.to_thread(answer.finish, model=turn.model or process.model, **usage)

    def _drop_idle(self, thread: int, process: AgentProcess) -> None:
        is_idle = thread not in self._turns and self._processes.get(thread) is process
        if is_idle and time.monotonic() - process.used_at >= IDLE_SECONDS - 1:
            self._drops = self._loop.create_task(self._drop(thread))

    async def _open(self, process: AgentProcess, mention: Mention, turn: Turn, *, is_resumed: bool) -> str:
        """Opens the thread's session, the kept one where it goes on; what it is to be told."""
        kept, run_before = self._sessions.get(mention.thread, self.name)
        url, listed = self._listings.get(process, ("", None))
        context = None
        if not is_resumed:
            context = await asyncio.to_thread(mention.context, after_run=run_before)
            kept = kept if context.is_continuation else ""
        opened_before = process.session
        if listed is not None:
            listed.clear()
        is_new = await process.open_session(kept, self._folder, url, self._launch.mode)
        if is_new and is_resumed:
            raise CommandFailed(NO_RESUMING.format(name=self.name))
        if listed is not None and process.session != opened_before:
            await self._wait_for_tools(listed, turn)
        if context is None:
            turn.begin_paragraph()
        elif is_new and context.is_continuation:  # the session is gone
            context = await asyncio.to_thread(mention.context)
        assert turn.answer.run is not None
        self._sessions.set(mention.thread, self.name, process.session, turn.answer.run["id"])
        return GO_ON if context is None else context.text

    async def _wait_for_tools(self, listed: threading.Event, turn: Turn) -> None:
        """Agents that listed the tools with the first turn only are not waited for again."""
        if await asyncio.to_thread(listed.wait, 0.0 if self._lists_late else TOOLS_SECONDS) or self._lists_late:
            return
        turn.note("OpenVibe's tools were not there in time: it begins without them.", key="tools")

        def hear_late() -> None:
            if listed.is_set():
                self._lists_late = True
                turn.note("OpenVibe's tools came after it had begun.", key="tools")

        turn.at_end.append(hear_late)

    async def _converse(self, process: AgentProcess, turn: Turn, text: str) -> dict[str, Any]:
        """Prompts until nobody has said anything more; the usage, for `Answer.finish`."""
        answer, ends_at = turn.answer, time.monotonic() + self._run_seconds
        usage: dict[str, Any] = {"usage": None, "cached_tokens": None}
        process.turn = turn
        while True:
            process.used_at = time.monotonic()
            response, is_interrupted = await self._prompt(process, turn, text, ends_at)
            for used in [response.usage] if response.usage else turn.usages:
                add_usage(usage, used)
            turn.usages.clear()
            if response.stop_reason in LIMITS:
                turn.note(LIMITS[response.stop_reason])
            news = await asyncio.to_thread(answer.heard)
            answer.check()
            parts = [text_of(news)] if news else []
            parts += ["\n".join(turn.notes)] if turn.notes else []
            parts += ["You were interrupted. Say where you stand."] if is_interrupted and not parts else []
            turn.notes.clear()
            if not parts:
                break
            text = "\n\n".join(parts)
            turn.begin_paragraph()
        for hear in turn.at_end:
            hear()
        if process.lines.skipped_bytes:
            turn.note(f"It sent {process.lines.skipped_bytes:,} bytes in updates that were too long and were left out.")
            process.lines.skipped_bytes = 0
        if not answer.has_words:
            said = {"refusal": "It refused to answer.", "cancelled": "It ended its turn without an answer."}
            raise CommandFailed(said.get(response.stop_reason, "It answered nothing."), process.errors)
        return usage

    async def _prompt(self, process: AgentProcess, turn: Turn, text: str, ends_at: float) -> tuple[Any, bool]:
        """The end of one prompt, and whether people interrupted it. Raises Stopped, CommandFailed."""
        answer = turn.answer
        prompt = asyncio.create_task(process.prompt(text))
        while not prompt.done():
            woken = asyncio.create_task(turn.changed.wait())
            room = ends_at - time.monotonic()
            wants_end = answer.is_over or answer.is_interrupted or self._is_ending or room <= 0
            if not wants_end:
                await asyncio.wait({prompt, woken}, timeout=room, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
            if wants_end:
                break
        is_interrupted = not prompt.done()
        if is_interrupted:
            await process.cancel()
            await asyncio.wait({prompt}, timeout=CANCEL_SECONDS)
        is_late = not prompt.done()
        if is_late:
            await process.close()
            with suppress(CommandFailed):
                await prompt
        answer.check()
        if time.monotonic() >= ends_at:
            raise CommandFailed(f"It took longer than its limit of {self._run_seconds / 60:g} minutes and was ended.")
        if is_late:
            raise CommandFailed(f"It did not stop within {CANCEL_SECONDS:g} seconds when people interrupted it.")
        return await prompt, is_interrupted


def add_usage(usage: dict[str, Any], reported: Any) -> None:
    """Adds what the agent says it used in a prompt. Some count what came from a cache among what they read, others
    apart: their total tells."""
    counts = (reported.input_tokens, reported.output_tokens, reported.cached_read_tokens, reported.cached_write_tokens)
    read, written, cached, stored = (max(0, count or 0) for count in counts)
    is_apart = cached > read or (cached + stored and reported.total_tokens >= read + written + cached + stored)
    read += cached + stored if is_apart else 0
    before = usage["usage"] or (0, 0)
    usage["usage"] = (min(MAX_TOKENS, before[0] + read), min(MAX_TOKENS, before[1] + written))
    if reported.cached_read_tokens is not None:
        usage["cached_tokens"] = min(usage["usage"][0], (usage["cached_tokens"] or 0) + cached)

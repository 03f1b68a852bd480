"""`openvibe run`: a command answers what an agent is asked, in order within a thread, several threads at once."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from openvibe_client.answer import Answer
from openvibe_client.failure import CommandFailed
from openvibe_client.schema import Run
from openvibe_client.sessions import Sessions
from openvibe_client.vibe import Mention, Vibe, write_position


class Answerer(Protocol):
    """What writes answers: by the Agent Client Protocol, or in plain text."""

    name: str
    keeps_sessions: bool
    """Whether what it was asked for can be gone on with by another process."""

    def answer(self, mention: Mention, answer: Answer, *, is_resumed: bool = False) -> None: ...

    def wake(self, thread: int) -> None: ...

    def end(self, *, is_leaving: bool) -> None: ...


class Termination(KeyboardInterrupt):
    """SIGTERM, as a service manager sends it: what is under way is left to the next start."""


class Runner:
    """Hears mentions and has them answered: in order within a thread, `at_once` threads at a time."""

    def __init__(
        self, vibe: Vibe, sessions: Sessions, answerer: Answerer, log: Callable[[str], object], *, at_once: int = 4
    ) -> None:
        self.vibe, self.sessions, self.answerer, self._log, self._at_once = vibe, sessions, answerer, log, at_once
        self._waiting: dict[int, deque[tuple[Mention, Run | None, bool]]] = {}
        self._lock = threading.Lock()
        self._is_leaving = False

    def run(self) -> None:
        """Runs until the token may not listen any more (ApiError), or KeyboardInterrupt; nothing is left running
        then."""
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="openvibe-run") as pool:
            try:
                self.vibe.on_work_changed = self.answerer.wake
                mentions = self.vibe.mentions(position_file=self.sessions.position_file)
                self._log(f"@{self.vibe.handle} listens, and answers with {self.answerer.name}.")
                for mention, run, is_prompted in self._runs_under_way():
                    self._enqueue(pool, mention, run, is_prompted=is_prompted)
                for mention in mentions:
                    self._enqueue(pool, mention)
            except Termination:
                self._is_leaving = True
                raise
            finally:
                self._end()

    def _enqueue(
        self, pool: ThreadPoolExecutor, mention: Mention, run: Run | None = None, *, is_prompted: bool = False
    ) -> None:
        with self._lock:
            is_idle = mention.thread not in self._waiting
            self._waiting.setdefault(mention.thread, deque()).append((mention, run, is_prompted))
        if is_idle:
            pool.submit(self._answer_thread, mention.thread)

    def _runs_under_way(self) -> list[tuple[Mention, Run, bool]]:
        """What the last start left half done. What the server does not hold for it any more has failed there."""
        found = []
        for key, kept in self.sessions.under_way().items():
            message = self.vibe.message(kept["message"])
            if message is None:
                self.sessions.end(int(key))
                continue
            run: Run = {"id": int(key), "attempt": kept["attempt"], "state": "writing"}
            found.append((Mention(self.vibe, message), run, kept["is_prompted"]))
        return found

    def _end(self) -> None:
        """Ends what answers. What nobody began is told again to the next start."""
        with self._lock:
            waiting = [mention for queue in self._waiting.values() for mention, _, _ in queue]
            self._waiting = {thread: deque() for thread in self._waiting}
        self.answerer.end(is_leaving=self._is_leaving)
        if positions := [mention.position for mention in waiting if mention.position]:
            write_position(self.sessions.position_file, min(positions) - 1)

    def _answer_thread(self, thread: int) -> None:
        while True:
            with self._lock:
                if not self._waiting[thread]:
                    del self._waiting[thread]
                    return
                mention, run, is_prompted = self._waiting[thread].popleft()
            try:
                self._log(
                    f"Message {mention.id} in thread {thread}, of @{mention.author}: {'goes on' if run else 'begun'}."
                )
                state = self._answer(mention, run, is_prompted=is_prompted)
                self._log(f"Message {mention.id}: {state}.")
            except Exception as error:  # the next mention is answered all the same
                self._log(f"Message {mention.id}: {type(error).__name__}: {error}")

    def _answer(self, mention: Mention, run: Run | None, *, is_prompted: bool) -> str:
        """The state in which the answer ended."""
        with mention.answer(run=run) as answer:
            answer.check()
            assert answer.run is not None
            is_begun = is_prompted or not self.answerer.keeps_sessions
            self.sessions.begin(answer.run["id"], mention.id, answer.run["attempt"], is_prompted=is_begun)
            try:
                self.answerer.answer(mention, answer, is_resumed=is_prompted)
            except CommandFailed as error:
                answer.fail(error.reason, error.details)
        if answer.run is not None and (answer.is_over or not self._is_leaving):
            self.sessions.end(answer.run["id"])
        return answer.state if answer.is_over else "left to the next start"

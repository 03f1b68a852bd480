"""A reply that grows in the thread while it is written: what is written is sent a few times a second.

A thread of its own sends the words and, in silence, signs of life; the answers to them say whether people pressed
*Stop*."""

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from openvibe_client.http import PATIENT_TRIES, TRIES, ApiError, backoff_seconds
from openvibe_client.schema import PromptMessage, Run

if TYPE_CHECKING:
    from openvibe_client.vibe import Mention

MAX_CHARACTERS = 100_000
"""The most characters of a reply (Unicode code points), as the server takes them."""
TRUNCATION_NOTICE = "\n\n[The answer was longer than a message may be and was cut here.]"
MAX_REASON_CHARACTERS = 15_000
MAX_STEP_CHARACTERS = 20_000
"""The most characters of what a step says, was asked and answered; a thought may be as long as a reply."""
NO_ANSWER_CODES = ("answered", "run_over", "agent_silent", "not_addressed", "archived", "deleted", "not_found")
"""Codes that say that nobody waits for an answer: it is there, or it may not be given (any more)."""
SEND_SECONDS = 0.3
"""Seconds between two sendings of words."""
SIGN_OF_LIFE_SECONDS = 2.0
"""Seconds between two calls while nothing is written: so long may it take to hear of a Stop."""


def storable(text: str) -> str:
    """The text without what the server cannot keep: NUL, and halves of characters such as undecodable file names
    have."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


class Stopped(Exception):
    """Nobody waits for more words: people pressed Stop, the message is answered already, or the run failed."""


class Answer:
    """`with mention.answer() as reply: reply.write("…")`. Leaving it finishes the reply.

    An exception marks the reply as failed, says why, and goes on; `Stopped` alone ends here. `state` is the run's.
    `is_interrupted`: people want what they said meanwhile heard at once (`heard`). `on_change` is called, in a thread,
    when that is so, or the answer is over.
    """

    def __init__(self, mention: "Mention", *, run: Run | None = None) -> None:
        """`run`: one that a process which is no more has begun (its `id` and `attempt`), to be gone on with."""
        self.mention = mention
        self.run: Run | None = run
        self.state = ""
        self.is_interrupted = False
        self.on_change: Callable[[], None] | None = None
        self.reply: int | None = None
        self.error: ApiError | None = None
        self._api = mention.vibe.api
        self._words, self._sent = "", 0
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._has_news, self._is_closing = threading.Event(), threading.Event()
        self._sender = threading.Thread(target=self._send_until_closed, name="openvibe-answer", daemon=True)

    def __enter__(self) -> "Answer":
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self.finish()
        elif isinstance(error, Stopped):
            self._close()
        elif isinstance(error, KeyboardInterrupt):
            self.fail("It was ended where it runs.")
        else:
            self.fail(f"{type(error).__name__}: {error}")
        return isinstance(error, Stopped)

    @property
    def is_over(self) -> bool:
        """Whether more words would be lost."""
        return self.state not in ("", "reading", "writing")

    @property
    def has_words(self) -> bool:
        return bool(self._words.strip())

    def begin(self) -> None:
        """Takes the message, so that no other process of this agent answers it; waits while one writes in the thread,
        and while the server is away.

        Where there is nothing to answer (any more), the answer is over. Raises ApiError for what an operator must mend.
        """
        failures = 0
        while not self.state:
            try:
                if self.run is not None:
                    self._resume(self.run)
                else:
                    self.run = self._api.call("POST", "runs/", {"message": self.mention.id}, is_repeatable=True)
                    self.state = self.run["state"]
            except ApiError as error:
                if error.code != "being_written" and not error.is_away:
                    self._end_with(error)
                    if error.code in NO_ANSWER_CODES:
                        return
                    raise
                time.sleep(backoff_seconds(failures, longest=5.0))
                failures += 1
        self._sender.start()

    def _resume(self, kept: Run) -> None:
        """Goes on with a run as its next attempt, after the words that stand there."""
        state = self._api.call("POST", f"runs/{kept['id']}/resume/", {"attempt": kept["attempt"]})
        self.run, self.reply = {**kept, "attempt": state["attempt"]}, state["reply"]
        if self.reply is not None:
            self._words = str(self._api.call("GET", f"messages/{self.reply}/")["body"])
        self._sent, self.state = len(self._words), state["state"]

    def write(self, words: str) -> None:
        """Adds words to the reply. Raises Stopped when nobody waits for them, ApiError when the token is no more."""
        self.check()
        words = storable(words)
        with self._lock:
            self._words += words[: MAX_CHARACTERS - len(self._words)]
        self._has_news.set()

    def check(self) -> None:
        """Raises Stopped when nobody waits for more words."""
        if self.error is not None and self.error.status == 401:
            raise self.error
        if self.is_over:
            raise Stopped

    def look(self) -> None:
        """Hears now, and not with the next sign of life, whether people want no more."""
        with suppress(ApiError):
            self._send("")

    def step(
        self,
        text: str,
        *,
        kind: str = "note",
        key: str = "",
        state: str = "done",
        tool: str = "",
        arguments: str = "",
        result: str = "",
        seconds: float = 0.0,
        tool_kind: str = "",
        files: Sequence[dict[str, Any]] = (),
    ) -> str:
        """Tells people what the agent does, beside the reply: a `note`, a `tool` that it calls, a `thought`. Returns
        the key of the step; given again, the step is changed. `state`: running, done, failed or refused. `tool_kind`
        as the Agent Client Protocol has it; `files`: at most 50 that it changed, each `path`, `diff`, `added`,
        `removed`.

        Raises Stopped when nobody waits any more, ApiError for a step that is not taken.
        """
        self.check()
        assert self.run is not None
        texts = {"text": text, "tool": tool, "arguments": arguments, "result": result}
        limits = {"text": MAX_CHARACTERS if kind == "thought" else MAX_STEP_CHARACTERS, "tool": 100}
        bounded = {name: storable(each)[: limits.get(name, MAX_STEP_CHARACTERS)] for name, each in texts.items()}
        step = {"kind": kind, "key": key or uuid.uuid4().hex, "state": state, "seconds": seconds, **bounded}
        told = [{**file, "path": storable(file["path"]), "diff": storable(file["diff"])} for file in files[:50]]
        self.tell("POST", "steps/", {**step, "tool_kind": tool_kind, "files": told})
        return str(step["key"])

    def tell(self, method: str, path: str, body: dict[str, Any] | None = None, *, tries: int = TRIES) -> Any:
        """A call of this run's: `answer.tell("PUT", "plan/", {"entries": […]})`. Raises Stopped when nobody waits any
        more, ApiError."""
        self.check()
        assert self.run is not None
        told = None if method == "GET" else {"attempt": self.run["attempt"], **(body or {})}
        try:
            return self._api.call(method, f"runs/{self.run['id']}/{path}", told, is_repeatable=True, tries=tries)
        except ApiError as error:
            if error.code in NO_ANSWER_CODES:
                self._end_with(error)
                raise Stopped from None
            raise

    def heard(self) -> list[PromptMessage]:
        """What people said in the thread since the context, or since this was asked last; each once. They are told
        that they were heard."""
        told: list[PromptMessage] = []
        with self._asking:  # else an answer from before may say once more that they interrupt
            while messages := self.tell("POST", "heard/", tries=PATIENT_TRIES)["messages"]:  # long talk comes in parts
                told += messages
            self.is_interrupted = False
        return told

    def finish(
        self,
        words: str | None = None,
        *,
        model: str = "",
        usage: tuple[int, int] | None = None,
        cached_tokens: int | None = None,
    ) -> None:
        """Ends the reply; `words` replace what was written. `usage`: tokens read and written; of those read,
        `cached_tokens` came from a cache. What is not known the server counts. Raises ApiError."""
        self._close()
        words = self._words if words is None else storable(words)
        if len(words) >= MAX_CHARACTERS:
            words = words[: MAX_CHARACTERS - len(TRUNCATION_NOTICE)] + TRUNCATION_NOTICE
        read, written = usage or (None, None)
        tokens = {"input_tokens": read, "output_tokens": written, "cached_tokens": cached_tokens}
        self._end({"body": words, "model": model[:120], **tokens})

    def fail(self, reason: str, details: str = "") -> None:
        """Ends the reply as failed, with the reason for people to read, and after an empty line what else is known of
        it; what was written stays."""
        self._close()
        if self.run is not None and not self.is_over:
            with suppress(ApiError):  # the last words; if they cannot be had, the failure still can
                self._send(self._words[self._sent :])
        error = f"{reason}\n\n{details}".strip() if details else reason
        self._end({"error": storable(error)[:MAX_REASON_CHARACTERS]})

    def _end(self, body: dict[str, object]) -> None:
        if self.run is None or self.is_over:
            return
        call = ("POST", f"runs/{self.run['id']}/finish/", {"attempt": self.run["attempt"], **body})
        try:
            self.state = self._api.call(*call, is_repeatable=True, tries=PATIENT_TRIES)["state"]
        except ApiError as error:
            if error.code == "empty":
                self.fail("It answered nothing.")
                return
            self._end_with(error)
            if error.code not in NO_ANSWER_CODES:
                raise

    def _close(self) -> None:
        """The sender ends; what it has not sent goes with the end of the reply."""
        self._is_closing.set()
        self._has_news.set()
        if self._sender.is_alive():
            self._sender.join()

    def _send_until_closed(self) -> None:
        failures = 0
        while not self.is_over:
            self._has_news.wait(SIGN_OF_LIFE_SECONDS)
            self._has_news.clear()
            if self._is_closing.is_set():
                break
            with self._lock:
                words = self._words[self._sent :]
            try:
                self._send(words)
                failures = 0
            except ApiError as error:
                if not error.is_away and error.status < 500:
                    self._end_with(error)
                failures += 1
                self._has_news.set()
            self._is_closing.wait(backoff_seconds(failures, longest=5.0) if failures else SEND_SECONDS)
        self._api.close()
        if self.is_over and self.on_change is not None:
            self.on_change()

    def _send(self, words: str) -> None:
        assert self.run is not None
        body = {"attempt": self.run["attempt"], "offset": self._sent, "body": words}
        with self._asking:
            progress: Any = self._api.call("PATCH", f"runs/{self.run['id']}/reply/", body, is_repeatable=True, tries=1)
            self._sent += len(words)
            self.reply, self.state = progress["reply"], progress["state"]
            is_news = progress["interrupt"] and not self.is_interrupted
            self.is_interrupted = progress["interrupt"]
        if is_news and self.on_change is not None:
            self.on_change()

    def _end_with(self, error: ApiError) -> None:
        """Nothing more is taken. The state is the run's own: what people stopped did not fail."""
        self.error = error
        state = "failed" if self.run is not None or error.code not in NO_ANSWER_CODES else "passed over"
        if self.run is not None and error.code == "run_over":
            with suppress(ApiError):
                state = self._api.call("GET", f"runs/{self.run['id']}/")["state"]
        self.state = state if state not in ("", "queued", "reading", "writing") else "failed"

"""A reply that grows in the thread while it is written: what is written is sent a few times a second.

A thread of its own sends the words and, in silence, signs of life; the answers to them say whether people pressed
*Stop*."""

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from openvibe_client.http import ApiError, backoff_seconds
from openvibe_client.schema import ReplyState, Run

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
PATIENCE_SECONDS = 60.0
"""How long the end of a reply is told to a server that is away: by then it takes the agent for silent."""
SEND_SECONDS = 0.3
"""Seconds between two sendings of words."""
SIGN_OF_LIFE_SECONDS = 2.0
"""Seconds between two calls while nothing is written: so long may it take to hear of a Stop."""


def _storable(text: str) -> str:
    """The text without what the server cannot keep: NUL, and halves of characters such as undecodable file names
    have."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


class Stopped(Exception):
    """Nobody waits for more words: people pressed Stop, the message is answered already, or the run failed."""


class Answer:
    """`with mention.answer() as reply: reply.write("…")`. Leaving it finishes the reply.

    An exception marks the reply as failed, says why, and goes on; `Stopped` alone ends here. `state` is the run's.
    """

    def __init__(self, mention: "Mention", *, on_end: Callable[[], None] | None = None) -> None:
        self.mention = mention
        self.run: Run | None = None
        self.state = ""
        self.reply: int | None = None
        self.error: ApiError | None = None
        self._api, self._on_end = mention.vibe.api, on_end
        self._words, self._sent = "", 0
        self._lock, self._has_news, self._is_closing = threading.Lock(), threading.Event(), threading.Event()
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
        return self.state in ("done", "stopped", "failed")

    @property
    def has_words(self) -> bool:
        return bool(self._words.strip())

    def begin(self) -> None:
        """Takes the message, so that no other process of this agent answers it; waits while one writes in the thread,
        and while the server is away.

        Where there is nothing to answer (any more), the answer is over. Raises ApiError for what an operator must mend.
        """
        failures = 0
        while self.run is None:
            try:
                self.run = self._api.call("POST", "runs/", {"message": self.mention.id}, is_repeatable=True)
            except ApiError as error:
                if error.code != "being_written" and not error.is_away:
                    self._end_with(error)
                    if error.code in NO_ANSWER_CODES:
                        return
                    raise
                time.sleep(backoff_seconds(failures, longest=5.0))
                failures += 1
        self.state = self.run["state"]
        self._sender.start()

    def write(self, words: str) -> None:
        """Adds words to the reply. Raises Stopped when nobody waits for them, ApiError when the token is no more."""
        self.check()
        words = _storable(words)
        with self._lock:
            self._words += words[: MAX_CHARACTERS - len(self._words)]
        self._has_news.set()

    def check(self) -> None:
        """Raises Stopped when nobody waits for more words."""
        if self.error is not None and self.error.status == 401:
            raise self.error
        if self.is_over:
            raise Stopped

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
    ) -> str:
        """Tells people what the agent does, beside the reply: a `note`, a `tool` that it calls, a `thought`. Returns
        the key of the step; given again, the step is changed. `state`: running, done, failed or refused.

        Raises Stopped when nobody waits any more, ApiError for a step that is not taken.
        """
        self.check()
        assert self.run is not None
        texts = {"text": text, "tool": tool, "arguments": arguments, "result": result}
        limits = {"text": MAX_CHARACTERS if kind == "thought" else MAX_STEP_CHARACTERS, "tool": 100}
        bounded = {name: _storable(each)[: limits.get(name, MAX_STEP_CHARACTERS)] for name, each in texts.items()}
        step = {"kind": kind, "key": key or uuid.uuid4().hex, "state": state, "seconds": seconds, **bounded}
        body = {"attempt": self.run["attempt"], **step}
        try:
            self._api.call("POST", f"runs/{self.run['id']}/steps/", body, is_repeatable=True)
        except ApiError as error:
            if error.code in NO_ANSWER_CODES:
                raise Stopped from None
            raise
        return str(step["key"])

    def finish(self, words: str | None = None, *, model: str = "", usage: tuple[int, int] | None = None) -> None:
        """Ends the reply; `words` replace what was written. `usage`: tokens read and written. Raises ApiError."""
        self._close()
        words = self._words if words is None else _storable(words)
        if len(words) >= MAX_CHARACTERS:
            words = words[: MAX_CHARACTERS - len(TRUNCATION_NOTICE)] + TRUNCATION_NOTICE
        tokens = {} if usage is None else {"input_tokens": usage[0], "output_tokens": usage[1]}
        self._end({"body": words, "model": model[:120], **tokens})

    def fail(self, reason: str) -> None:
        """Ends the reply as failed, with the reason for people to read; what was written stays."""
        self._close()
        if self.run is not None and not self.is_over:
            with suppress(ApiError):  # the last words; if they cannot be had, the failure still can
                self._send(self._words[self._sent :])
        self._end({"error": _storable(reason)[-MAX_REASON_CHARACTERS:]})

    def _end(self, body: dict[str, object]) -> None:
        if self.run is None or self.is_over:
            return
        fields = {"attempt": self.run["attempt"], **body}
        gives_up_at = time.monotonic() + PATIENCE_SECONDS
        try:
            ended: Run | None = None
            while ended is None:
                ended = self._tell_end(fields, gives_up_at)
            self.state = ended["state"]
        except ApiError as error:
            if error.code == "empty":
                self.fail("It answered nothing.")
                return
            self._end_with(error)
            if error.code not in NO_ANSWER_CODES:
                raise

    def _tell_end(self, fields: dict[str, object], gives_up_at: float) -> Run | None:
        """The run, over; None while the server is away."""
        assert self.run is not None
        try:
            ended: Run = self._api.call("POST", f"runs/{self.run['id']}/finish/", fields, is_repeatable=True)
        except ApiError as error:
            if not error.is_away or time.monotonic() > gives_up_at:
                raise
            return None
        return ended

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
        if self.is_over and self._on_end is not None:
            self._on_end()

    def _send(self, words: str) -> None:
        assert self.run is not None
        body = {"attempt": self.run["attempt"], "offset": self._sent, "body": words}
        progress: ReplyState = self._api.call(
            "PATCH", f"runs/{self.run['id']}/reply/", body, is_repeatable=True, tries=1
        )
        self._sent += len(words)
        self.reply, self.state = progress["reply"], progress["state"]

    def _end_with(self, error: ApiError) -> None:
        self.error, self.state = error, "failed"

"""What can go wrong with a model. One small tree; every error is a sentence and says the next step.

`str(error)` says what happened, `error.advice` what to do about it, `error.code` is for programs.
None of them ever holds a key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class EndpointReport:
    """What an endpoint says went wrong: the HTTP status (200 where the answer had begun), its own code and words, and
    the field of the request that it names. `is_in_answer`: it came where an answer was to come, with HTTP 200. `body`:
    all of it, as it was decoded. `is_web_page`: it was a page for people, as proxies and firewalls send."""

    status: int
    code: str = ""
    message: str = ""
    retry_after: str | None = None
    param: str = ""
    is_in_answer: bool = False
    body: Any = field(default=None, repr=False, compare=False)
    is_web_page: bool = False


class ModelError(Exception):
    """Any failure of a model client. `may_pass` says whether the same call may succeed a moment later, `retry_after` in
    how many seconds (None where unknown); `report` what the endpoint said, where it did, without its key."""

    code = "model_error"
    advice = "Try again. If it happens again, admins can test the model: Settings, Models."
    may_pass = False
    report: EndpointReport | None = None
    attempts = 1
    """Times that the endpoint was asked before this was raised."""
    concerns_task = False
    """Whether it says something about what was asked, and not only about a model or a server that failed."""

    def __init__(
        self, message: str, *, advice: str | None = None, may_pass: bool | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        if advice is not None:
            self.advice = advice
        if may_pass is not None:
            self.may_pass = may_pass


class AuthRefused(ModelError):
    """The endpoint does not accept the key, or the key may not use this model."""

    code = "model_auth_refused"
    advice = "Admins can enter another key: Settings, Models."


class RateLimited(ModelError):
    """A refusal because of too many requests or a used-up quota."""

    code = "model_rate_limited"
    advice = "Wait a little and try again."
    may_pass = True


class ModelTimeout(ModelError):
    """No first word, or no end, within the time the endpoint is given."""

    code = "model_timed_out"
    advice = "Try again. Admins can give the model more time: Settings, Models."


class LimitReached(ModelTimeout):
    """A limit of ours ended the call. `Retries` says which one."""


class ContextTooLong(ModelError):
    """The prompt does not fit the model's window.

    `window`: tokens that the endpoint says it takes, prompt and answer together; `prompt_tokens`: what it was sent, as
    it counts. None where it did not say.
    """

    code = "model_context_too_long"
    advice = "Admins can set the context window to what the model really takes: Settings, Models."

    def __init__(
        self,
        message: str,
        *,
        advice: str | None = None,
        may_pass: bool | None = None,
        retry_after: float | None = None,
        window: int | None = None,
        prompt_tokens: int | None = None,
    ) -> None:
        super().__init__(message, advice=advice, may_pass=may_pass, retry_after=retry_after)
        self.window, self.prompt_tokens = window, prompt_tokens

    def smaller_window(self, sent: int, reserve: int) -> int:
        """Tokens that the next prompt and its answer may take, as we count them, after one of `sent` tokens with
        `reserve` for its answer was refused: what the endpoint names, in our measure where its own is another; a third
        less than before where it names nothing, or nothing that is less."""
        before = sent + reserve
        if self.window is None:
            return before * 2 // 3
        window = self.window
        if self.prompt_tokens and self.prompt_tokens > sent:  # its tokenizer needs more, but not twice as many
            window = max(window * sent // self.prompt_tokens, window // 2)
        return window if window < before else before * 2 // 3


class ModelUnavailable(ModelError):
    """The endpoint cannot be reached, is overloaded, or broke off in the middle of an answer."""

    code = "model_unavailable"
    may_pass = True
    advice = "Try again in a minute. If it stays away, admins can test the model: Settings, Models."


class EndpointRests(ModelUnavailable):
    """The endpoint was not asked: it failed again and again, and is left alone for `seconds` more."""

    def __init__(self, message: str, *, seconds: int = 0) -> None:
        super().__init__(message)
        self.seconds = seconds


class NothingListens(ModelUnavailable):
    """The machine is there, and nothing takes connections at its port: a server that is off, or that starts. Waited for
    a little longer than other errors."""


class ModelLoading(ModelUnavailable):
    """The server is there, and its model not yet. Waited for longer than other errors."""

    code = "model_loading"
    advice = "Try again in a minute. A large model takes a while to load; its server's own output says how far it is."


class BadAnswer(ModelError):
    """The endpoint answered, but with nothing or with something that is not an answer."""

    code = "model_bad_answer"
    advice = "Try again. If it happens again, admins can check the address and the model's name: Settings, Models."


class EmptyAnswer(BadAnswer):
    """The model came to its end without a word or a tool call: to this it had no answer."""

    concerns_task = True


class ThoughtTooLong(EmptyAnswer):
    """The model used all its output tokens before it said a word."""

    concerns_task = False


class BudgetExceeded(ModelError):
    """A call that was not asked at all: it would cost more tokens than the day's budget has left."""

    code = "token_budget_spent"
    advice = "It starts afresh at midnight UTC."

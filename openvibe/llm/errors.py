"""What can go wrong with a model. One small tree; every error is a sentence and says the next step.

`str(error)` says what happened, `error.advice` what to do about it, `error.code` is for programs.
None of them ever holds a key.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EndpointReport:
    """What an endpoint says went wrong: the HTTP status (200 where the answer had begun), its own code and words, and
    the field of the request that it names. `is_in_answer`: it came where an answer was to come, with HTTP 200."""

    status: int
    code: str = ""
    message: str = ""
    retry_after: str | None = None
    param: str = ""
    is_in_answer: bool = False


class ModelError(Exception):
    """Any failure of a model client. `may_pass` says whether the same call may succeed a moment later, `retry_after` in
    how many seconds (None where unknown); `report` what the endpoint said, where it did, without its key."""

    code = "model_error"
    advice = "Try again. If it happens again, admins can test the model: Settings, Models."
    may_pass = False
    report: EndpointReport | None = None

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
    """Too many requests or a used-up quota."""

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
    """The prompt does not fit the model's window."""

    code = "model_context_too_long"
    advice = "Admins can set the context window to what the model really takes: Settings, Models."


class ModelUnavailable(ModelError):
    """The endpoint cannot be reached, is overloaded, or broke off in the middle of an answer."""

    code = "model_unavailable"
    may_pass = True
    advice = "Try again in a minute. If it stays away, admins can test the model: Settings, Models."


class ModelLoading(ModelUnavailable):
    """The server is there, and its model not yet. Waited for longer than other errors."""

    code = "model_loading"
    advice = "Try again in a minute. A large model takes a while to load; its server's own output says how far it is."


class BadAnswer(ModelError):
    """The endpoint answered, but with nothing or with something that is not an answer."""

    code = "model_bad_answer"
    advice = "Try again. If it happens again, admins can check the address and the model's name: Settings, Models."


class EmptyAnswer(BadAnswer):
    """The model came to its end without a word or a tool call."""


class ThoughtTooLong(EmptyAnswer):
    """The model used all its output tokens before it said a word."""


class BudgetExceeded(ModelError):
    """Not asked at all: it would cost more tokens than the day's budget has left."""

    code = "token_budget_spent"
    advice = "It starts afresh at midnight UTC."

"""What an endpoint or its client library complains of, in our words. The key never appears in them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
import openai

from openvibe.base.secrets import mask_secrets
from openvibe.llm.errors import (
    AuthRefused,
    BadAnswer,
    ContextTooLong,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    RateLimited,
)
from openvibe.llm.outbound import AddressRefused

_TOO_LONG = ("context_length", "maximum context", "context window", "context size", "prompt is too long")
_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")


def translated(error: Exception, *, key: str) -> ModelError:
    """The ModelError for anything that can go wrong in a call."""
    for cause in _causes(error):
        if isinstance(cause, AddressRefused):
            return ModelUnavailable(str(cause), may_pass=False)
        if isinstance(cause, openai.APITimeoutError | httpx2.TimeoutException):
            return ModelTimedOut("The model did not answer in time.")
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, key)
    if isinstance(error, openai.APIConnectionError | httpx2.TransportError):
        return ModelUnavailable("The model endpoint cannot be reached, or it broke off its answer.")
    if isinstance(error, openai.APIError) and not isinstance(error, openai.APIResponseValidationError):
        return _of_stream(error, key)
    return BadAnswer("The endpoint answered with something that is not a chat completion.")


def other_limit_name(error: Exception) -> str | None:
    """The name the endpoint wants the output limit to be called by, where it complains of that."""
    if not isinstance(error, openai.BadRequestError) or error.param not in _LIMIT_NAMES:
        return None
    other = _LIMIT_NAMES[1 - _LIMIT_NAMES.index(error.param)]
    return other if other in error.message else None


def _of_status(error: openai.APIStatusError, key: str) -> ModelError:
    status, told = error.status_code, _told(error, key)
    if status in (401, 403):
        return AuthRefused(f"The endpoint refused the key (HTTP {status}).{told}")
    if status == 429:
        return _rate_limited(error, told)
    if status == 408:
        return ModelTimedOut("The endpoint gave up waiting (HTTP 408).")
    if _is_too_long(error) or status == 413:
        return ContextTooLong(f"The prompt is longer than the model takes.{told}")
    if status >= 500:
        return ModelUnavailable(f"The endpoint has trouble of its own (HTTP {status}).{told}")
    if status == 404:
        return BadAnswer(f"The endpoint knows no such address or model (HTTP 404).{told}")
    if 300 <= status < 400:
        return BadAnswer(
            f"The endpoint points somewhere else (HTTP {status}), which is not followed.",
            advice="Ask an admin to enter the address it points to.",
        )
    return BadAnswer(f"The endpoint did not accept the request (HTTP {status}).{told}")


def _of_stream(error: openai.APIError, key: str) -> ModelError:
    """An error told inside a stream, after it had begun with HTTP 200."""
    told = _told(error, key)
    if _is_too_long(error):
        return ContextTooLong(f"The prompt is longer than the model takes.{told}")
    if "rate" in (error.code or error.type or ""):
        return RateLimited(f"The endpoint is asked too often.{told}")
    return ModelUnavailable(f"The endpoint reported an error.{told}")


def _rate_limited(error: openai.APIStatusError, told: str) -> RateLimited:
    if error.code == "insufficient_quota":
        return RateLimited(
            f"The quota of this endpoint's key is used up.{told}",
            advice="Ask an admin to look at the provider's billing page.",
            may_pass=False,
        )
    after = _seconds(error.response.headers.get("retry-after"))
    return RateLimited(f"The endpoint is asked too often (HTTP 429).{told}", retry_after=after)


def _seconds(header: str | None) -> float | None:
    """A Retry-After header, in seconds from now: a number or a date."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            at = parsedate_to_datetime(header)
        except ValueError:
            return None
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _is_too_long(error: openai.APIError) -> bool:
    said = f"{error.code} {error.message}".lower()
    return any(phrase in said for phrase in _TOO_LONG)


def _told(error: openai.APIError, key: str) -> str:
    """What the endpoint itself said, in one short line without secrets."""
    said = error.body.get("message") if isinstance(error.body, dict) else None
    if not isinstance(said, str) or not said.strip():
        return ""
    said = " ".join(said.split())
    if len(key) >= 4:
        said = said.replace(key, "[secret removed]")
    return f" It says: {mask_secrets(said)[:300]}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__

"""The official `openai` package, tamed: a client over a guarded connection, its errors as ModelErrors without a key."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
import openai

from openvibe.base.masking import mask_secrets
from openvibe.base.ssrf_guard import AddressRefused, GuardedTransport
from openvibe.llm.errors import (
    AuthRefused,
    BadAnswer,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)

SDK_ERRORS = (  # what the package raises, and what it trips over in answers that are none
    openai.OpenAIError,
    httpx2.HTTPError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
_HEADERS = {"Accept-Encoding": "identity"}  # what comes is as big as it looks


@contextmanager
def open_client(
    *,
    base_url: str,
    api_key: str,
    read_timeout: float,
    total_seconds: float,
    allow_private: bool,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[openai.OpenAI]:
    """A client for one call: `read_timeout` seconds for anything to come, `total_seconds` in all. It never retries.

    What goes wrong leaves as one of SDK_ERRORS.
    """
    transport = GuardedTransport(allow_private=allow_private, total_seconds=total_seconds, clock=clock)
    timeout = httpx2.Timeout(read_timeout, connect=min(10.0, read_timeout))
    with httpx2.Client(transport=transport, trust_env=False, timeout=timeout, headers=_HEADERS) as http:
        sdk = openai.OpenAI(
            base_url=base_url, api_key=api_key or "none", max_retries=0, timeout=timeout, http_client=http
        )
        sdk.organization = sdk.project = None  # the package takes them from the environment
        yield sdk


_CONTEXT_LENGTH_PHRASES = ("context_length", "maximum context", "context window", "context size", "prompt is too long")
_OUTPUT_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")


def to_model_error(error: Exception, *, key: str) -> ModelError:
    """The ModelError for anything that can go wrong in a call."""
    for cause in _exception_chain(error):
        if isinstance(cause, AddressRefused):
            return ModelUnavailable(str(cause), may_pass=False)
        if isinstance(cause, openai.APITimeoutError | httpx2.TimeoutException):
            return ModelTimeout("The model did not answer in time.")
    if isinstance(error, openai.APIStatusError):
        return _status_error(error, key)
    if isinstance(error, openai.APIConnectionError | httpx2.TransportError):
        return ModelUnavailable("The model endpoint cannot be reached, or it broke off its answer.")
    if isinstance(error, openai.APIError) and not isinstance(error, openai.APIResponseValidationError):
        return _stream_error(error, key)
    return BadAnswer("The endpoint answered with something that is not a chat completion.")


def other_output_limit_name(error: Exception) -> str | None:
    """The name the endpoint wants the output limit to be called by, where it complains of that."""
    if not isinstance(error, openai.BadRequestError) or error.param not in _OUTPUT_LIMIT_NAMES:
        return None
    other = _OUTPUT_LIMIT_NAMES[1 - _OUTPUT_LIMIT_NAMES.index(error.param)]
    return other if other in error.message else None


def refuses_stream_options(error: Exception) -> bool:
    """Whether the endpoint does not know how to say in a stream what was used."""
    refused = isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError)
    return refused and "stream_options" in str(error)


def _status_error(error: openai.APIStatusError, key: str) -> ModelError:
    status, detail = error.status_code, _endpoint_message(error, key)
    if status in (401, 403):
        return AuthRefused(f"The endpoint refused the key (HTTP {status}).{detail}")
    if status == 429:
        return _rate_limit_error(error, detail)
    if status == 408:
        return ModelTimeout("The endpoint gave up waiting (HTTP 408).")
    if _is_too_long(error) or status == 413:
        return ContextTooLong(f"The prompt is longer than the model takes.{detail}")
    if status >= 500:
        return ModelUnavailable(f"The endpoint has trouble of its own (HTTP {status}).{detail}")
    if status == 404:
        return BadAnswer(f"The endpoint knows no such address or model (HTTP 404).{detail}")
    if 300 <= status < 400:
        return BadAnswer(
            f"The endpoint points somewhere else (HTTP {status}), which is not followed.",
            advice="Ask an admin to enter the address it points to.",
        )
    return BadAnswer(f"The endpoint did not accept the request (HTTP {status}).{detail}")


def _stream_error(error: openai.APIError, key: str) -> ModelError:
    """An error reported inside a stream, after it had begun with HTTP 200."""
    detail = _endpoint_message(error, key)
    if _is_too_long(error):
        return ContextTooLong(f"The prompt is longer than the model takes.{detail}")
    if "rate" in (error.code or error.type or ""):
        return RateLimited(f"The endpoint is asked too often.{detail}")
    return ModelUnavailable(f"The endpoint reported an error.{detail}")


def _rate_limit_error(error: openai.APIStatusError, detail: str) -> RateLimited:
    if error.code == "insufficient_quota":
        return RateLimited(
            f"The quota of this endpoint's key is used up.{detail}",
            advice="Ask an admin to look at the provider's billing page.",
            may_pass=False,
        )
    retry_after = _parse_retry_after(error.response.headers.get("retry-after"))
    return RateLimited(f"The endpoint is asked too often (HTTP 429).{detail}", retry_after=retry_after)


def _parse_retry_after(header: str | None) -> float | None:
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
    text = f"{error.code} {error.message}".lower()
    return any(phrase in text for phrase in _CONTEXT_LENGTH_PHRASES)


def _endpoint_message(error: openai.APIError, key: str) -> str:
    """What the endpoint itself said, in one short line without secrets."""
    text = error.body.get("message") if isinstance(error.body, dict) else None
    if not isinstance(text, str) or not text.strip():
        return ""
    text = " ".join(text.split())
    if len(key) >= 4:
        text = text.replace(key, "[secret removed]")
    return f" It says: {mask_secrets(text)[:300]}"


def _exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__

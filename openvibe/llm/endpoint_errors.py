"""What endpoints report as errors, and what they send in place of an answer, as ModelErrors without a key."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from openvibe.base.masking import MASK, mask_secrets
from openvibe.base.ssrf_guard import AddressRefused, ResponseTooLarge
from openvibe.base.text import has_visible_character
from openvibe.llm.context_errors import read_context_refusal
from openvibe.llm.errors import (
    AuthRefused,
    BadAnswer,
    ContextTooLong,
    EmptyAnswer,
    LimitReached,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    ThoughtTooLong,
)
from openvibe.llm.fences import clean_text
from openvibe.llm.http_client import ResponseHead
from openvibe.llm.loading import loading_error

DECODE_ERRORS = (  # what the vendors' packages trip over in answers that are none
    httpx2.HTTPError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
_QUOTA_PHRASES = ("insufficient_quota", "billing_error", "credit balance")
_DEAD_ADVICE = (
    "Check that the model server runs and that its address and port are right. One on another machine, or beside a "
    "container, has to listen on 0.0.0.0 and not on localhost alone."
)
_ADDRESS_ADVICE = "Admins can check the address (Settings, Models): it is that of the API, which often ends in /v1."


@dataclass(frozen=True)
class ErrorReport:
    """What an endpoint says went wrong: the HTTP status (200 where the answer had begun), its own code and words.
    `body`: all of it as it was decoded."""

    status: int
    code: str = ""
    message: str = ""
    retry_after: str | None = None
    body: Any = field(default=None, repr=False, compare=False)

    def to_model_error(self, key: str) -> ModelError:
        detail = _quoted(self.message, key)
        words = f"{self.code} {self.message}".lower()
        if refusal := read_context_refusal(self.status, self.code, self.message, self.body):
            problem, advice = "The prompt is longer than the model takes.", None
            if refusal.is_quota:
                problem = "The prompt is longer than this key may send in one minute."
                advice = "Admins can set the context window to less than that, or get a larger plan: Settings, Models."
            return ContextTooLong(
                f"{problem}{detail}", advice=advice, window=refusal.window, prompt_tokens=refusal.prompt_tokens
            )
        if loading := loading_error(self.status, words, detail):
            return loading
        if self.status == 402 or any(phrase in words for phrase in _QUOTA_PHRASES):
            return _quota_error(detail)
        if self.status in (401, 403) or self.code in ("authentication_error", "permission_error"):
            return AuthRefused(f"The endpoint refused the key{self._http}.{detail}")
        if self.status == 429 or "rate" in self.code.split("_"):
            retry_after = parse_retry_after(self.retry_after)
            return RateLimited(f"The endpoint is asked too often{self._http}.{detail}", retry_after=retry_after)
        if self.status == 408 or self.code == "timeout_error":
            return ModelTimeout(f"The endpoint gave up waiting{self._http}.")
        return self._other_error(detail)

    @property
    def _http(self) -> str:
        return f" (HTTP {self.status})" if self.status != 200 else ""

    def _other_error(self, detail: str) -> ModelError:
        if self.status == 200:
            return ModelUnavailable(f"The endpoint reported an error.{detail}")
        if self.status >= 500:
            retry_after = parse_retry_after(self.retry_after)
            return ModelUnavailable(
                f"The endpoint has trouble of its own{self._http}.{detail}", retry_after=retry_after
            )
        if self.status == 404:
            return BadAnswer(f"The endpoint knows no such address or model{self._http}.{detail}")
        if 300 <= self.status < 400:
            return BadAnswer(
                f"The endpoint points somewhere else{self._http}, which is not followed.",
                advice="Admins can enter the address it points to: Settings, Models.",
            )
        return BadAnswer(f"The endpoint did not accept the request{self._http}.{detail}")


def connection_error(error: Exception) -> ModelError | None:
    """The ModelError where it was the connection that failed, else None."""
    for cause in _exception_chain(error):
        if isinstance(cause, ResponseTooLarge):
            return BadAnswer(str(cause))
        if isinstance(cause, httpx2.DecodingError):
            return BadAnswer(str(cause), advice="Whoever runs it can switch that off.")
        if isinstance(cause, AddressRefused):
            return ModelUnavailable(str(cause), may_pass=False)
        if isinstance(cause, httpx2.ConnectTimeout):
            return ModelTimeout(
                "The model endpoint cannot be reached: nothing at its address takes a connection.", advice=_DEAD_ADVICE
            )
        if isinstance(cause, httpx2.TimeoutException):
            return LimitReached("The model did not answer in time.")
        if isinstance(cause, httpx2.ConnectError):
            return _connect_error(str(cause))
        if isinstance(cause, httpx2.TransportError):
            return ModelUnavailable("The model endpoint broke off its answer.")
    return None


def _connect_error(words: str) -> ModelUnavailable:
    """Why there is no connection, as far as the system says."""
    lower, reason, advice = words.lower(), "", _DEAD_ADVICE
    if "refused" in lower:
        reason = ": nothing listens at this address and port"
    elif "cannot be found" in lower or "stands for no address" in lower:
        reason, advice = f": {words[0].lower()}{words[1:].rstrip('.')}", "Admins can correct it: Settings, Models."
    elif "certificate" in lower:
        reason, advice = ": its certificate is not one that this server trusts", "Whoever runs it can renew it."
    elif "ssl" in lower or "tls" in lower:
        reason = ": it does not speak HTTPS"
        advice = "If it is a server of your own network, its address begins with http://."
    elif "unreachable" in lower or "no route" in lower:
        reason = ": no network leads to its address"
    return ModelUnavailable(f"The model endpoint cannot be reached{reason}.", advice=advice)


def no_answer_error(head: ResponseHead, key: str, default: ModelError) -> ModelError:
    """What was sent in place of an answer, called what it is: a web page, nothing, an error, plain text."""
    text = head.content.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if not text:
        return BadAnswer("The endpoint answered with nothing at all: its answer is empty.", advice=_ADDRESS_ADVICE)
    if text.startswith("<"):
        return BadAnswer("The endpoint answered with a web page, not as a model does.", advice=_ADDRESS_ADVICE)
    if text.startswith(("data:", "event:", "id:", "retry:", ":", '"')):
        return default
    if text.startswith(("{", "[")):
        report = report_in(_parse(text))
        return report.to_model_error(key) if report else default
    if len(text) < 6:  # null, true, 42
        return default
    return BadAnswer(
        f"The endpoint answered with plain text, not as a model does. It says: {masked_line(text, key)}",
        advice=_ADDRESS_ADVICE,
    )


def _quoted(message: str, key: str) -> str:
    """What an endpoint says, as a sentence after another; nothing where it says nothing."""
    line = masked_line(message, key).strip()
    return f" It says: {line}{'' if line.endswith(('.', '!', '?', '…')) else '.'}" if line else ""


def empty_answer_error(text: str, stop_reason: str, explanation: str = "") -> EmptyAnswer | None:
    """Why an answer without tool calls is none, or None where there is something to read."""
    if has_visible_character(text):
        return None
    if stop_reason == "length":
        return ThoughtTooLong(
            "The model used all its output tokens before it said a word.",
            advice="Give the agent more output tokens, or use a model that thinks less before it answers.",
        )
    if stop_reason == "content_filter":
        return content_filter_error(explanation)
    if stop_reason == "pause":
        return EmptyAnswer("The model paused before it said a word.", advice="Try again, or ask for less at once.")
    if text.strip():
        return EmptyAnswer("The model answered with invisible characters only.")
    return EmptyAnswer("The model answered nothing.")


def content_filter_error(explanation: str = "") -> EmptyAnswer:
    detail = _quoted(explanation, "")
    return EmptyAnswer(
        f"The provider's content filter held the answer back.{detail}", advice="Put the request in other words."
    )


def parse_retry_after(header: str | None) -> float | None:
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


def masked_line(text: str, key: str) -> str:
    """What the endpoint itself said, in one short line that can be stored, without secrets."""
    text = " ".join(clean_text(text[:2_000]).split())
    if len(key) >= 4:
        text = text.replace(key, MASK)
    return mask_secrets(text)[:300]


def _quota_error(detail: str) -> RateLimited:
    return RateLimited(
        f"The quota of this endpoint's key is used up.{detail}",
        advice="The provider's billing page says more to whoever holds the key.",
        may_pass=False,
    )


def read_error(error: Any, status: int = 200) -> ErrorReport:
    """What an error says, as common servers write it. Where the answer had begun, its code may be an HTTP status."""
    if isinstance(error, list) and error:
        error = error[0]
    body = error
    if isinstance(error, dict) and isinstance(error.get("error"), dict | str):
        error = error["error"]
    if not isinstance(error, dict):
        return ErrorReport(status, "", str(error or ""), body=body)
    code, message = error.get("code"), error.get("message")
    if status == 200 and _is_status(code):
        status = int(str(code))
    code = error.get("type") if code is None or _is_status(code) else code
    return ErrorReport(status, str(code or ""), message if isinstance(message, str) else "", body=body)


def report_in(answer: Any) -> ErrorReport | None:
    """The error that an object with HTTP 200 reports, if it reports one."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, dict) or answer.get("choices") or answer.get("content"):
        return None
    if isinstance(error := answer.get("error"), dict | str) and error:
        return read_error(error)
    if answer.get("object") == "error" or answer.get("type") == "error":
        return read_error(answer)
    detail = answer.get("detail") or answer.get("message")
    return ErrorReport(200, "", detail) if isinstance(detail, str) else None


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_status(code: Any) -> bool:
    return isinstance(code, int | str) and str(code).isdecimal() and 400 <= int(code) < 600


def _exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    error_ids: set[int] = set()
    while error is not None and id(error) not in error_ids:
        error_ids.add(id(error))
        yield error
        error = error.__cause__ or error.__context__

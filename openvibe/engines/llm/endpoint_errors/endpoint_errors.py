"""What endpoints report as errors, and what they send in place of an answer, as ModelErrors without a key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from openvibe.engines.llm.answers.special_tokens import break_special_tokens
from openvibe.engines.llm.endpoint_errors.cold_starts import loading_error
from openvibe.engines.llm.endpoint_errors.context_errors import read_context_refusal
from openvibe.engines.llm.endpoint_errors.error_bodies import decode_json, is_web_page, read_reason
from openvibe.engines.llm.errors import (
    AuthRefused,
    BadAnswer,
    ContextTooLong,
    EmptyAnswer,
    EndpointReport,
    LimitReached,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    NothingListens,
    RateLimited,
    ThoughtTooLong,
)
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.network.http_client import ResponseHead
from openvibe.engines.network.ssrf_guard import AddressRefused, ResponseTooLarge
from openvibe.engines.text.cleaning import has_visible_character
from openvibe.engines.text.masking import MASK, mask_secrets

DECODE_ERRORS = (  # what a reader trips over in answers that are none
    httpx2.HTTPError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
MAX_LINE_CHARACTERS = 300
"""The most characters of an endpoint's own words, as people and tables get to see them."""

_MARKUP = re.compile(r"</?[A-Za-z!][^<>]{0,200}>")
_QUOTA_PHRASES = ("insufficient_quota", "billing_error", "credit balance", "insufficient balance")
_RATE_PHRASES = ("rate limit", "ratequota", "too many requests")
_KEY_PHRASES = re.compile(
    r"(?:invalid|incorrect|wrong|missing) api[ _-]?key|login fail|unauthori[sz]ed"
    r"|token (?:is |has )?(?:expired|invalid)"
)
"""Phrases in an answer with HTTP 200, whose words alone say what it is."""
_DEAD_ADVICE = (
    "Check that the model server runs and that its address and port are right. One on another machine, or beside a "
    "container, has to listen on 0.0.0.0 and not on localhost alone."
)
_ADDRESS_ADVICE = "Admins can check the address (Settings, Models): it is that of the API, which often ends in /v1."
_PROVIDER_ADVICE = (
    (
        ("data policy", "privacy settings", "guardrail restrictions"),
        "Admins can allow this model in the privacy settings of the provider's account, or choose another model.",
    ),
    (
        ("must be verified", "verify organization", "terms acceptance", "accept the terms", "gated repo"),
        "Whoever holds the key has to verify the account, or accept the model's terms, at the provider first.",
    ),
    (
        ("unsupported_country", "location is not supported", "not available in your", "region is not supported"),
        "The provider does not serve the country this server stands in. Admins can choose another provider.",
    ),
    (
        ("no models loaded",),
        "Whoever runs the server can load a model there first, or let it load one when it is asked for.",
    ),
    (
        ("decommissioned", "model_not_found", "no such model", "unknown model", "not a valid model", "model not found"),
        "Admins can choose a model that it offers: Settings, Models, Fetch models.",
    ),
)
"""Words of providers, and what helps then. Their HTTP statuses differ."""

_MODEL_GONE = re.compile(
    r"model\W[^.]{0,120}(does not exist|not found|not exist|deprecated|retired|not supported by any provider)"
)
_CONTENT_PHRASES = (
    *("content management policy", "content_policy", "content_filter", "flagged", "data_inspection_failed"),
    *("content exists risk", "inappropriate content", "敏感内容"),
)


_NO_MEMORY = "more system memory"
_MEMORY_ADVICE = (
    "The model is too large for its machine as it is set up: whoever runs the server can take a smaller one, or give "
    "it a smaller context. Its own output says more."
)
_FELL_OVER = re.compile(
    r"model (?:has )?(?:crashed|reloaded|unloaded)|model was unloaded|capacity (?:is )?exceeded|engine (?:has )?crashed"
)
"""A pattern for answers of a server whose model went away while it was asked, whatever status it says that with."""


class ErrorReport(EndpointReport):
    """The same, as the error that it is."""

    def to_model_error(self, key: str) -> ModelError:
        code, message, param = (_without(key, text) for text in (self.code, self.message, self.param))
        report = replace(self, code=code, message=message, param=param)
        error = report._to_model_error(key)
        error.report = report
        return error

    def _to_model_error(self, key: str) -> ModelError:
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
        if trouble := self._server_trouble(words, detail):
            return trouble
        if self.status == 402 or any(phrase in words for phrase in _QUOTA_PHRASES):
            return _quota_error(detail)
        if self.status in (400, 403) and any(phrase in words for phrase in _CONTENT_PHRASES):
            return content_filter_error(self.message)
        if self.status in (400, 403, 404, 422) and (advice := self._advice(words)):
            return BadAnswer(f"The endpoint did not accept the request{self._http}.{detail}", advice=advice)
        if self.status in (401, 403) or self.code in ("authentication_error", "permission_error"):
            return AuthRefused(f"The endpoint refused the key{self._http}.{detail}")
        if self.status == 200 and _KEY_PHRASES.search(words):
            return AuthRefused(f"The endpoint refused the key.{detail}")
        is_rate = self.status == 200 and any(phrase in words for phrase in _RATE_PHRASES)
        if self.status == 429 or is_rate or "rate" in self.code.split("_"):
            retry_after = parse_retry_after(self.retry_after)
            return RateLimited(f"The endpoint is asked too often{self._http}.{detail}", retry_after=retry_after)
        if self.status == 408 or self.code == "timeout_error":
            return ModelTimeout(f"The endpoint gave up waiting{self._http}.")
        return self._other_error(detail)

    def _server_trouble(self, words: str, detail: str) -> ModelError | None:
        """What is none of the request's, nor of the key's, whatever the status says."""
        if self.status in (401, 403) and self.is_web_page:
            return AuthRefused(
                f"Something before the endpoint refused the key, or this server{self._http}.{detail}",
                advice="Admins can check key and address; whoever runs a firewall or proxy there can let it through.",
            )
        if self.status >= 500 and _NO_MEMORY in words:
            return ModelUnavailable(
                f"The model server has no room for its model{self._http}.{detail}",
                advice=_MEMORY_ADVICE,
                may_pass=False,
            )
        if self.status in (400, 404, 498) and _FELL_OVER.search(words):
            return ModelUnavailable(f"The model went away while it was asked{self._http}.{detail}")
        if "unexpected endpoint or method" in words:
            return BadAnswer(f"The endpoint knows no such address{self._http}.{detail}", advice=_ADDRESS_ADVICE)
        return None

    @property
    def _http(self) -> str:
        return f" (HTTP {self.status})" if self.status != 200 else ""

    def _advice(self, words: str) -> str:
        found = (advice for phrases, advice in _PROVIDER_ADVICE if any(phrase in words for phrase in phrases))
        return next(found, _PROVIDER_ADVICE[-1][1] if _MODEL_GONE.search(words) else "")

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
    """An error that says why there is no connection, as far as the system says."""
    lower, reason, advice = words.lower(), "", _DEAD_ADVICE
    if "refused" in lower:
        return NothingListens(
            "The model endpoint cannot be reached: nothing listens at this address and port.", advice=advice
        )
    if "cannot be found" in lower or "stands for no address" in lower:
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
        title = _quoted(read_reason(text).message if is_web_page(text) else "", key)
        return BadAnswer(f"The endpoint answered with a web page, not as a model does.{title}", advice=_ADDRESS_ADVICE)
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


def empty_answer_error(
    text: str, stop_reason: str, explanation: str = "", *, has_thought: bool = False
) -> EmptyAnswer | None:
    """An error that says why an answer without tool calls is none, or None where there is something to read."""
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
    return EmptyAnswer(
        "The model thought, and then answered nothing." if has_thought else "The model answered nothing."
    )


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
    """What the endpoint itself said, in one short line that can be stored, without secrets, tags and special tokens."""
    text = _without(key, " ".join(clean_text(text[:2_000]).split()))
    text = mask_secrets(break_special_tokens(_MARKUP.sub(" ", text)))
    return " ".join(text.split())[:MAX_LINE_CHARACTERS]


def _without(key: str, text: str) -> str:
    return text.replace(key, MASK) if len(key) >= 4 else text


def _quota_error(detail: str) -> RateLimited:
    return RateLimited(
        f"The quota of this endpoint's key is used up.{detail}",
        advice="The provider's billing page says more to whoever holds the key.",
        may_pass=False,
    )


def read_response(response: httpx2.Response) -> ErrorReport:
    """What a response that is no success says, whatever its form."""
    try:
        text = response.text
    except httpx2.HTTPError:  # it broke off, or nobody read it
        text = ""
    report = read_error(text, response.status_code)
    return replace(report, retry_after=response.headers.get("retry-after") or _told_pause(text))


_PAUSE = re.compile(
    r"(?:try again|retry|retrydelay)\W{0,6}(?:in|after)?\W{0,3}"
    r"(?:(\d{1,3})m)?(\d{1,4}(?:\.\d{1,9})?) ?(ms\b|s\b|sec|minute)?",
    re.IGNORECASE,
)


def _told_pause(text: str) -> str | None:
    """Seconds after which to try again, where the words say so and no header does."""
    match = _PAUSE.search(text[:4_000])
    if match is None or not match[3]:
        return None
    factor = {"ms": 0.001, "minute": 60}.get(match[3].lower(), 1)
    return str(int(match[1] or 0) * 60 + float(match[2]) * factor)


def read_error(error: Any, status: int = 200) -> ErrorReport:
    """What an error says, as text or as the value of its JSON. Where the answer had begun, its code may be an HTTP
    status."""
    reason, is_in_answer = read_reason(error), status == 200
    status = reason.status or status if is_in_answer else status
    body = decode_json(error) if isinstance(error, str) else error
    is_page = isinstance(error, str) and is_web_page(error)
    return ErrorReport(status, reason.code, reason.message, None, reason.param, is_in_answer, body, is_page)


def report_in(answer: Any) -> ErrorReport | None:
    """The error that an object with HTTP 200 reports, if it reports one."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, dict) or answer.get("choices") or answer.get("content"):
        return None
    is_error = answer.get("object") == "error" or answer.get("type") == "error"
    base = answer.get("base_resp")  # MiniMax says in each answer whether it is one
    is_error = is_error or (isinstance(base, dict) and bool(base.get("status_code")))
    names = ("error", "errors", "detail", "message", "msg", "error_msg")
    if not is_error and not any(isinstance(answer.get(name), dict | list | str) and answer[name] for name in names):
        return None
    report = read_error(answer)
    return report if report.message or report.code else None


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    error_ids: set[int] = set()
    while error is not None and id(error) not in error_ids:
        error_ids.add(id(error))
        yield error
        error = error.__cause__ or error.__context__

"""What the body of a refusal says: the provider's own reason, wherever gateways and servers put it. Pure.

A reason may stand in `error`, `message` or `detail`, as text, object or list, in JSON inside a text inside JSON, in the
title of a web page, or be the whole body.
"""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from openvibe.engines.llm.fences import clean_text

MAX_BODY_CHARACTERS = 20_000
"""The number of characters of a body that are read: whoever says more has said why before that."""

MAX_MESSAGE_CHARACTERS = 4_000

_MAX_DEPTH = 8
_MAX_LITERAL_CHARACTERS = 4_000
_MAX_LISTED_REASONS = 3

_MESSAGE_KEYS = (
    *("message", "Message", "error_description", "error_message", "errorMessage", "detail", "details", "msg"),
    *("reason", "description", "faultstring", "title", "text", "status_msg", "error_msg"),
)
_CODE_KEYS = ("code", "type", "status", "errorCode", "error_code", "__type", "kind", "status_code")
_TITLE = re.compile(r"<(title|h1|h2)\b[^>]{0,200}>(.{1,500}?)</\1", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,300}>")
_HIDDEN_ELEMENT = re.compile(r"<(script|style|head)\b.{0,20000}?</\1\s*>", re.IGNORECASE | re.DOTALL)
_BYTES_LITERAL = re.compile(r"\bb(?=['\"])")


@dataclass(frozen=True)
class Reason:
    """The reason why a request was refused: the words, the provider's code, the field it names, and an HTTP status of
    its own."""

    message: str = ""
    code: str = ""
    param: str = ""
    status: int | None = None


def read_reason(body: Any) -> Reason:
    """The reason in a body: text as it came, or the value of its JSON. Empty where there is none."""
    return _read(body, 0) or Reason()


def is_web_page(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n")[:1] == "<" and _TAG.match(text.lstrip("\ufeff \t\r\n")) is not None


def read_status(code: Any) -> int | None:
    """A code that is an HTTP status of a failure, as a number."""
    is_number = isinstance(code, int | str) and not isinstance(code, bool) and str(code).isdecimal()
    return int(code) if is_number and len(str(code)) == 3 and 400 <= int(code) < 600 else None


def _read(value: Any, depth: int) -> Reason | None:
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, str):
        return _read_text(value[:MAX_BODY_CHARACTERS], depth)
    if isinstance(value, list):
        return _read_list(value, depth)
    if isinstance(value, Mapping):
        return _read_object(value, depth)
    return None


def _read_text(text: str, depth: int) -> Reason | None:
    text = text.strip("\ufeff \t\r\n")
    if is_web_page(text):
        return Reason(_page_words(text))
    for part in _values_in(text):
        nested = _read(part, depth + 1)
        if nested and nested.message:
            return nested
    return Reason(text[:MAX_MESSAGE_CHARACTERS]) if text and not _is_json(text) else None


def decode_json(text: str) -> Any:
    """The value of a text that is JSON as a whole; None for any other."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_json(text: str) -> bool:
    """Whether the text is a value that said nothing."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _values_in(text: str) -> Iterator[Any]:
    """The object or list that a text is, or ends in: as JSON, or as Python writes it."""
    start = min((place for sign in "{[" if (place := text.find(sign)) >= 0), default=-1)
    if start < 0:
        return
    candidate = text[start:]
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(candidate)
    except (ValueError, RecursionError):
        end = max(candidate.rfind("}"), candidate.rfind("]")) + 1
        value = _read_literal(candidate[: min(end, _MAX_LITERAL_CHARACTERS)])
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict) for each in value)):
        yield value
    brace = text.find("{", start + 1)
    if not isinstance(value, dict) and text[start] == "[" and brace > 0:
        yield from _values_in(text[brace:])


def _read_literal(text: str) -> Any:
    try:
        return ast.literal_eval(_BYTES_LITERAL.sub("", text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _read_list(items: list[Any], depth: int) -> Reason | None:
    """The first reason with a code, and the words of the first few: fields that are wrong are listed so."""
    reasons = [reason for item in items[:_MAX_LISTED_REASONS] if (reason := _read(item, depth + 1))]
    messages = [reason.message for reason in reasons if reason.message]
    return replace(reasons[0], message=" ".join(dict.fromkeys(messages))) if reasons else None


def _read_object(value: Mapping[Any, Any], depth: int) -> Reason | None:
    own = _own_reason(value, depth)
    for inner in _inner_values(value):
        nested = _read(inner, depth + 1)
        if nested and (nested.message or nested.code):
            return _join(own, nested)
    if own.message or own.code:
        return own
    return next((nested for inner in value.values() if (nested := _read_unnamed(inner, depth + 1))), None)


def _read_unnamed(value: Any, depth: int) -> Reason | None:
    """A reason under a name of somebody's own: in an object, not in a text, which may be about anything."""
    nested = _read(value, depth) if isinstance(value, Mapping) else None
    return nested if nested and nested.message else None


def _inner_values(value: Mapping[Any, Any]) -> Iterator[Any]:
    """The values in which a reason of somebody further behind may stand, the furthest first."""
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("raw"):
        yield metadata["raw"]
    for key in ("error", "errors", "fault", "innererror", "cause", "base_resp"):
        if isinstance(value.get(key), Mapping | list) or (key == "error" and isinstance(value.get(key), str)):
            yield value[key]


def _own_reason(value: Mapping[Any, Any], depth: int) -> Reason:
    message = ""
    for key in _MESSAGE_KEYS:
        nested = _read(value.get(key), depth + 1)
        if nested and nested.message:
            message = nested.message
            if not isinstance(value[key], str) or value[key].strip() != message:  # said within it, or in its JSON
                return _join(_with_codes(value, ""), nested)
            break
    location = value.get("loc")
    if message and isinstance(location, list | tuple):  # FastAPI: where the field stands
        path = ".".join(str(each) for each in location if each != "body")
        return Reason(f"{path}: {message}." if path else message, str(value.get("type") or ""), path)
    return _with_codes(value, message)


def _with_codes(value: Mapping[Any, Any], message: str) -> Reason:
    param = value.get("param")
    param = param if isinstance(param, str) else ""
    if " " in param.strip():  # a reason that was put into the wrong field
        message, param = f"{message}: {param}" if message else param, ""
    codes = [value[key] for key in _CODE_KEYS if isinstance(value.get(key), int | str)]
    status = next((number for code in codes if (number := read_status(code))), None)
    names = (str(code) for code in codes if isinstance(code, str) and code and read_status(code) is None)
    return Reason(message, next(names, ""), param, status)


def _join(outer: Reason, inner: Reason) -> Reason:
    """The words of whoever is further behind; what they left out is as the outer one says. A word alone is a code."""
    message, code = inner.message, inner.code
    if outer.message and message and " " not in message and " " in outer.message:
        message, code = outer.message, code or message
    return Reason(
        message or outer.message, code or outer.code, inner.param or outer.param, inner.status or outer.status
    )


def _page_words(text: str) -> str:
    """What a web page calls itself, or else its first words."""
    title = _TITLE.search(text)
    words = title[2] if title else _HIDDEN_ELEMENT.sub(" ", text)
    return " ".join(clean_text(html.unescape(_TAG.sub(" ", words))).split())[:200]

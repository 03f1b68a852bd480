"""JSON in, JSON out: bodies of bounded size and depth without characters that cannot be kept, and one kind of
answer."""

import json
import re
from collections.abc import Mapping
from math import isinf
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.utils import json as strict_json

from openvibe.api.problems import TooLarge
from openvibe.base.problems import Problem

MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 100
"""Lists and objects inside one another: what is kept must be written and read again from any depth of the stack."""
UNSTORABLE_CHARACTERS = re.compile(r"[\x00\ud800-\udfff]")


class BoundedJSONParser(JSONParser):
    """UTF-8 JSON of at most `max_bytes`. NUL and lone surrogates are refused wherever they stand."""

    max_bytes = MAX_BODY_BYTES

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        raw = stream.read(self.max_bytes + 1)
        if len(raw) > self.max_bytes:
            raise TooLarge(f"A request holds at most {self.max_bytes:,} bytes. Nothing was kept. Send less at a time.")
        try:
            value = json.loads(raw.decode(), parse_constant=strict_json.strict_constant, parse_float=_finite)
        except RecursionError:
            raise _too_deep_error() from None
        except UnicodeDecodeError:
            raise ParseError("The request is not UTF-8.") from None
        except ValueError as error:
            raise ParseError(f"This is not JSON: {error}") from None
        if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
            _check_depth(value)
        if b"\\u" in raw:
            _check_characters(value)
        return value


def _too_deep_error() -> ParseError:
    return ParseError(f"This JSON is nested too deeply: more than {MAX_DEPTH} lists and objects inside one another.")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = [each for each in level if isinstance(each, dict | list)]
        if not containers:
            return
        level = [inner for each in containers for inner in (each.values() if isinstance(each, dict) else each)]
    raise _too_deep_error()


def _finite(number: str) -> float:
    """Raises ValueError for what no column of JSON holds."""
    value = float(number)
    if isinf(value):
        raise ValueError(f"{number[:40]} is too large a number.")
    return value


def _check_characters(value: Any, field: str = "") -> None:
    if isinstance(value, str):
        if UNSTORABLE_CHARACTERS.search(value):
            raise Problem(
                "This text holds a NUL character or half of a character (a lone surrogate), which cannot be kept.",
                code="bad_characters",
                field=field or None,
            )
    elif isinstance(value, dict):
        for name, inner in value.items():
            _check_characters(name, field)
            _check_characters(inner, field or name)
    elif isinstance(value, list):
        for inner in value:
            _check_characters(inner, field)


class JsonContentNegotiation(DefaultContentNegotiation):
    """One kind of answer, whatever `Accept` says."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type

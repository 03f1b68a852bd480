"""JSON as it comes in: of bounded size and depth, and without characters that cannot be kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.utils import json as strict_json

from openvibe.api.problems import TooLarge
from openvibe.base.problems import Problem

MAX_BYTES = 2 * 1024 * 1024
BROKEN = re.compile(r"[\x00\ud800-\udfff]")


class BoundedJSONParser(JSONParser):
    """UTF-8 JSON of at most `MAX_BYTES`. NUL and lone surrogates are refused wherever they stand."""

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise TooLarge(f"A request holds at most {MAX_BYTES:,} bytes.")
        try:
            value = json.loads(raw.decode(), parse_constant=strict_json.strict_constant)
            if b"\\u" in raw:
                _refuse_broken(value)
        except RecursionError:
            raise ParseError("This JSON is nested too deeply.") from None
        except UnicodeDecodeError:
            raise ParseError("The request is not UTF-8.") from None
        except ValueError as error:
            raise ParseError(f"This is not JSON: {error}") from None
        return value


def _refuse_broken(value: Any, field: str = "") -> None:
    if isinstance(value, str):
        if BROKEN.search(value):
            raise Problem(
                "This text holds a NUL character or half of a character (a lone surrogate), which cannot be kept.",
                code="bad_characters",
                field=field or None,
            )
    elif isinstance(value, dict):
        for name, inner in value.items():
            _refuse_broken(name, field)
            _refuse_broken(inner, field or name)
    elif isinstance(value, list):
        for inner in value:
            _refuse_broken(inner, field)

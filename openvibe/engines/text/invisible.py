"""Characters that nobody sees, made visible: where people decide about a text, they decide about all of it. Pure."""

import re

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\xa0\u1680"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
"""Control characters but for tab and newline, marks of direction, joiners, fillers, blanks that are no plain space,
and characters that stand for nothing."""


def reveal_invisible(text: str) -> str:
    """The text with each such character as an escape: U+202E as `\\u202e`, U+E0041 as `\\U000e0041`."""
    return _INVISIBLE.sub(_escape, text)


def has_invisible(text: str) -> bool:
    return _INVISIBLE.search(text) is not None


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

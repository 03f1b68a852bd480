"""`@include name` on a line of its own: a text with the texts it names put in the place of such lines, within limits.
Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

MAX_INCLUDE_DEPTH = 3
"""An included text may include another, and that one a third."""

INCLUDE_LINE = re.compile(r"^[ \t]*@include(?:[ \t](.*))?$", re.MULTILINE)

LOOKS_LIKE_INCLUDE = re.compile(r"(?mi)^[ \t]*(?:(?:[-*+•>]|[0-9]+[.)])[ \t]*)?@include\b.*$")
"""An include, or what somebody took for one: in capitals, in a list, with a colon."""

CutReason = Literal["include unknown", "include cycle", "include too deep", "include too long"]


@dataclass(frozen=True, slots=True)
class CutInclude:
    """An include that was left out: its name as written, and why as a sentence."""

    name: str
    reason: CutReason
    message: str


@dataclass(frozen=True, slots=True)
class ExpandedText:
    """A text with its includes: which ones, in the order of their first place, and which were left out."""

    text: str
    names: tuple[str, ...] = ()
    cuts: tuple[CutInclude, ...] = ()


def miswritten_include(text: str) -> str:
    """The first line that was meant to include a text and would stand there as it is; "" where there is none."""
    lines = (match[0] for match in LOOKS_LIKE_INCLUDE.finditer(text))
    return next((line.strip()[:80] for line in lines if not INCLUDE_LINE.fullmatch(line)), "")


def expand_includes(
    text: str, texts: Mapping[str, str], *, max_tokens: int, count: Callable[[str], int], name: str = ""
) -> ExpandedText:
    """The text with the `texts` it includes, by name; `name` is its own where others may include it.

    Each stands once, at its first place. What is unknown, would include itself, stands deeper than MAX_INCLUDE_DEPTH,
    or would make the whole longer than `max_tokens` (tokens of `count`, text by text) is left out, line and all.
    """
    if "@include" not in text:
        return ExpandedText(text)
    expansion = _Expansion(texts, max_tokens, count)
    expanded_text = expansion.expand(text, (name,) if name else ())
    return ExpandedText(expanded_text, tuple(expansion.names), tuple(expansion.cuts))


class _Expansion:
    def __init__(self, texts: Mapping[str, str], max_tokens: int, count: Callable[[str], int]) -> None:
        self.texts = texts
        self.max_tokens = max_tokens
        self.count = count
        self.tokens = 0
        self.names: list[str] = []
        self.cuts: list[CutInclude] = []

    def expand(self, text: str, chain: tuple[str, ...]) -> str:
        """`chain`: the names on the way to this text, the outermost first."""
        self.tokens += self._own_tokens(text)
        lines: list[str] = []
        for line in text.split("\n"):
            include = INCLUDE_LINE.fullmatch(line)
            lines += [line] if include is None else self._include((include[1] or "").strip(" \t")[:80], chain)
        return "\n".join(lines)

    def _include(self, name: str, chain: tuple[str, ...]) -> list[str]:
        """The lines in the place of an include; none where it is cut, or stands elsewhere already."""
        path = " → ".join((*chain, name))
        if name in chain:
            return self._cut(name, "include cycle", f"“{name}” would include itself ({path}).")
        if len(chain) >= MAX_INCLUDE_DEPTH:
            message = f"“{name}” stands too deep ({path}): includes go {MAX_INCLUDE_DEPTH} deep."
            return self._cut(name, "include too deep", message)
        if name not in self.texts:
            message = (
                f"There is no snippet “{name}” to include." if name else "An include names a snippet: @include name."
            )
            return self._cut(name, "include unknown", message)
        if name in self.names:
            return []
        needed = self.tokens + self._own_tokens(self.texts[name])
        if needed > self.max_tokens:
            message = f"With “{name}” it takes {needed:,} tokens; at most {self.max_tokens:,} fit."
            return self._cut(name, "include too long", message)
        self.names.append(name)
        return [self.expand(self.texts[name], (*chain, name))]

    def _cut(self, name: str, reason: CutReason, message: str) -> list[str]:
        self.cuts.append(CutInclude(name, reason, message))
        return []

    def _own_tokens(self, text: str) -> int:
        return self.count(INCLUDE_LINE.sub("", text))

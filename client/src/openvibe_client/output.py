"""Readers of what a command prints: plain text, or JSON lines with rules that say where the words are.

A rule is a line of conditions and a path: `type=item.completed item.type=agent_message item.text` is the text of the
item in lines of that type. A value is compared as JSON has it (`null`, `true`)."""

import codecs
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from openvibe_client.presets import Preset

MAX_LINE_CHARACTERS = 10_000_000
"""A longer line of JSON is passed over."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_BEGUN_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,500}\x1b?)?$")


class OutputReader:
    """Takes bytes as they come and hands on words. `session` and `error` are what the output said of them."""

    def __init__(self, preset: Preset, write: Callable[[str], object]) -> None:
        self.preset, self._write = preset, write
        self.session = ""
        self.error = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._has_words = self._is_new_paragraph = self._is_skipping = False

    def feed(self, data: bytes, *, is_last: bool = False) -> None:
        text = self._rest + self._decoder.decode(data, is_last)
        self._rest = ""
        if self.preset.output == "text":
            self._feed_text(text, is_last=is_last)
        else:
            self._feed_lines(text, is_last=is_last)

    def _feed_text(self, text: str, *, is_last: bool) -> None:
        begun = None if is_last else _BEGUN_ESCAPE.search(text)
        if begun:
            text, self._rest = text[: begun.start()], text[begun.start() :]
        if words := _ESCAPES.sub("", text):
            self._write(words)

    def _feed_lines(self, text: str, *, is_last: bool) -> None:
        *lines, rest = text.split("\n")
        if is_last:
            lines, rest = [*lines, rest], ""
        for line in lines:
            if self._is_skipping:  # the end of a line that was too long
                self._is_skipping = False
            elif line.strip():
                self._feed_line(line)
        self._is_skipping = self._is_skipping or len(rest) > MAX_LINE_CHARACTERS
        self._rest = "" if self._is_skipping else rest

    def _feed_line(self, line: str) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return  # a warning between the lines
        self.session = match_first(self.preset.session, event) or self.session
        self.error = match_first(self.preset.error, event) or self.error
        paragraph = match_first(self.preset.paragraph, event)
        if paragraph is not None:
            self._is_new_paragraph = True
            self._write_words(paragraph)
        delta = match_first(self.preset.delta, event)
        if delta:
            self._write_words(delta)

    def _write_words(self, words: str) -> None:
        if not words:
            return
        if self._is_new_paragraph and self._has_words:
            words = "\n\n" + words
        self._is_new_paragraph, self._has_words = False, True
        self._write(words)


def match_first(rules: Iterable[str], event: Any) -> str | None:
    """The text that the first matching rule finds in the event; None when none does."""
    for rule in rules:
        *conditions, path = rule.split()
        pairs = [condition.partition("=") for condition in conditions]
        if all(_as_text(_look_up(event, name)) == expected for name, _, expected in pairs):
            value = _look_up(event, path)
            if isinstance(value, str):
                return value
    return None


def _look_up(event: Any, path: str) -> Any:
    for name in path.split("."):
        event = event.get(name) if isinstance(event, dict) else None
    return event


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)

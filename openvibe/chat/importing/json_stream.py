"""Elements of a JSON list, one after the other: a list of any length is read in little memory. Pure."""

import codecs
import json
from collections.abc import Iterator
from typing import BinaryIO

from openvibe.chat.importing.values import RecordRefused

MAX_ELEMENT_CHARACTERS = 64 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_NEAR_END = 12
"""Characters before the end of what is here, in which a mistake may be that the rest is not here yet."""


def iter_json_list(source: BinaryIO) -> Iterator[object]:
    """Yields the elements. Raises RecordRefused where the text is none, or no more: what stood before it was given."""
    text = _TextWindow(source)
    if not text.skip_blanks():
        raise RecordRefused("it is not JSON")
    if text.peek() != "[":
        raise RecordRefused("it does not hold a list" if text.peek() == "{" else "it is not JSON")
    text.position += 1
    is_first = True
    while text.skip_blanks():
        if text.peek() == "]":
            return
        if not is_first:
            if text.peek() != ",":
                break
            text.position += 1
            if not text.skip_blanks():
                break
        is_first = False
        yield text.decode_value()
    raise RecordRefused("it is not JSON" if is_first else "it ends in the middle, or is not JSON from there on")


class _TextWindow:
    """The piece of a text that is looked at."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._text = ""
        self._is_whole = False
        self.position = 0

    def peek(self) -> str:
        return self._text[self.position]

    def skip_blanks(self) -> bool:
        """Moves on to what is no blank. False at the end."""
        while True:
            while self.position < len(self._text):
                if self._text[self.position] not in " \t\r\n":
                    return True
                self.position += 1
            if not self._read_more(_CHUNK_BYTES):
                return False

    def decode_value(self) -> object:
        """The value that begins here."""
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self.position)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _NEAR_END
                if not is_cut or not self._read_more(max(_CHUNK_BYTES, len(self._text) - self.position)):
                    raise RecordRefused("it is not JSON from there on") from None
            except (RecursionError, ValueError):  # also a number of too many digits
                raise RecordRefused("it is not JSON that can be read, from there on") from None
            else:
                if end == len(self._text) and self._read_more(_CHUNK_BYTES):  # a number may go on
                    continue
                self.position = end
                return value

    def _read_more(self, count: int) -> bool:
        if self._is_whole:
            return False
        if len(self._text) - self.position > MAX_ELEMENT_CHARACTERS:
            raise RecordRefused("a record in it is larger than 64 MB")
        try:
            raw = self._source.read(count)
            added = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError:
            raise RecordRefused("it is not UTF-8 text") from None
        self._is_whole = not raw
        self._text = self._text[self.position :] + added
        self.position = 0
        return bool(raw)

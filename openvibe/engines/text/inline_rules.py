"""What of a line is a sign of Markdown, beyond what the standard says: emphasis beside letters of Chinese, Japanese and
Korean, and backslashes that belong to the text. Pure: no Django, no database."""

import re
from functools import cached_property
from unicodedata import east_asian_width

from markdown_it import MarkdownIt
from markdown_it.common.utils import isMdAsciiPunct, isPunctChar, isWhiteSpace
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from markdown_it.utils import EnvType

_WORD = re.compile(r"\S+")
_NO_ESCAPE = re.compile(r"""\\[A-Za-z0-9({}^+?/,;%"'|]|(?<!\d)\\[.)]|(?<![A-Za-z0-9])[A-Za-z]:\\|(?<!\S)\\\\(?=\w)""")
"""A backslash before what means nothing in Markdown, or the beginning of a path: the word around it is a path, a
pattern or TeX, and none of its backslashes is an escape."""
_SIGNS = frozenset("*_`[]~<>$@#!")
"""Signs that mean something within a line: a backslash before one is an escape."""
_LONGER_SIGN = re.compile(r"&#?\w{1,32};|:[\w+'-]{1,60}:")
"""An entity, or the name of an emoji."""
_ITEM_START = re.compile(r"[ \t]*(?:\d{1,9}(?=\\[.)])|(?=\\[-+=]))")


class InlineState(StateInline):
    """The library's state of a paragraph's text, with two questions answered otherwise."""

    @cached_property
    def literal_backslashes(self) -> set[int]:
        """The positions of the backslashes of words that keep them all."""
        positions: set[int] = set()
        for word in _WORD.finditer(self.src):
            if "\\" in word[0] and _NO_ESCAPE.search(word[0]):
                positions |= {word.start() + at for at, sign in enumerate(word[0]) if sign == "\\"}
        return positions

    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:  # noqa: N802, N803
        """Whether marks open and close emphasis, as the library has it; but a letter or sign of Chinese, Japanese or
        Korean beside them lets them do so whatever stands on their other side: there are no blanks between words."""
        scanned = super().scanDelims(start, canSplitWord)
        end = start + scanned.length
        before = self.src[start - 1] if start > 0 else " "
        after = self.src[end] if end < self.posMax else " "
        if not canSplitWord or not (_is_east_asian(before) or _is_east_asian(after)):
            return scanned
        opens = not isWhiteSpace(ord(after)) and (
            not _is_punctuation(after) or _is_east_asian(after) or not _is_letter(before) or _is_east_asian(before)
        )
        closes = not isWhiteSpace(ord(before)) and (
            not _is_punctuation(before) or _is_east_asian(before) or not _is_letter(after) or _is_east_asian(after)
        )
        return Scanned(opens, closes, scanned.length)


def _is_east_asian(sign: str) -> bool:
    return sign > "\u10ff" and (east_asian_width(sign) in "WFH" or "\u1100" <= sign <= "\u11ff")


def _is_punctuation(sign: str) -> bool:
    return isMdAsciiPunct(ord(sign)) or isPunctChar(sign)


def _is_letter(sign: str) -> bool:
    return not _is_punctuation(sign) and not isWhiteSpace(ord(sign))


class InlineParser(ParserInline):
    """The library's parser of a paragraph's text, on an `InlineState`."""

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        state = InlineState(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def keep_backslash(state: StateInline, silent: bool) -> bool:
    """The rule ahead of the library's `escape`: a backslash that belongs to the text is text, and so is what follows
    it. An escape is one before a sign that would mean something there, in a word all of whose backslashes can be."""
    src, pos = state.src, state.pos
    if src[pos] != "\\" or _is_escape(state):
        return False
    # The sign after it is text as well, or `C:\*` would begin emphasis; a line that ends there ends as any other.
    end = pos + 1 if pos + 1 >= state.posMax or src[pos + 1].isspace() else pos + 2
    if not silent:
        token = state.push("text_special", "", 0)
        token.content = token.markup = src[pos:end]
        token.info = "backslash"
    state.pos = end
    return True


def _is_escape(state: StateInline) -> bool:
    assert isinstance(state, InlineState)
    src, pos = state.src, state.pos
    following = src[pos + 1] if pos + 1 < state.posMax else ""
    if following == "\n":  # with a blank before it, a command goes on in the next line
        return pos > 0 and not src[pos - 1].isspace() and pos not in state.literal_backslashes
    if following == "\\":
        return src[pos + 2 : pos + 3] in _SIGNS and pos not in state.literal_backslashes
    if following in _SIGNS:
        return pos not in state.literal_backslashes
    if following in ("&", ":"):
        return _LONGER_SIGN.match(src, pos + 1) is not None and pos not in state.literal_backslashes
    if following in (".", ")", "-", "+", "="):
        line_start = src.rfind("\n", max(0, pos - _MAX_INDENT), pos) + 1
        start = _ITEM_START.match(src, line_start)
        return start is not None and start.end() == pos
    return False


_MAX_INDENT = 40
"""Characters, with a number, ahead of the sign of a list's item."""

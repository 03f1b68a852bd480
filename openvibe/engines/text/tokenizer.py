"""The tokenizer: cuts a text into tokens, the same way for what is stored and for what is asked. Pure.

Words are what Unicode takes for words (UAX 29), composed (NFKC), case folded, without invisible signs. What is written
without blanks (Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese) is cut into pairs of characters. Technical tokens
(a mail address, a version, a path, code) are the words between their signs, one after the other: whoever looks for the
whole or for a part of it looks for these words in this order, so that both meet wherever one begins. A token has one
form and further ones under which it is known as well: without accents, without its apostrophe, the parts of `fooBar2`.

Linear in the length of the text: no form is longer than 64 characters, and no token has more than a dozen.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import regex

MAX_WORD_CHARACTERS: Final = 64
"""Characters of a form. A longer run is several tokens of this length."""

_MAX_PARTS: Final = 6
"""Parts of one word that are forms of it: hashes and keys have dozens, which tell nothing."""

# Spacing scripts have blanks between words. `ー` and the sound marks of half-width kana are of no script of their own.
_RUN = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}々〆ー\u3099\u309a\uff70\uff9e\uff9f"
)
_LETTER = rf"[[\p{{L}}\p{{N}}]--[{_RUN}]]"
_INNER = rf"[[\p{{L}}\p{{N}}\p{{M}}\u00ad\u200b-\u200f\u2060\ufeff]--[{_RUN}]]"
_MODIFIER = r"[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
_PICTURE = rf"[\p{{Extended_Pictographic}}--[©®™]]{_MODIFIER}*"

_TOKEN: Final = regex.compile(
    rf"""(?P<emoji>\p{{Regional_Indicator}}{{2}}|[0-9\#*]\ufe0f?\u20e3|{_PICTURE}(?:\u200d{_PICTURE})*)
    |(?P<number>\d+(?:[.,'’]\d+)+(?![\p{{L}}\p{{M}}]))
    |(?P<word>{_LETTER}{_INNER}*+(?:['’ʼ＇]{_LETTER}{_INNER}*+)*(?:\+\+|\#(?![\p{{L}}\p{{N}}]))?)
    |(?P<run>[{_RUN}][{_RUN}\p{{M}}\u200b-\u200d]*+)
    |(?P<sign>[\p{{Sc}}[\p{{Sm}}\p{{So}}--\p{{ASCII}}]])""",
    regex.VERSION1 | regex.VERBOSE,
)
_IGNORABLE: Final = regex.compile(r"[\u00ad\u200b-\u200f\u2060\ufeff\u0640]")
_APOSTROPHE: Final = regex.compile(r"['’ʼ＇]")
_PARTS: Final = regex.compile(r"\p{Lu}+(?![\p{Ll}])|\p{Lu}?\p{Ll}+|[\p{L}\p{M}]+|\d+", regex.VERSION1)
_ACCENT: Final = regex.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}\p{Hebrew}\p{Arabic}\p{M}])\p{Mn}+", regex.VERSION1)
_MARKS: Final = regex.compile(_MODIFIER)
_RUN_CHARACTER: Final = regex.compile(rf"[{_RUN}]", regex.VERSION1)

_WRITTEN_OUT: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ł": "l"}
)
_PLAIN: Final = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "þ": "th", "ð": "d", "ı": "i"})


class Token(NamedTuple):
    """A piece of a text, from `start` to `end`. `forms`: the first is what it is, the others what it is known as.

    `is_pair`: two characters of a script without blanks, or one that stands alone (`is_single`).
    """

    start: int
    end: int
    forms: tuple[str, ...]
    is_pair: bool = False

    @property
    def form(self) -> str:
        return self.forms[0]

    @property
    def is_single(self) -> bool:
        return self.is_pair and len(self.form) == 1


def tokenize(text: str) -> Iterator[Token]:
    """The tokens of a text, in their order."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        start, end = match.span()
        if kind == "word":
            if end - start <= MAX_WORD_CHARACTERS:
                forms = word_forms(match[0])
                if forms:
                    yield Token(start, end, forms)
            else:
                for at in range(start, end, MAX_WORD_CHARACTERS):
                    until = min(at + MAX_WORD_CHARACTERS, end)
                    if forms := word_forms(text[at:until]):
                        yield Token(at, until, forms)
        elif kind == "number":
            yield from _number_tokens(match[0], start)
        elif kind == "run":
            yield from _pairs(match[0], start)
        elif kind == "emoji":
            yield Token(start, end, _emoji_forms(match[0][:MAX_WORD_CHARACTERS]))
        else:
            yield Token(start, end, (unicodedata.normalize("NFKC", match[0]).casefold().strip() or match[0],))


@lru_cache(maxsize=8_192)
def word_forms(word: str) -> tuple[str, ...]:
    """The forms of one word; none where nothing of it can be seen."""
    if word.isascii() and word.isalpha() and (word[1:].islower() or word.isupper()):  # nearly all words
        return (word.lower(),)
    folded = fold(word)
    joined = _APOSTROPHE.sub("", folded)
    if not joined:
        return ()
    forms = dict.fromkeys((joined, *spellings(joined)))
    if joined != folded:
        parts = [part for part in _APOSTROPHE.split(folded) if part]
        forms |= dict.fromkeys(form for part in parts[:_MAX_PARTS] for form in (part, *spellings(part)))
    if folded.endswith(("+", "#")):
        forms[folded.rstrip("+#")] = None
    parts = _PARTS.findall(_IGNORABLE.sub("", unicodedata.normalize("NFKC", word)))
    if 1 < len(parts) <= _MAX_PARTS:
        forms |= dict.fromkeys(fold(part) for part in parts)
    return tuple(form[:MAX_WORD_CHARACTERS] for form in forms if form)


def fold(text: str) -> str:
    """Composed, case folded, without invisible signs."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return str(_IGNORABLE.sub("", folded)).replace("⁄", "")


def strip_accents(folded: str) -> str:
    """A folded word without accents, as somebody types it who has no such letters."""
    if folded.isascii():
        return folded
    plain = folded.translate(_PLAIN)
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", plain)))


def spellings(folded: str) -> tuple[str, ...]:
    """Other spellings of a folded word: without accents, and with `ae` for `ä`."""
    if folded.isascii():
        return ()
    spelled = (strip_accents(folded), strip_accents(folded.translate(_WRITTEN_OUT)))
    return tuple(dict.fromkeys(spelling for spelling in spelled if spelling and spelling != folded))


def is_unspaced(text: str) -> bool:
    """Whether it begins with a character of a script written without blanks."""
    return _RUN_CHARACTER.match(text) is not None


def _number_tokens(number: str, start: int) -> Iterator[Token]:
    """A number's groups of digits; where they are thousands, the first and the last of them are known as the whole.

    `1,234.50` is `1`, `234`, `50`, and each of the first two `1234`: so `1234`, `1234.50` and `1,234.50` are found.
    """
    groups = [(match.start(), match[0]) for match in regex.finditer(r"\d+", number)]
    thousands = 1
    separator = number[len(groups[0][1])]
    while (
        thousands < len(groups)
        and len(groups[thousands][1]) == 3
        and number[groups[thousands][0] - 1] == separator
        and len(groups[0][1]) <= 3
    ):
        thousands += 1
    whole = unicodedata.normalize("NFKC", "".join(group for _, group in groups[:thousands]))
    for place, (at, group) in enumerate(groups):
        digits = unicodedata.normalize("NFKC", group)[:MAX_WORD_CHARACTERS]
        is_end = 1 < thousands <= _MAX_PARTS and place in (0, thousands - 1)
        yield Token(start + at, start + at + len(group), (digits, whole) if is_end else (digits,))


def _pairs(run: str, start: int) -> Iterator[Token]:
    """Every two neighbours; the last pair is known as its last character, too, which begins none."""
    characters = [
        (at, character)
        for at, one in enumerate(run)
        if one not in "\u200b\u200c\u200d"
        for character in unicodedata.normalize("NFKC", one)
    ]
    composed = unicodedata.normalize("NFKC", "".join(character for _, character in characters))
    if len(composed) != len(characters):  # marks were joined with what they stand on: places are about right
        characters = [(min(at, len(run) - 1), character) for at, character in enumerate(composed)]
    last = len(characters) - 1
    if last == 0:
        yield Token(start, start + len(run), (characters[0][1],), is_pair=True)
    for place in range(last):
        (at, first), (to, second) = characters[place], characters[place + 1]
        pair = first + second
        yield Token(start + at, start + to + 1, (pair, second) if place == last - 1 else (pair,), is_pair=True)


@lru_cache(maxsize=8_192)
def _emoji_forms(emoji: str) -> tuple[str, ...]:
    """The sequence as it is meant, then each picture in it without its colour of skin."""
    whole = emoji.replace("\ufe0f", "").replace("\ufe0e", "")
    bases = (_MARKS.sub("", part) for part in whole.split("\u200d"))
    return tuple(form for form in dict.fromkeys((whole, *bases)) if form)[: _MAX_PARTS + 1]

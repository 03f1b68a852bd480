"""Cleaning and validation of bodies, titles and handles. Pure: no Django, no database."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence

MAX_BODY_CHARACTERS = 100_000
MAX_BODY_BYTES = 400_000
MAX_TITLE_CHARACTERS = 200
MAX_HANDLE_CHARACTERS = 32
HANDLE_PATTERN = r"[a-z0-9][a-z0-9_-]{0,31}"

_CONTROL_CHARACTERS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FILLERS = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_NEWLINES = re.compile(r"\r\n?|\u2028|\u2029|\u0085")
_TRAILING_WHITESPACE = re.compile(r"(?<![ \t])[ \t]+(?=\n)")
# Drawn as nothing: Unicode's Default_Ignorable_Code_Point, control and format characters, blanks that are no spaces;
# not NUL, which is refused, nor what ends a line. The tags of a flag are found whole.
_INVISIBLE = re.compile(
    "[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_FLAG_OR_INVISIBLE = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{2,6}\U000e007f|" + _INVISIBLE.pattern)
_JOINER, _NON_JOINER, _EMOJI_STYLE, _TEXT_STYLE, _KEYCAP = "\u200d", "\u200c", "\ufe0f", "\ufe0e", "\u20e3"
_VIRAMA = 9  # its combining class
_NON_JOINING_LETTERS = frozenset("آأؤإاةدذرزوٱڈڑژۆۇۈۋەے")
"""Arabic letters that never join the next one: there, a non-joiner cannot be seen."""
_TRANSLITERATION = str.maketrans(
    {"ß": "ss", "ı": "i"}
    | dict.fromkeys("æÆ", "ae")
    | dict.fromkeys("øØ", "o")
    | dict.fromkeys("œŒ", "oe")
    | dict.fromkeys("łŁ", "l")
    | dict.fromkeys("đĐðÐ", "d")
    | dict.fromkeys("þÞ", "th")
)


class TextRefused(ValueError):
    """A text that cannot be kept. `code` is for programs, `message` is a sentence for the writer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def pluralize(count: int, one: str, many: str = "") -> str:
    """`1 message`, `1,258 messages`; `many` where the plural is no `s`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def join_words(words: Sequence[str]) -> str:
    """`Ana`, `Ana and Ben`, `Ana, Ben and Cleo`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def clean_body(text: str, *, max_bytes: int = MAX_BODY_BYTES, max_characters: int = MAX_BODY_CHARACTERS) -> str:
    """Returns the body as it is stored: NFC, newlines as \\n, no control characters, no blanks at the end.

    `max_bytes` counts UTF-8 bytes, `max_characters` code points, both after cleaning.
    Direction marks (bidi) stay: Arabic and Hebrew need them. Two blanks before a newline, a Markdown
    line break, stay as two.

    Raises TextRefused with code `has_nul`, `has_surrogate`, `too_long` or `empty`.
    """
    _check_characters(text)
    if len(text) > 4 * max_characters:  # far over the limit: say so before spending time on cleaning it
        raise _too_long_error(len(text), max_characters)
    cleaned = _CONTROL_CHARACTERS.sub("", _NEWLINES.sub("\n", text))
    cleaned = unicodedata.normalize("NFC", cleaned)
    cleaned = _TRAILING_WHITESPACE.sub(lambda blanks: "  " if blanks[0].endswith("  ") else "", cleaned).rstrip()
    if not has_visible_character(cleaned):
        raise TextRefused("empty", "There is nothing to send yet. Write something first.")
    if len(cleaned) > max_characters:
        raise _too_long_error(len(cleaned), max_characters)
    if len(cleaned.encode()) > max_bytes:
        raise TextRefused(
            "too_long",
            f"This text takes more than {max_bytes:,} bytes, the most that fits. "
            "Nothing was lost: shorten it, or send it in pieces.",
        )
    return cleaned


def clean_title(text: str, *, max_characters: int = MAX_TITLE_CHARACTERS) -> str:
    """Returns a title as `remove_invisible` leaves it, cut with "…" when over `max_characters`.

    Raises TextRefused with code `has_nul`, `has_surrogate` or `empty`.
    """
    _check_characters(text)
    title = remove_invisible(text[: 20 * max_characters])
    if not has_visible_character(title):
        raise TextRefused("empty", "A title needs at least one character.")
    return title if len(title) <= max_characters else title[: max_characters - 1].rstrip() + "…"


def remove_invisible(name: str) -> str:
    """The name on one line, NFC, blanks collapsed, without characters that cannot be seen: nobody's name reads as
    another's, backwards or with a joiner in it.

    What changes how its neighbours look stays: joiners and variation selectors within emoji, joiners after a virama
    (Indic scripts), non-joiners between Arabic letters (Persian), the tags of a flag. Arabic and Hebrew need no marks.
    """
    visible = _FLAG_OR_INVISIBLE.sub(
        lambda match: match[0] if len(match[0]) > 1 or _shapes_neighbours(name, match.start()) else "", name
    )
    return unicodedata.normalize("NFC", " ".join(visible.split()))


def _shapes_neighbours(text: str, at: int) -> bool:
    """Whether the invisible character there changes how those beside it are drawn."""
    character, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if before and character in (_JOINER, _NON_JOINER) and unicodedata.combining(before) == _VIRAMA:
        return True
    if character == _JOINER:
        return _is_symbol(after) and _is_symbol(text[at - 2 : at - 1] if before == _EMOJI_STYLE else before)
    if character == _NON_JOINER:
        return _is_arabic(before) and _is_arabic(after) and before not in _NON_JOINING_LETTERS
    if character in (_EMOJI_STYLE, _TEXT_STYLE):
        return _is_symbol(before) or (before in tuple("0123456789#*") and after == _KEYCAP)
    return False


def _is_arabic(letter: str) -> bool:
    return letter.isalpha() and unicodedata.bidirectional(letter) == "AL"


def _is_symbol(character: str) -> bool:
    """Whether it is a symbol, as emoji are, and the colours of their skin."""
    is_sign = character >= "\u2000" and unicodedata.category(character) in {"So", "Sm", "Sk", "Po", "Pd"}
    return is_sign and not _INVISIBLE.match(character)


def clean_handle(name: str) -> str:
    """Makes a handle (`[a-z0-9][a-z0-9_-]{0,31}`) from a display name; "person" when no letter can be kept.

    Accents are folded ("Zoë" → "zoe") and a long name is cut between words. The result may already be
    taken in a workspace: whoever stores it numbers it.
    """
    ascii_name = (
        unicodedata.normalize("NFKD", name[:500].translate(_TRANSLITERATION)).encode("ascii", "ignore").decode()
    )
    handle = re.sub(r"['’]", "", ascii_name.lower())
    handle = re.sub(r"[^a-z0-9_]+", "-", handle).strip("-_")
    if len(handle) > MAX_HANDLE_CHARACTERS:
        whole_words = handle[: MAX_HANDLE_CHARACTERS + 1].rpartition("-")[0]
        handle = (whole_words or handle[:MAX_HANDLE_CHARACTERS]).strip("-_")
    return handle or "person"


def _check_characters(text: str) -> None:
    if "\x00" in text:
        raise TextRefused(
            "has_nul", "This text holds a NUL character, which cannot be kept. Paste it again as plain text."
        )
    if _SURROGATES.search(text):
        raise TextRefused(
            "has_surrogate", "This text holds half of a character (a lone surrogate). Paste it again as plain text."
        )


def _too_long_error(characters: int, limit: int) -> TextRefused:
    in_pieces = ", or send it in pieces" if limit == MAX_BODY_CHARACTERS else ""  # only messages can be
    return TextRefused(
        "too_long",
        f"This text has {characters:,} characters; at most {limit:,} fit. Nothing was lost: shorten it{in_pieces}.",
    )


def has_visible_character(text: str) -> bool:
    """Whether anything in the text can be seen: blanks, format characters and fillers drawn as nothing cannot."""
    return any(map(is_visible, text))


def is_visible(character: str) -> bool:
    """Whether a font draws it."""
    return unicodedata.category(character) not in {"Zs", "Zl", "Zp", "Cc", "Cf"} and character not in _FILLERS


_FORMULA_STARTS = frozenset("=+-@\t\r＝＋－＠'")


def escape_formula(cell: str) -> str:
    """The cell with an apostrophe before it where a spreadsheet would calculate it."""
    return f"'{cell}" if cell[:1] in _FORMULA_STARTS or cell.lstrip()[:1] in _FORMULA_STARTS else cell


def text_version(text: str) -> str:
    """A short fingerprint: the version of a text that is kept without its history."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]

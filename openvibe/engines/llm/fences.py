"""Fenced blocks of a prompt: content that names its source and cannot pretend to be anything else.

Text stands as it was written but for `<`, so that code reads well and no content can open or close a fence; reading a
prompt's fences back gives exactly what was put in (less control characters). A sign that only looks like `<` becomes
one where a tag of ours follows it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from openvibe.engines.text.lookalikes import fold_character
from openvibe.engines.text.masking import mask_secrets

FENCE_TAGS = (
    "messages",
    "data",
    "summary",
    "request",
    "approval",
    "binding",
    "preference",
    "reminders",
    "situation",
    "earlier",
    "focus",
    "context_block",
    "constraint",
    "constraints",
    "reference",
)
"""Tags of fences in prompts: what no text may open or close."""

_FOLDED_TAGS = frozenset("".join(map(fold_character, tag)) for tag in FENCE_TAGS)
_TAG_BEGINNINGS = frozenset(tag[:length] for tag in _FOLDED_TAGS for length in range(len(tag) + 1))
_ANGLES = re.compile("[<＜﹤≮‹˂ᐸᚲ\u2329\u3008⟨❬❮❰⦑⧼𝈶]")
_SLASHES = frozenset("/⁄∕／⧸⧶╱⟋〳㇓⼃᜵⁁\\＼﹨⧵∖⧹╲⟍")
"""What looks like `<`, and like `/` or its mirror image."""

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_TAG_LETTERS = re.compile("(\U0001f3f4[\U000e0030-\U000e007a]{3,6}\U000e007f)|[\U000e0000-\U000e007f]+")
"""A flag, such as England's; or letters that no font draws and models read all the same."""
_FENCE = re.compile(r'<([a-z][a-z0-9_]*)((?: [a-z][a-z0-9_]*="[^"<>\n]*")*)>\n([^<]*)\n</\1>')
_ESCAPED_SIGN = re.compile(r"&(?=(?:amp;)*lt;)")
_ESCAPED_ESCAPE = re.compile(r"&amp;(?=(?:amp;)*lt;)")
_ATTRIBUTE = re.compile(r' ([a-z][a-z0-9_]*)="([^"<>\n]*)"')


@dataclass(frozen=True)
class Fence:
    """One fenced block, unescaped."""

    tag: str
    text: str
    attributes: dict[str, str] = field(default_factory=dict)


def clean_text(text: str) -> str:
    """The text without control characters (tabs stay) and without lone surrogates; two that make a character are it.
    Whatever breaks a line is a new line; where invisible letters stood, a � stands."""
    if text.isascii():
        return _CONTROL_CHARACTERS.sub("", _LINE_BREAK.sub("\n", text))
    text = _SURROGATE_PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    visible = _TAG_LETTERS.sub(lambda match: match[1] or "\ufffd", text)
    return _CONTROL_CHARACTERS.sub("", _LINE_BREAK.sub("\n", visible))


class IncrementalCleaner:
    """`clean_text` for a text that comes in pieces: a character that was cut in two waits for its other half."""

    def __init__(self) -> None:
        self._half = ""

    def clean(self, piece: str) -> str:
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return clean_text(text.removesuffix(self._half))


def escape_text(text: str) -> str:
    """The text as it stands inside a fence: `<` as `&lt;`, which takes several times its room."""
    text = clean_text(text)
    text = escape_signs(text).replace("<", "&lt;") if "<" in text or "&" in text else text
    return text if text.isascii() else escape_tags(text)


def escape_tags(text: str) -> str:
    """The text with each `<`, or what looks like it, that begins a tag of ours as `&lt;`: tags are found by how they
    look, whatever stands in them that nobody sees, marks and blanks included. Takes time linear in the length."""
    return _ANGLES.sub(lambda angle: "&lt;" if _is_tag(text, angle.end()) else angle[0], text)


def _is_tag(text: str, start: int) -> bool:
    """Whether the text reads there as a tag's name, after slashes perhaps, and not as a longer word."""
    letters = ""
    for place in range(start, len(text)):
        if not letters and text[place] in _SLASHES:
            continue
        folded = fold_character(text[place])
        if letters in _FOLDED_TAGS and not (folded.isascii() and folded.isalnum()):
            return True
        letters += folded
        if letters not in _TAG_BEGINNINGS:
            return False
    return letters in _FOLDED_TAGS


def escape_signs(text: str) -> str:
    """The text whose own `&lt;` is told from one that stands for `<`."""
    return _ESCAPED_SIGN.sub("&amp;", text)


def unescape_text(text: str) -> str:
    """What was written, of a text in a fence or a transcript."""
    return _ESCAPED_ESCAPE.sub("&", text.replace("&lt;", "<")) if "&" in text else text


def fence(tag: str, text: str, **attributes: object) -> str:
    """`<tag name="value">`, the escaped text and `</tag>`, each on lines of their own.

    Attributes that are None are left out. Raises ValueError on a tag or a name that is not plain lower case:
    those are written by programs, never taken from content.
    """
    for name in (tag, *attributes):
        if not _NAME.match(name):
            raise ValueError(f"{name!r} cannot name a fence: use lower-case letters, digits and _.")
    rendered = "".join(
        f' {name}="{escape_attribute(str(value))}"' for name, value in attributes.items() if value is not None
    )
    return f"<{tag}{rendered}>\n{escape_text(text)}\n</{tag}>"


def parse_fences(text: str) -> list[Fence]:
    """Every fenced block of a prompt, in order, unescaped. Takes time linear in the text's length."""
    return [block for _, block in find_fences(text)]


def find_fences(text: str) -> Iterator[tuple[int, Fence]]:
    """The same, each with where it begins."""
    for match in _FENCE.finditer(text):
        attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(match[2])}
        yield match.start(), Fence(match[1], unescape_text(match[3]), attributes)


def escape_attribute(value: str) -> str:
    """The value as it stands between the quotes of an attribute, on one line and without secrets."""
    return escape_tags(html.escape(mask_secrets(" ".join(clean_text(value).split())), quote=True))

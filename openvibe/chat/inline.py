"""What happens to the inline tokens of a text: images, bare web addresses, mentions. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it.token import Token

from openvibe.chat.text import HANDLE_PATTERN

_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
_BARE_URL = re.compile(r"(?<![\w@/])https?://[^\s<>\"'`|\\^{}\[\]\x00-\x1f\x7f]{1,2000}", re.IGNORECASE)

# Chinese, Japanese and Korean are written without blanks, so their letters may touch a mention.
_LETTER = r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_MENTION = re.compile(
    rf"(?<!{_LETTER})(?<![@.+%=\\])@({HANDLE_PATTERN.replace('a-z', 'a-zA-Z')})"
    rf"(?![A-Za-z0-9_-]|{_LETTER}|@|/\w|\.[a-z0-9])"
)


@dataclass(frozen=True, slots=True)
class Mention:
    """`@handle` found in a text token: the token's place among its siblings, start and end within it."""

    handle: str
    token: int
    start: int
    end: int


def is_safe_link(url: str) -> bool:
    """Whether an address leads to the web or to an e-mail: http, https, mailto, and nothing else."""
    return _SAFE_LINK.fullmatch(url) is not None


def find_mentions(children: Sequence[Token]) -> Iterator[Mention]:
    """Yield the mentions in inline tokens, in order. Links, code and escaped signs (`\\@x`) hold none."""
    links = 0
    before = ""
    for place, token in enumerate(children):
        links += token.nesting if token.type in {"link_open", "link_close"} else 0
        if token.type == "text" and not links and "@" in token.content:
            after = next((child.content for child in children[place + 1 : place + 2] if child.content), "")
            yield from _mentions_between(before, token.content, after, place)
        if token.nesting == 0:
            before = token.content[-1:] or " "


def _mentions_between(before: str, content: str, after: str, place: int) -> Iterator[Mention]:
    """`before` and `after` are what touches the token, so `foo**@x**` reads like `foo@x`."""
    last_end = -1
    for match in _MENTION.finditer(before + content + after[:1]):
        start, end = match.start() - len(before), match.end() - len(before)
        follows_slash = match.string[max(match.start() - 1, 0)] == "/" and start - 1 != last_end
        if start < 0 or end > len(content) or follows_slash:
            continue
        last_end = end
        handle = match[1].rstrip("-_")
        yield Mention(handle.lower(), place, start, end - (len(match[1]) - len(handle)))


def link_bare_urls(children: list[Token]) -> list[Token]:
    """Turn http and https addresses written as they are into links; punctuation after them stays text."""
    linked: list[Token] = []
    links = 0
    for token in children:
        links += token.nesting if token.type in {"link_open", "link_close"} else 0
        if token.type != "text" or links or "://" not in token.content:
            linked.append(token)
            continue
        at = 0
        for match in _BARE_URL.finditer(token.content):
            url = _without_closing_marks(match[0])
            if not is_safe_link(url) or url.endswith("://"):
                continue
            linked += [_text(token.content[at : match.start()]), *_link(url, url)]
            at = match.start() + len(url)
        linked.append(_text(token.content[at:]) if at else token)
    return linked


def show_no_images(children: list[Token]) -> list[Token]:
    """Turn images into links with their description: showing one would tell its server who reads here."""
    if not any(token.type == "image" for token in children):
        return children
    shown: list[Token] = []
    links = 0
    for token in children:
        links += token.nesting if token.type in {"link_open", "link_close"} else 0
        if token.type != "image":
            shown.append(token)
            continue
        source = str(token.attrs.get("src", ""))
        described = _said(token.children or []).strip() or source
        shown += [Token("text_special", "", 0, content=described)] if links else _link(source, described)
    return shown


def _said(children: Sequence[Token]) -> str:
    return "".join(
        _said(child.children or []) if child.type == "image" else child.content or (" " if child.tag == "br" else "")
        for child in children
    )


def _link(url: str, text: str) -> list[Token]:
    return [Token("link_open", "a", 1, attrs={"href": url}), _text(text), Token("link_close", "a", -1)]


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _without_closing_marks(url: str) -> str:
    """Take off what ends the sentence and not the address: "(see https://a.b/c_(d))." keeps "…c_(d)"."""
    opened, closed = url.count("("), url.count(")")
    while url and (url[-1] in ".,;:!?*_~" or (url[-1] == ")" and closed > opened)):
        closed -= url[-1] == ")"
        url = url[:-1]
    return url

"""Mentions: which `@handles` a text names. Pure: no Django, no database."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it.token import Token

from openvibe.engines.text.cleaning import HANDLE_PATTERN
from openvibe.engines.text.markdown_parser import parse_markdown, text_token

# Chinese, Japanese and Korean are written without blanks, so their letters may touch a mention.
_WORD_LETTER = r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_MENTION_PATTERN = re.compile(
    rf"(?<!{_WORD_LETTER})(?<![@.+%=\\])@({HANDLE_PATTERN.replace('a-z', 'a-zA-Z')})"
    rf"(?![A-Za-z0-9_-]|{_WORD_LETTER}|@|/\w|\.[a-z0-9])"
)


@dataclass(frozen=True, slots=True)
class MentionSpan:
    """`@handle` found in a text token: the token's place among its siblings, start and end within it."""

    handle: str
    token: int
    start: int
    end: int


def mentioned_handles(body: str) -> tuple[str, ...]:
    """Returns the handles mentioned in a body: lower case, each once, in order of first appearance.

    Read from the parsed text only, never from code, links, web or e-mail addresses. Whether a handle
    belongs to anybody is not known here.
    """
    tokens = parse_markdown(body) if "@" in body else None
    mentions = (mention for token in tokens or () for mention in find_mentions(token.children or []))
    return tuple(dict.fromkeys(mention.handle for mention in mentions))


def find_mentions(children: Sequence[Token]) -> Iterator[MentionSpan]:
    """Yields the mentions in inline tokens, in order. Links, code and escaped signs (`\\@x`) hold none."""
    links = 0
    before = ""
    for index, token in enumerate(children):
        links += token.nesting if token.type in {"link_open", "link_close"} else 0
        if token.type == "text" and not links and "@" in token.content:
            after = next((child.content for child in children[index + 1 : index + 2] if child.content), "")
            yield from _find_mentions_in_text(before, token.content, after, index)
        if token.nesting == 0:
            before = token.content[-1:] or " "


def _find_mentions_in_text(before: str, content: str, after: str, token_index: int) -> Iterator[MentionSpan]:
    """`before` and `after` are what touches the token, so `foo**@x**` reads like `foo@x`."""
    last_end = -1
    for match in _MENTION_PATTERN.finditer(before + content + after[:1]):
        start, end = match.start() - len(before), match.end() - len(before)
        follows_slash = match.string[max(match.start() - 1, 0)] == "/" and start - 1 != last_end
        if start < 0 or end > len(content) or follows_slash:
            continue
        last_end = end
        handle = match[1].rstrip("-_")
        yield MentionSpan(handle.lower(), token_index, start, end - (len(match[1]) - len(handle)))


def mark_mentions(children: list[Token], handles: frozenset[str]) -> list[Token]:
    """The inline tokens, with a token of type `mention` for each mention of one of these handles."""
    tokens_with_marks: list[Token] = []
    mentions: defaultdict[int, list[MentionSpan]] = defaultdict(list)
    for mention in find_mentions(children):
        if mention.handle in handles:
            mentions[mention.token].append(mention)
    for index, token in enumerate(children):
        at = 0
        for mention in mentions[index]:
            tokens_with_marks.append(text_token(token.content[at : mention.start]))
            tokens_with_marks.append(Token("mention", "span", 0, content=token.content[mention.start : mention.end]))
            at = mention.end
        tokens_with_marks.append(text_token(token.content[at:]) if at else token)
    return tokens_with_marks

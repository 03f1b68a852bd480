"""A reply that is being written, as the pages that show it are told of it: blocks that are finished as they will stay,
the last one as far as it goes, and of what is shown already only where it changed. Pure but for what renders."""

import re
from typing import NamedTuple

from openvibe.engines.text.markdown import CODE_BLOCK_START, render_growing
from openvibe.engines.text.markdown_parser import open_mark

RENDERED_AT_ONCE = 4_000
"""A last block of so many characters is rendered with every word that it gains."""

RENDERED_SHARE = 24
"""A longer one once it has gained this part of its length, and its words are shown as they are until then: so a block
costs no more than so many times what it costs to render it once, however it comes."""

CODE_AT_ONCE, CODE_SHARE = 400, 8
"""The same of code, which costs more, and whose words stand where they will while they have no colours yet."""


class ReplyProgress(NamedTuple):
    """How far a reply was sent. `tail_start`: where its last block begins; `tail`: the HTML of it, and `rendered` up to
    where; all in characters of `body`."""

    body: str
    tail_start: int = 0
    tail: str = ""
    rendered: int = 0


class NewWords(NamedTuple):
    """What a reply gained from character `start` to `end`: the words that follow what is shown."""

    start: int
    end: int
    words: str


class NewHtml(NamedTuple):
    """What a reply gained from character `start` to `end`. The HTML of its last block, which was `was` UTF-16 units
    long when it was rendered up to `base`, is now its first `kept` units and `html`; of that, blocks that are finished
    are the first `done` units."""

    start: int
    end: int
    base: int
    was: int
    kept: int
    done: int
    html: str


def begin_reply(body: str) -> ReplyProgress:
    """A reply as a page shows it that is loaded now."""
    growing = render_growing(body)
    return ReplyProgress(body, growing.tail_start, growing.tail, len(body))


def advance_reply(progress: ReplyProgress, body: str) -> tuple[ReplyProgress, NewWords | NewHtml]:
    """How far the reply is sent once it is `body`, which begins with what it was, and what that tells a page."""
    start, end = len(progress.body), len(body)
    gained, tail_length = end - progress.rendered, end - progress.tail_start
    if _are_plain(progress, body[start:]):
        return progress._replace(body=body), NewWords(start, end, body[start:])
    is_code = progress.tail.startswith(CODE_BLOCK_START)
    at_once, share = (CODE_AT_ONCE, CODE_SHARE) if is_code else (RENDERED_AT_ONCE, RENDERED_SHARE)
    may_close = is_code and any(mark in body[max(progress.rendered - 2, 0) :] for mark in ("```", "~~~"))
    if tail_length > at_once and gained * share < tail_length and not may_close:
        return progress._replace(body=body), NewWords(start, end, body[start:])
    growing = render_growing(body[progress.tail_start :])
    html = growing.done + growing.tail
    kept = _common_length(progress.tail, html)
    news = NewHtml(
        start,
        end,
        base=progress.rendered,
        was=_utf16_length(progress.tail),
        kept=_utf16_length(html[:kept]),
        done=_utf16_length(growing.done),
        html=html[kept:],
    )
    return ReplyProgress(body, progress.tail_start + growing.tail_start, growing.tail, end), news


_PLAIN_WORDS = re.compile(r"[\w ,.?'\"(%-]*")
_OPEN_END = re.compile(r"(?:</(?:p|li|ul|ol|h[1-6])>\n?)+")


def _are_plain(progress: ReplyProgress, words: str) -> bool:
    """Whether these words stand at the end of the last block just as they are, once it is rendered: no sign is among
    them, and nothing before them in their line waits for its end."""
    line = progress.body[progress.body.rfind("\n") + 1 :]
    return (
        len(line) >= _LINE_BEGUN
        and progress.tail_start < len(progress.body)
        and _PLAIN_WORDS.fullmatch(words) is not None
        and not line[-1].isspace()
        and "|" not in line
        and not open_mark(line)
        and not _MAY_GO_ON.search(line.rsplit(" ", 1)[-1])
        and _ends_in_text(progress.tail)
    )


_LINE_BEGUN = 12
"""Characters after which a line cannot become an item or a title any more."""
_MAY_GO_ON = re.compile(r"[:/&<$\\*_~`\[@]")
"""Signs of a word that may become another with its next letter: an address, an entity, a tag, a mark."""


def _ends_in_text(tail: str) -> bool:
    match = re.search(r"(?:</[a-z0-9]+>\s*)+$", tail)
    return match is not None and _OPEN_END.fullmatch(match[0].replace("\n", "")) is not None


def _common_length(one: str, other: str) -> int:
    """The number of characters with which both begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2

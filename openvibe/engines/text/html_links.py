"""Links in sanitised HTML: words of its texts become links, and links that show their address show a title. Pure.

Nothing is changed in code, formulas and links: there words are somebody else's. The HTML is what `render_markdown`
gives, in which every `<` and `&` of a text is escaped."""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

_TAG = re.compile(r"""<(/?)([a-zA-Z][a-zA-Z0-9-]*)(?:[^<>"']|"[^"]*"|'[^']*')*>""")
_CLOSED_TAGS = frozenset({"a", "code", "pre", "math", "script", "style", "button", "select", "textarea"})
"""Elements whose texts are left alone."""
_LINK = re.compile(r'<a href="([^"<>]*)"[^<>]*>([^<>]*)</a>')


@dataclass(frozen=True)
class WordLink:
    """Words that lead somewhere: where they stand for the `occurrence`-th time (from 0) in the texts of the HTML.

    `attributes` of the link, each of a name that is written as it stands; `shown` in place of the words, where not
    empty."""

    words: str
    occurrence: int
    attributes: tuple[tuple[str, str], ...]
    shown: str = ""


@dataclass(frozen=True)
class _Span:
    start: int
    end: int
    link: WordLink


def linkable_texts(markup: str) -> list[str]:
    """The texts of the HTML in which words may become links, in order, unescaped: a piece for each text between two
    tags."""
    return [html.unescape(text) for text, is_open in _pieces(markup) if is_open]


def _pieces(markup: str) -> Iterator[tuple[str, bool]]:
    """All of the HTML in pieces, tags and texts; whether each is a text that stands in none of _CLOSED_TAGS."""
    at, closed = 0, 0
    for tag in _TAG.finditer(markup):
        if tag.start() > at:
            yield markup[at : tag.start()], not closed
        yield tag[0], False
        if tag[2].lower() in _CLOSED_TAGS:
            closed = max(closed - 1, 0) if tag[1] else closed + 1
        at = tag.end()
    if at < len(markup):
        yield markup[at:], not closed


def link_words(markup: str, links: Sequence[WordLink]) -> str:
    """The HTML with these words as links; those that do not stand there are left out, and of two that overlap the
    later one."""
    if not links:
        return markup
    texts = linkable_texts(markup)
    spans = iter(_find_spans(texts, links))
    return _replace_texts(markup, texts, lambda text: _with_links(text, next(spans)))


def _find_spans(texts: Sequence[str], links: Iterable[WordLink]) -> list[list[_Span]]:
    """The spans in each text, in order, none over another."""
    spans: list[list[_Span]] = [[] for _ in texts]
    by_words: dict[str, dict[int, WordLink]] = {}
    for link in links:
        if link.words:
            by_words.setdefault(link.words, {}).setdefault(link.occurrence, link)
    for words, wanted in by_words.items():
        last, count = max(wanted), 0
        for text, found in zip(texts, spans, strict=True):
            for start in find_words(text, words):
                if link_here := wanted.get(count):
                    found.append(_Span(start, start + len(words), link_here))
                count += 1
            if count > last:
                break
    return [_without_overlaps(found) for found in spans]


def find_words(text: str, words: str) -> Iterator[int]:
    """Places where the words begin in the text, one after the other, none over another."""
    start = text.find(words)
    while start >= 0:
        yield start
        start = text.find(words, start + len(words))


def _without_overlaps(spans: list[_Span]) -> list[_Span]:
    kept: list[_Span] = []
    for span in sorted(spans, key=attrgetter("start", "end")):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _with_links(text: str, spans: Sequence[_Span]) -> str:
    """The text as HTML."""
    parts, at = [], 0
    for span in spans:
        words = span.link.shown or text[span.start : span.end]
        attributes = "".join(f' {name}="{html.escape(value)}"' for name, value in span.link.attributes)
        parts += [_escape(text[at : span.start]), f"<a{attributes}>{_escape(words)}</a>"]
        at = span.end
    return "".join([*parts, _escape(text[at:])])


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def _replace_texts(markup: str, texts: Sequence[str], replace: Callable[[str], str]) -> str:
    unescaped = iter(texts)
    parts = []
    for piece, is_open in _pieces(markup):
        if not is_open:
            parts.append(piece)
            continue
        text = next(unescaped)
        linked = replace(text)
        parts.append(piece if linked == _escape(text) else linked)  # an unchanged text stays byte for byte
    return "".join(parts)


def link_matches(
    markup: str, pattern: re.Pattern[str], attributes_of: Callable[[re.Match[str]], tuple[tuple[str, str], ...] | None]
) -> str:
    """The HTML with what the pattern finds in its texts as links; `attributes_of` a match: None for no link."""

    def linked(text: str) -> str:
        spans = [
            _Span(*match.span(), WordLink(match[0], 0, attributes))
            for match in pattern.finditer(text)
            if (attributes := attributes_of(match)) is not None
        ]
        return _with_links(text, spans)

    return _replace_texts(markup, linkable_texts(markup), linked)


def title_links(markup: str, find_place: Callable[[str], tuple[str, str] | None]) -> str:
    """The HTML with links to places of our own as chips. `find_place`: the path and the title of what is at an address,
    None for what is no such place. Of a link that shows its address the title stands in its place; one that somebody
    named keeps its name."""

    def chip(link: re.Match[str]) -> str:
        address, shown = html.unescape(link[1]), html.unescape(link[2])
        place = find_place(address)
        if place is None:
            return link[0]
        path, title = place
        words = title if shown == address else shown
        return f'<a href="{html.escape(path)}" class="place-chip" dir="auto">{_escape(words)}</a>'

    return _LINK.sub(chip, markup) if "<a " in markup else markup

"""Markdown to safe HTML, and to excerpts. Pure: no Django, no database.

Three nets, one behind the other: raw HTML is off in the parser, links and images are restricted while the text is
still tokens (`markdown_parser`), and nh3 keeps only listed tags and attributes of what comes out."""

import html
import re
from collections.abc import Sequence
from functools import lru_cache

import nh3
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from openvibe.engines.text.highlighting import (
    CODE_CLASSES,
    LANGUAGES,
    MAX_HIGHLIGHTED_TOTAL,
    highlight_code,
    highlighting_cost,
)
from openvibe.engines.text.markdown_parser import PARSER, is_safe_link, parse_markdown, replace_unencodable
from openvibe.engines.text.mentions import mark_mentions

_LONG_BODY_CHARACTERS = 20_000

_ALLOWED_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "blockquote"),
    *("ul", "ol", "li", "pre", "code", "span", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_ALLOWED_ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "title"},
    "ol": {"start"},
    "th": {"align"},
    "td": {"align"},
    "pre": {"class", "tabindex"},
    "code": {"class"},
    "span": {"class"},
}
_HIGHLIGHTED_KEY = "characters coloured"
_BREAK_TYPES = {"softbreak", "hardbreak"}


def render_markdown(body: str, *, handles: frozenset[str] = frozenset()) -> str:
    """Returns a message body as sanitised HTML, safe to show as it is.

    CommonMark with tables, strikethrough, bare web addresses as links, single newlines as breaks and
    highlighted fences. `@name` becomes `<span class="mention">` when `name` is in `handles` (lower case).
    Unfinished Markdown (a reply still being written) renders as far as it goes. A text that is too large
    or nested too deeply to read as Markdown is shown whole, as plain text in `<pre class="plain">`, and says so.
    """
    return _render_long(body, handles) if len(body) > _LONG_BODY_CHARACTERS else _render_short(body, handles)


def last_block_start(body: str) -> int:
    """The position at which the last paragraph, list, table or code block of a body begins, in characters: all before
    it stays as it is, however the text goes on."""
    tokens = [token for token in parse_markdown(body) or () if token.map and token.level == 0]
    lines = body.split("\n")[: tokens[-1].map[0]] if tokens and tokens[-1].map else []
    return sum(len(line) + 1 for line in lines)


_TAG_START = re.compile(r"<(?=[a-z/!?])", re.IGNORECASE)


def quote_markdown(body: str) -> str:
    """The body as a quotation, for a Markdown file in which other texts stand around it.

    Whatever it opens ends with it: headings, fences, lists. Raw HTML, which OpenVibe shows as it is written, is not
    left to other programs to read as HTML; code stays as it is, unless the text holds such HTML besides.
    """
    if _TAG_START.search(body) and _may_hold_html(parse_markdown(body)):
        body = _TAG_START.sub("&lt;", body)
    return "\n".join(f"> {line}".rstrip() for line in body.splitlines())


def _may_hold_html(tokens: Sequence[Token] | None) -> bool:
    if tokens is None:
        return True
    texts = (child.content for token in tokens for child in token.children or () if child.type != "code_inline")
    return any(_TAG_START.search(text) for text in texts)


@lru_cache(maxsize=512)
def plain_text(body: str, *, separator: str = " ") -> str:
    """Returns what a body says on one line, without Markdown signs: for excerpts. Not HTML-escaped.

    `separator` stands between paragraphs, list items and other blocks.
    """
    tokens = parse_markdown(body)
    if tokens is None:
        return " ".join(replace_unencodable(body).split())
    blocks: list[str] = []
    for token in tokens:
        if token.type == "inline":
            blocks.append("".join(" " if c.type in _BREAK_TYPES else c.content for c in token.children or []))
        elif token.type in {"fence", "code_block"}:
            blocks.append(token.content)
    return separator.join(text for block in blocks if (text := " ".join(block.split())))


PLAIN_NOTE = '<p class="hint">Shown as it was written: too long, too deep or too full of marks to be formatted.</p>'


def _render(body: str, handles: frozenset[str]) -> str:
    tokens = parse_markdown(body)
    if tokens is None:
        return f'<pre class="plain">{html.escape(replace_unencodable(body))}</pre>\n{PLAIN_NOTE}\n'
    for token in tokens:
        if token.type == "inline" and handles:
            token.children = mark_mentions(token.children or [], handles)
    return nh3.clean(
        _RENDERER.render(tokens, PARSER.options, {}),
        tags=_ALLOWED_TAGS,
        attributes=_ALLOWED_ATTRIBUTES,
        attribute_filter=_filter_attribute,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


_render_short = lru_cache(maxsize=2048)(_render)
_render_long = lru_cache(maxsize=64)(_render)  # few: they take much memory; hostile ones take long to render once


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if is_safe_link(value) else None
    if name == "align":
        return value if value in {"left", "right", "center"} else None
    if name != "class":
        return value
    allowed_classes = [each for each in value.split() if each in CODE_CLASSES or each in {"mention", "code", "plain"}]
    return " ".join(allowed_classes) or None


class _Renderer(RendererHTML):
    """A renderer whose methods are the library's rules: each renders the tokens of its name."""

    def mention(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<span class="mention">{html.escape(tokens[idx].content)}</span>'

    def text_special(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return self.text(tokens, idx, options, env)

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return render_code(tokens[idx].content, tokens[idx].info, env)

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return render_code(tokens[idx].content, tokens[idx].info, env)


def render_code(code: str, info: str, env: EnvType) -> str:
    """A block of code as HTML, coloured if its language, the first word of `info`, is known. `env` counts the coloured
    characters of all blocks of a text."""
    language = LANGUAGES.get(info.split()[0].lower()) if info.split() else None
    if language is None:
        return f'<pre class="code" tabindex="0"><code>{html.escape(code)}</code></pre>\n'
    shown, total = html.escape(code), env.get(_HIGHLIGHTED_KEY, 0) + highlighting_cost(code, language)
    if total <= MAX_HIGHLIGHTED_TOTAL:
        shown, env[_HIGHLIGHTED_KEY] = highlight_code(code, language), total
    return f'<pre class="code" tabindex="0"><code class="language-{language}">{shown}</code></pre>\n'


_RENDERER = _Renderer()

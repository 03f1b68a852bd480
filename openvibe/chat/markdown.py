"""Markdown to safe HTML, mentions and excerpts. Pure: no Django, no database.

Three nets, one behind the other: raw HTML is off in the parser, links and images are restricted while the
text is still tokens, and nh3 keeps only listed tags and attributes of what comes out.
"""

import html
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from openvibe.chat.highlighting import CODE_CLASSES, MAX_HIGHLIGHTED_IN_ALL, highlight, language_class
from openvibe.chat.inline import Mention, find_mentions, is_safe_link, link_bare_urls, show_no_images
from openvibe.chat.step_limit import TooMuchWork, count_steps

MAX_MARKDOWN_CHARACTERS = 100_000
MAX_BLOCK_NESTING = 30
MAX_INLINE_NESTING = 60
_LONG = 20_000

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "blockquote"),
    *("ul", "ol", "li", "pre", "code", "span", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "title"},
    "ol": {"start"},
    "th": {"align"},
    "td": {"align"},
    "pre": {"class"},
    "code": {"class"},
    "span": {"class"},
}
_COLOURED = "characters coloured"
_BREAKS = {"softbreak", "hardbreak"}


def render(body: str, *, handles: frozenset[str] = frozenset()) -> str:
    """Return a message body as sanitised HTML, safe to show as it is.

    CommonMark with tables, strikethrough, bare web addresses as links, single newlines as breaks and
    highlighted fences. `@name` becomes `<span class="mention">` when `name` is in `handles` (lower case).
    Unfinished Markdown (a reply still being written) renders as far as it goes. A text that is too large
    or nested too deeply to read as Markdown is shown whole, as plain text in `<pre class="plain">`.
    """
    return _render_long(body, handles) if len(body) > _LONG else _render_short(body, handles)


def mentioned_handles(body: str) -> tuple[str, ...]:
    """Return the handles mentioned in a body: lower case, each once, in order of first appearance.

    Read from the parsed text only, never from code, links, web or e-mail addresses. Whether a handle
    belongs to anybody is not known here.
    """
    if "@" not in body:
        return ()
    tokens = _parse(body)
    found = [
        mention.handle
        for token in tokens or ()
        if token.type == "inline"
        for mention in find_mentions(token.children or [])
    ]
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=512)
def plain_text(body: str, *, between: str = " ") -> str:
    """Return what a body says on one line, without Markdown signs: for excerpts. Not HTML-escaped.

    `between` stands between paragraphs, list items and other blocks.
    """
    tokens = _parse(body)
    if tokens is None:
        return " ".join(_mended(body).split())
    said: list[str] = []
    for token in tokens:
        if token.type == "inline":
            said.append("".join(" " if c.type in _BREAKS else c.content for c in token.children or []))
        elif token.type in {"fence", "code_block"}:
            said.append(token.content)
    return between.join(text for block in said if (text := " ".join(block.split())))


@lru_cache(maxsize=2048)
def _render_short(body: str, handles: frozenset[str]) -> str:
    return _render(body, handles)


@lru_cache(maxsize=64)  # few, so that they take little memory; hostile ones take seconds to render once
def _render_long(body: str, handles: frozenset[str]) -> str:
    return _render(body, handles)


def _render(body: str, handles: frozenset[str]) -> str:
    tokens = _parse(body)
    if tokens is None:
        return f'<pre class="plain">{html.escape(_mended(body))}</pre>\n'
    for token in tokens:
        if token.type == "inline" and handles:
            token.children = _with_mentions(token.children or [], handles)
    return _sanitise(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))


def _parse(body: str) -> list[Token] | None:
    """Return the tokens of a body, or None when it is too large, too deep or too costly to read."""
    if len(body) > MAX_MARKDOWN_CHARACTERS:
        return None
    try:
        tokens = _MARKDOWN.parse(_mended(body), {})
    except (TooMuchWork, RecursionError):
        return None
    return None if _is_too_deep(tokens) else tokens


def _mended(body: str) -> str:
    """Lone surrogates cannot be encoded and NUL cannot be shown; both become the replacement character."""
    return body.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")


def _is_too_deep(tokens: Sequence[Token]) -> bool:
    for token in tokens:
        # At its own limit the parser drops what is inside a block, so this one has to be lower.
        if token.nesting == 1 and token.level >= MAX_BLOCK_NESTING:
            return True
        depth = 0
        for child in token.children or ():
            depth += child.nesting
            if depth > MAX_INLINE_NESTING:
                return True
    return False


def _with_mentions(children: list[Token], handles: frozenset[str]) -> list[Token]:
    marked: list[Token] = []
    mentions: defaultdict[int, list[Mention]] = defaultdict(list)
    for mention in find_mentions(children):
        if mention.handle in handles:
            mentions[mention.token].append(mention)
    for place, token in enumerate(children):
        at = 0
        for mention in mentions[place]:
            marked.append(_text(token.content[at : mention.start]))
            marked.append(_mention(token.content[mention.start : mention.end]))
            at = mention.end
        marked.append(_text(token.content[at:]) if at else token)
    return marked


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _mention(content: str) -> Token:
    return Token("mention", "span", 0, content=content)


def _sanitise(markup: str) -> str:
    return nh3.clean(
        markup,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_kept_attribute,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def _kept_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if is_safe_link(value) else None
    if name == "align":
        return value if value in {"left", "right", "center"} else None
    if name != "class":
        return value
    kept = [each for each in value.split() if each in CODE_CLASSES or each in {"mention", "code", "plain"}]
    return " ".join(kept) or None


def _render_mention(_: RendererHTML, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
    return f'<span class="mention">{html.escape(tokens[place].content)}</span>'


def _render_code(_: RendererHTML, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[place]
    language = token.info.split()[0] if token.info.split() else ""
    opening = f'<code class="{language_class(language)}">' if language_class(language) else "<code>"
    coloured = env.get(_COLOURED, 0) + (len(token.content) if language_class(language) else 0)
    if coloured > MAX_HIGHLIGHTED_IN_ALL:
        return f'<pre class="code">{opening}{html.escape(token.content)}</code></pre>\n'
    env[_COLOURED] = coloured
    return f'<pre class="code">{opening}{highlight(token.content, language)}</code></pre>\n'


def _finish_tokens(state: StateCore) -> None:
    for token in state.tokens:
        if token.children:
            token.children = link_bare_urls(show_no_images(token.children))
        style = str(token.attrs.pop("style", ""))
        if style.startswith("text-align:"):
            token.attrs["align"] = style.removeprefix("text-align:")


def _built() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": MAX_BLOCK_NESTING + 4})
    markdown.enable(["table", "strikethrough"])
    markdown.disable(["html_inline", "html_block"])
    markdown.validateLink = is_safe_link  # type: ignore[method-assign]
    count_steps(markdown)
    # text_join stays off: an escaped "\@" is a token of its own, and so no mention.
    markdown.core.ruler.at("text_join", _finish_tokens)
    markdown.add_render_rule("mention", _render_mention)
    markdown.add_render_rule("fence", _render_code)
    markdown.add_render_rule("code_block", _render_code)
    markdown.add_render_rule("text_special", RendererHTML.text)
    return markdown


_MARKDOWN = _built()

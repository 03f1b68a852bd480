"""Markdown to safe HTML, mentions and excerpts. Pure: no Django, no database.

Three nets, one behind the other: raw HTML is off in the parser, links and images are restricted while the
text is still tokens, and nh3 keeps only listed tags and attributes of what comes out. A step limit bounds the
work one text may cause: the answer is always the same."""

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from openvibe.base.highlighting import CODE_CLASSES, LANGUAGES, MAX_HIGHLIGHTED_TOTAL, highlight_code, highlighting_cost
from openvibe.base.text import HANDLE_PATTERN

_SAFE_LINK_PATTERN = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
OWN_PAGES = frozenset({"/connect-model/"})
"""Pages of OpenVibe that texts which know no workspace link to by their path."""
_BARE_URL_PATTERN = re.compile(r"(?<![\w@/])https?://[^\s<>\"'`|\\^{}\[\]\x00-\x1f\x7f]{1,2000}", re.IGNORECASE)

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


def is_safe_link(url: str) -> bool:
    """Whether an address leads to the web or an e-mail (http, https, mailto), or is one of OWN_PAGES; nothing else."""
    return url in OWN_PAGES or _SAFE_LINK_PATTERN.fullmatch(url) is not None


def find_mentions(children: Sequence[Token]) -> Iterator[MentionSpan]:
    """Yield the mentions in inline tokens, in order. Links, code and escaped signs (`\\@x`) hold none."""
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


def _link_urls_and_images(children: list[Token]) -> list[Token]:
    """Turn addresses written as they are into links, and images into links with their description: showing one would
    tell its server who reads here."""
    tokens_with_links: list[Token] = []
    links = 0
    for token in children:
        links += token.nesting if token.type in {"link_open", "link_close"} else 0
        if token.type == "image":
            source = str(token.attrs.get("src", ""))
            text = _alt_text(token.children or []).strip() or source
            tokens_with_links += [Token("text_special", "", 0, content=text)] if links else _link_tokens(source, text)
        elif token.type == "text" and not links and "://" in token.content:
            tokens_with_links += _link_bare_urls(token)
        else:
            tokens_with_links.append(token)
    return tokens_with_links


def _link_bare_urls(token: Token) -> list[Token]:
    """A text token, cut where http and https addresses begin and end; punctuation after them stays text."""
    tokens_with_links: list[Token] = []
    at = 0
    for match in _BARE_URL_PATTERN.finditer(token.content):
        url = _strip_trailing_punctuation(match[0])
        if not is_safe_link(url) or url.endswith("://"):
            continue
        tokens_with_links += [_text_token(token.content[at : match.start()]), *_link_tokens(url, url)]
        at = match.start() + len(url)
    return [*tokens_with_links, _text_token(token.content[at:]) if at else token]


def _alt_text(children: Sequence[Token]) -> str:
    return "".join(
        _alt_text(child.children or [])
        if child.type == "image"
        else child.content or (" " if child.tag == "br" else "")
        for child in children
    )


def _link_tokens(url: str, text: str) -> list[Token]:
    return [Token("link_open", "a", 1, attrs={"href": url}), _text_token(text), Token("link_close", "a", -1)]


def _text_token(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _strip_trailing_punctuation(url: str) -> str:
    """Take off what ends the sentence and not the address: "(see https://a.b/c_(d))." keeps "…c_(d)"."""
    opening_count, closing_count = url.count("("), url.count(")")
    while url and (url[-1] in ".,;:!?*_~" or (url[-1] == ")" and closing_count > opening_count)):
        closing_count -= url[-1] == ")"
        url = url[:-1]
    return url


MAX_PARSER_STEPS = 20_000
"""An ordinary text of 100,000 characters takes 3,000 to 15,000; so many take about 150 ms of processor time."""

MAX_TABLE_BARS = 20_000
"""A table's cells are made all at once, before a step is counted; a text has at most a cell for each of its bars."""

_STEPS_OF_SIGN = {"[": 3, "!": 3, "<": 3}
"""Each may begin a link, which is looked for to the end of the text."""

_STEPS_KEY = "steps taken"


class StepLimitExceeded(Exception):
    """The text asks for more work than an honest one would."""


def _reset_steps(state: StateCore) -> None:
    state.env[_STEPS_KEY] = 0


def _count_block_step(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    # A block may read all lines that are left before it gives up, at every depth.
    return _add_steps(state.env, 1 + state.level)


def _count_inline_step(state: StateInline, silent: bool) -> bool:
    return _add_steps(state.env, _STEPS_OF_SIGN.get(state.src[state.pos], 1))


def _add_steps(env: object, steps: int) -> bool:
    """False, so that the parser goes on with its next rule. Raises StepLimitExceeded."""
    assert isinstance(env, dict)
    env[_STEPS_KEY] = env.get(_STEPS_KEY, 0) + steps
    if env[_STEPS_KEY] > MAX_PARSER_STEPS:
        raise StepLimitExceeded
    return False


MAX_MARKDOWN_CHARACTERS = 100_000
MAX_BLOCK_NESTING = 30
MAX_INLINE_NESTING = 60
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
    """Return a message body as sanitised HTML, safe to show as it is.

    CommonMark with tables, strikethrough, bare web addresses as links, single newlines as breaks and
    highlighted fences. `@name` becomes `<span class="mention">` when `name` is in `handles` (lower case).
    Unfinished Markdown (a reply still being written) renders as far as it goes. A text that is too large
    or nested too deeply to read as Markdown is shown whole, as plain text in `<pre class="plain">`, and says so.
    """
    return _render_long(body, handles) if len(body) > _LONG_BODY_CHARACTERS else _render_short(body, handles)


def last_block_start(body: str) -> int:
    """Where the last paragraph, list, table or code block of a body begins, in characters: all before it stays as it
    is, however the text goes on."""
    tokens = [token for token in _parse(body) or () if token.map and token.level == 0]
    lines = body.split("\n")[: tokens[-1].map[0]] if tokens and tokens[-1].map else []
    return sum(len(line) + 1 for line in lines)


def mentioned_handles(body: str) -> tuple[str, ...]:
    """Return the handles mentioned in a body: lower case, each once, in order of first appearance.

    Read from the parsed text only, never from code, links, web or e-mail addresses. Whether a handle
    belongs to anybody is not known here.
    """
    tokens = _parse(body) if "@" in body else None
    mentions = (mention for token in tokens or () for mention in find_mentions(token.children or []))
    return tuple(dict.fromkeys(mention.handle for mention in mentions))


_TAG_START = re.compile(r"<(?=[a-z/!?])", re.IGNORECASE)


def quote_markdown(body: str) -> str:
    """The body as a quotation, for a Markdown file in which other texts stand around it.

    Whatever it opens ends with it: headings, fences, lists. Raw HTML, which OpenVibe shows as it is written, is not
    left to other programs to read as HTML; code stays as it is, unless the text holds such HTML besides.
    """
    if _TAG_START.search(body) and _may_hold_html(_parse(body)):
        body = _TAG_START.sub("&lt;", body)
    return "\n".join(f"> {line}".rstrip() for line in body.splitlines())


def _may_hold_html(tokens: Sequence[Token] | None) -> bool:
    if tokens is None:
        return True
    texts = (child.content for token in tokens for child in token.children or () if child.type != "code_inline")
    return any(_TAG_START.search(text) for text in texts)


@lru_cache(maxsize=512)
def plain_text(body: str, *, separator: str = " ") -> str:
    """Return what a body says on one line, without Markdown signs: for excerpts. Not HTML-escaped.

    `separator` stands between paragraphs, list items and other blocks.
    """
    tokens = _parse(body)
    if tokens is None:
        return " ".join(_replace_unencodable(body).split())
    blocks: list[str] = []
    for token in tokens:
        if token.type == "inline":
            blocks.append("".join(" " if c.type in _BREAK_TYPES else c.content for c in token.children or []))
        elif token.type in {"fence", "code_block"}:
            blocks.append(token.content)
    return separator.join(text for block in blocks if (text := " ".join(block.split())))


PLAIN_NOTE = '<p class="hint">Shown as it was written: too long, too deep or too full of marks to be formatted.</p>'


def _render(body: str, handles: frozenset[str]) -> str:
    tokens = _parse(body)
    if tokens is None:
        return f'<pre class="plain">{html.escape(_replace_unencodable(body))}</pre>\n{PLAIN_NOTE}\n'
    for token in tokens:
        if token.type == "inline" and handles:
            token.children = _mark_mentions(token.children or [], handles)
    return nh3.clean(
        _PARSER.renderer.render(tokens, _PARSER.options, {}),
        tags=_ALLOWED_TAGS,
        attributes=_ALLOWED_ATTRIBUTES,
        attribute_filter=_filter_attribute,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


_render_short = lru_cache(maxsize=2048)(_render)
_render_long = lru_cache(maxsize=64)(_render)  # few: they take much memory; hostile ones take long to render once


def _parse(body: str) -> list[Token] | None:
    """Return the tokens of a body, or None when it is too large, too deep or too costly to read."""
    if len(body) > MAX_MARKDOWN_CHARACTERS or body.count("|") > MAX_TABLE_BARS:
        return None
    try:
        tokens = _PARSER.parse(_replace_unencodable(body), {})
    except (StepLimitExceeded, RecursionError):
        return None
    return None if _is_nested_too_deeply(tokens) else tokens


def _replace_unencodable(body: str) -> str:
    """Lone surrogates cannot be encoded and NUL cannot be shown; both become the replacement character."""
    return body.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")


def _is_nested_too_deeply(tokens: Sequence[Token]) -> bool:
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


def _mark_mentions(children: list[Token], handles: frozenset[str]) -> list[Token]:
    tokens_with_marks: list[Token] = []
    mentions: defaultdict[int, list[MentionSpan]] = defaultdict(list)
    for mention in find_mentions(children):
        if mention.handle in handles:
            mentions[mention.token].append(mention)
    for index, token in enumerate(children):
        at = 0
        for mention in mentions[index]:
            tokens_with_marks.append(_text_token(token.content[at : mention.start]))
            tokens_with_marks.append(Token("mention", "span", 0, content=token.content[mention.start : mention.end]))
            at = mention.end
        tokens_with_marks.append(_text_token(token.content[at:]) if at else token)
    return tokens_with_marks


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if is_safe_link(value) else None
    if name == "align":
        return value if value in {"left", "right", "center"} else None
    if name != "class":
        return value
    allowed_classes = [each for each in value.split() if each in CODE_CLASSES or each in {"mention", "code", "plain"}]
    return " ".join(allowed_classes) or None


def _render_mention(_: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    return f'<span class="mention">{html.escape(tokens[index].content)}</span>'


def _render_code(_: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    language = LANGUAGES.get(token.info.split()[0].lower()) if token.info.split() else None
    if language is None:
        return f'<pre class="code" tabindex="0"><code>{html.escape(token.content)}</code></pre>\n'
    code, total = html.escape(token.content), env.get(_HIGHLIGHTED_KEY, 0) + highlighting_cost(token.content, language)
    if total <= MAX_HIGHLIGHTED_TOTAL:
        code, env[_HIGHLIGHTED_KEY] = highlight_code(token.content, language), total
    return f'<pre class="code" tabindex="0"><code class="language-{language}">{code}</code></pre>\n'


def _postprocess_tokens(state: StateCore) -> None:
    for token in state.tokens:
        if token.children:
            token.children = _link_urls_and_images(token.children)
        style = str(token.attrs.pop("style", ""))
        if style.startswith("text-align:"):
            token.attrs["align"] = style.removeprefix("text-align:")


def _build_parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": MAX_BLOCK_NESTING + 4})
    markdown.enable(["table", "strikethrough"])
    markdown.disable(["html_inline", "html_block"])
    markdown.validateLink = is_safe_link  # type: ignore[method-assign]  # how the library takes it
    markdown.core.ruler.before("normalize", "reset_steps", _reset_steps)
    markdown.block.ruler.before("table", "count_steps", _count_block_step, {"alt": []})
    markdown.inline.ruler.before("text", "count_steps", _count_inline_step)
    # text_join stays off: an escaped "\@" is a token of its own, and so no mention.
    markdown.core.ruler.at("text_join", _postprocess_tokens)
    markdown.add_render_rule("mention", _render_mention)
    markdown.add_render_rule("fence", _render_code)
    markdown.add_render_rule("code_block", _render_code)
    markdown.add_render_rule("text_special", RendererHTML.text)
    return markdown


_PARSER = _build_parser()

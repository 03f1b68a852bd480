"""Markdown to safe HTML, and to excerpts. Pure: no Django, no database.

Three nets, one behind the other: raw HTML is off in the parser, links and images are restricted while the text is
still tokens (`markdown_parser`), and nh3 keeps only listed tags and attributes of what comes out."""

import html
import re
import secrets
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import nh3
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from openvibe.engines.text.formulas import formulas_of, source_of, stands_alone
from openvibe.engines.text.highlighting import (
    CODE_CLASSES,
    LANGUAGES,
    MAX_HIGHLIGHTED_TOTAL,
    highlight_code,
    highlighting_cost,
    language_label,
)
from openvibe.engines.text.markdown_parser import PARSER, is_safe_link, parse_markdown, replace_unencodable
from openvibe.engines.text.mathml import FORMULA_CLASSES, MATHML_ATTRIBUTES, MATHML_TAGS, render_formulas
from openvibe.engines.text.mentions import mark_mentions

_LONG_BODY_CHARACTERS = 20_000

CODE_BLOCK_START = '<figure class="code-block'
"""How the HTML of a block of code begins."""

MAX_CODE_LINES = 40
"""What is longer is folded."""

_ALLOWED_TAGS = MATHML_TAGS | {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "blockquote"),
    *("ul", "ol", "li", "pre", "code", "span", "a", "table", "thead", "tbody", "tr", "th", "td"),
    *("div", "figure", "figcaption", "button", "input", "details", "summary", "section", "sup"),
}
_DIRECTION_TAGS = ("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "blockquote", "summary")
_ALLOWED_ATTRIBUTES: dict[str, set[str]] = {
    **{tag: set(MATHML_ATTRIBUTES) for tag in MATHML_TAGS},
    **{tag: {"dir"} for tag in _DIRECTION_TAGS},
    "a": {"href", "title", "target", "class", "aria-label"},
    "ol": {"start", "dir"},
    "th": {"align", "dir"},
    "td": {"align", "dir"},
    "pre": {"class", "tabindex"},
    "code": {"class", "dir"},
    "span": {"class", "title"},
    "div": {"class"},
    "figure": {"class"},
    "button": {"type", "class", "data-code", "aria-pressed", "aria-expanded"},
    "input": {"type", "checked", "disabled", "aria-label"},
    "li": {"class", "id", "dir"},
    "sup": {"class", "id"},
    "section": {"class", "tabindex", "aria-label"},
    "details": {"open", "dir"},
}
_OWN_CLASSES = (
    CODE_CLASSES
    | FORMULA_CLASSES
    | {
        *("mention", "code", "plain", "code-block", "is-long", "code-more", "formula", "formula-block", "task"),
        *("footnotes", "footnote", "footnote-back", "table-scroller"),
    }
)
_NOTE_ID = secrets.token_hex(8)
"""Stands in the ids of footnotes for whose they are. No text can hold it, so no link leads to an id of the page but
those of footnotes."""
_NOTE_TARGET = re.compile(rf"#?fn(?:ref)?-{_NOTE_ID}-[0-9]+(?:-[0-9]+)?")
_HIGHLIGHTED_KEY = "characters coloured"
_MATHML_KEY = "formulas"
_BREAK_TYPES = {"softbreak", "hardbreak"}


def render_markdown(body: str, *, handles: frozenset[str] = frozenset(), anchor: str = "") -> str:
    """Returns a message body as sanitised HTML, safe to show as it is.

    CommonMark with tables, task lists, footnotes, formulas, `<details>`, strikethrough, names of emoji, bare web
    addresses as links, single newlines as breaks and highlighted fences. `@name` becomes `<span class="mention">` when
    `name` is in `handles` (lower case). `anchor` tells the footnotes of this body from those of others on the page.
    A text that is too large or nested too deeply to read as Markdown is shown whole, as plain text in
    `<pre class="plain">`, and says so.
    """
    markup = _render_long(body, handles) if len(body) > _LONG_BODY_CHARACTERS else _render_short(body, handles)
    if _NOTE_ID not in markup:
        return markup
    return markup.replace(_NOTE_ID, anchor or blake2b(body.encode(errors="replace"), digest_size=6).hexdigest())


class GrowingHtml(NamedTuple):
    """A text that is still written: the HTML of the blocks that stay as they are, of the last one, and where in the
    text that begins, in characters."""

    done: str
    tail: str
    tail_start: int


_MAY_BECOME_ITEM = re.compile(r"(?:\d{1,9}[.)]?|[-+*])\s*")


def render_growing(body: str) -> GrowingHtml:
    """The sanitised HTML of a text that goes on: what is opened in it is read as far as it goes, and looks as it will
    once it is whole. Costs as much as rendering the text does."""
    tokens = parse_markdown(body, is_growing=True)
    if tokens is None:
        return GrowingHtml("", _render_tokens(None, body), 0)
    starts = [index for index, token in enumerate(tokens) if token.level == 0 and token.map and token.nesting >= 0]
    if not starts:
        return GrowingHtml("", "", 0)
    last = starts[-1]
    if (
        len(starts) > 1
        and tokens[last].type == "paragraph_open"
        and _MAY_BECOME_ITEM.fullmatch(tokens[last + 1].content)
    ):
        last = starts[-2]
    first_line = (tokens[last].map or [0])[0]
    tail_start = sum(map(len, _LINES.findall(body)[:first_line])) if first_line else 0
    return GrowingHtml(_render_tokens(tokens[:last], ""), _render_tokens(tokens[last:], ""), tail_start)


_LINES = re.compile(r"[^\r\n]*(?:\r\n?|\n|$)")

_TAG_START = re.compile(r"<(?=[a-z/!?])(?!(?:/?details|details open(?:=\"(?:open)?\")?|/?summary)>)", re.IGNORECASE)


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
        elif token.type in {"fence", "code_block", "math_block"}:
            blocks.append(token.content)
    return separator.join(text for block in blocks if (text := " ".join(block.split())))


PLAIN_NOTE = '<p class="hint">Shown as it was written: too long, too deep or too full of marks to be formatted.</p>'


def _render(body: str, handles: frozenset[str]) -> str:
    tokens = parse_markdown(body)
    for token in tokens or ():
        if token.type == "inline" and handles:
            token.children = mark_mentions(token.children or [], handles)
    return _render_tokens(tokens, body)


def _render_tokens(tokens: Sequence[Token] | None, body: str) -> str:
    """The HTML of tokens; of a body as it was written where there are none."""
    if tokens is None:
        return f'<pre class="plain">{html.escape(replace_unencodable(body))}</pre>\n{PLAIN_NOTE}\n'
    _set_directions(tokens)
    formulas = list(formulas_of(tokens))
    mathml = render_formulas((token.content.strip(), stands_alone(token)) for token in formulas) if formulas else {}
    return _CLEANER.clean(_RENDERER.render(tokens, PARSER.options, {_MATHML_KEY: mathml})) if tokens else ""


_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_DIRECTION_TOKENS = frozenset(
    {f"{kind}_open" for kind in ("paragraph", "heading", "bullet_list", "ordered_list", "list_item", "blockquote")}
    | {f"{kind}_open" for kind in ("td", "th", "summary", "details")}
)


def _set_directions(tokens: Sequence[Token]) -> None:
    """Gives each block the direction of its own first letter, and code that of code, in a text with letters that are
    written from right to left."""
    if not any(_RIGHT_TO_LEFT.search(token.content) for token in tokens if token.type == "inline"):
        return
    for token in tokens:
        if token.type in _DIRECTION_TOKENS:
            token.attrs["dir"] = "auto"
        for child in token.children or ():
            if child.type == "code_inline":
                child.attrs["dir"] = "ltr"


_render_short = lru_cache(maxsize=2048)(_render)
_render_long = lru_cache(maxsize=64)(_render)  # few: they take much memory; hostile ones take long to render once


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if is_safe_link(value) or _NOTE_TARGET.fullmatch(value) else None
    if name == "id":
        return value if _NOTE_TARGET.fullmatch(value) else None
    if name == "target":
        return value if value == "_blank" else None
    if name == "align":
        return value if value in {"left", "right", "center"} else None
    if name != "class":
        return value
    return " ".join([each for each in value.split() if each in _OWN_CLASSES]) or None


_CLEANER = nh3.Cleaner(
    tags=set(_ALLOWED_TAGS),
    attributes=_ALLOWED_ATTRIBUTES,
    attribute_filter=_filter_attribute,
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer nofollow",
)


class _Renderer(RendererHTML):
    """A renderer whose methods are the library's rules: each renders the tokens of its name."""

    def mention(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<span class="mention">{html.escape(tokens[idx].content)}</span>'

    def text_special(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return self.text(tokens, idx, options, env)

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        tokens[idx].attrs["target"] = "_blank"
        return self.renderToken(tokens, idx, options, env)

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<section class="table-scroller" tabindex="0"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></section>\n"

    def task(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        state = ' checked aria-label="Done"' if tokens[idx].content.startswith("☑") else ' aria-label="To do"'
        return f'<input type="checkbox" disabled{state}> '

    def math_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _render_formula(tokens[idx], False, env)

    def math_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _render_formula(tokens[idx], True, env) + "\n"

    def footnote_ref(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        number, own = _note_ids(tokens[idx])
        link = f'<a href="#fn-{_NOTE_ID}-{number}" aria-label="Note {number}">{number}</a>'
        return f'<sup class="footnote" id="fnref-{own}">{link}</sup>'

    def footnote_block_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<section class="footnotes" aria-label="Notes">\n<ol>\n'

    def footnote_block_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</ol>\n</section>\n"

    def footnote_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<li id="fn-{_NOTE_ID}-{_note_ids(tokens[idx])[0]}">'

    def footnote_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</li>\n"

    def footnote_anchor(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        own = _note_ids(tokens[idx])[1]
        return f' <a class="footnote-back" href="#fnref-{own}" aria-label="Back to the text">↑</a>'

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _render_code_block(tokens[idx].content, tokens[idx].info, env)

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _render_code_block(tokens[idx].content, tokens[idx].info, env)


def _note_ids(token: Token) -> tuple[int, str]:
    """The number of a footnote, and the end of the id of one place that refers to it."""
    number, place = token.meta["id"] + 1, token.meta.get("subId", 0)
    return number, f"{_NOTE_ID}-{number}" + (f"-{place}" if place > 0 else "")


def _render_formula(token: Token, is_block: bool, env: EnvType) -> str:
    """A formula as MathML, with its TeX to read and copy; as it was written where it is none of the library's."""
    mathml = env[_MATHML_KEY].get((token.content.strip(), stands_alone(token)))
    if mathml is None and is_block:
        return _render_code_block(source_of(token), "tex", env)
    if mathml is None:
        return f'<code class="formula">{html.escape(source_of(token))}</code>'
    shown = f'<span class="formula" title="{html.escape(token.content.strip())}">{mathml}</span>'
    return f'<section class="formula-block" tabindex="0">{shown}</section>' if is_block else shown


def _render_code_block(code: str, info: str, env: EnvType) -> str:
    """A block of code with its language and what can be done with it. One that is long is folded: no lines are gone."""
    count = code.rstrip("\n").count("\n") + 1
    unfold = 'class="code-more" data-code="unfold" aria-expanded="false"'
    more = f'<button type="button" {unfold}>Show all {count} lines</button>'
    return (
        f'<figure class="code-block{" is-long" if count > MAX_CODE_LINES else ""}">'
        f"<figcaption>{html.escape(language_label(info))}"
        '<button type="button" data-code="wrap" aria-pressed="false">Wrap</button>'
        '<button type="button" data-code="copy">Copy</button></figcaption>'
        f"{render_code(code, info, env).rstrip()}{more if count > MAX_CODE_LINES else ''}</figure>\n"
    )


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

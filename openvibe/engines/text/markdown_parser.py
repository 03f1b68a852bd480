"""The Markdown parser: a text as tokens, with addresses as links, within limits. Pure: no Django, no database.

Raw HTML is off but for `<details>`, links and images are restricted while the text is still tokens. A step limit bounds
the work one text may cause: the answer is always the same."""

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin

from openvibe.engines.text.disclosures import add_disclosures
from openvibe.engines.text.emoji_names import replace_emoji_names
from openvibe.engines.text.formulas import add_formulas
from openvibe.engines.text.inline_rules import InlineParser, keep_backslash

_SAFE_LINK_PATTERN = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
OWN_PAGES = frozenset({"/connect-model/"})
"""Pages of OpenVibe that texts which know no workspace link to by their path."""
OWN_PLACE = r"/w/[a-z0-9-]{1,100}/[tm]/[0-9]{1,18}/"
"""The pattern of threads and messages, by their path: it leads nowhere else."""
_OWN_PLACE_PATTERN = re.compile(OWN_PLACE)
_BARE_URL_PATTERN = re.compile(r"(?<![\w@/])https?://[^\s<>\"'`|\\^{}\[\]\x00-\x1f\x7f]{1,2000}", re.IGNORECASE)


def is_safe_link(url: str) -> bool:
    """Whether an address leads to the web or an e-mail (http, https, mailto), or is the path of one of OWN_PAGES, a
    thread or a message; nothing else."""
    return url in OWN_PAGES or any(pattern.fullmatch(url) for pattern in (_OWN_PLACE_PATTERN, _SAFE_LINK_PATTERN))


def _link_urls_and_images(children: list[Token]) -> list[Token]:
    """Turns addresses written as they are into links, and images into links with their description: showing one would
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
        tokens_with_links += [text_token(token.content[at : match.start()]), *_link_tokens(url, url)]
        at = match.start() + len(url)
    return [*tokens_with_links, text_token(token.content[at:]) if at else token]


def _alt_text(children: Sequence[Token]) -> str:
    return "".join(
        _alt_text(child.children or [])
        if child.type == "image"
        else child.content or (" " if child.tag == "br" else "")
        for child in children
    )


def _link_tokens(url: str, text: str) -> list[Token]:
    return [Token("link_open", "a", 1, attrs={"href": url}), text_token(text), Token("link_close", "a", -1)]


def text_token(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _strip_trailing_punctuation(url: str) -> str:
    """Takes off what ends the sentence and not the address: "(see https://a.b/c_(d))." keeps "…c_(d)"."""
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


def parse_markdown(body: str, *, is_growing: bool = False) -> list[Token] | None:
    """Returns the tokens of a body, or None when it is too large, too deep or too costly to read.

    Of a text that `is_growing`, footnotes stand where they are written, and marks of emphasis and code that its last
    line opens are read as if it closed them.
    """
    if len(body) > MAX_MARKDOWN_CHARACTERS or body.count("|") > MAX_TABLE_BARS:
        return None
    try:
        tokens = (_GROWING_PARSER if is_growing else PARSER).parse(replace_unencodable(body), {})
    except (StepLimitExceeded, RecursionError):
        return None
    return None if _is_nested_too_deeply(tokens) else tokens


def replace_unencodable(body: str) -> str:
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


def _postprocess_tokens(state: StateCore) -> None:
    for index, token in enumerate(state.tokens):
        if token.children:
            if state.tokens[index - 2].type == "list_item_open" and state.tokens[index - 1].type == "paragraph_open":
                _mark_task(token.children, state.tokens[index - 2])
            token.children = _link_urls_and_images(token.children)
            _replace_emoji_names(token.children)
        style = str(token.attrs.pop("style", ""))
        if style.startswith("text-align:"):
            token.attrs["align"] = style.removeprefix("text-align:")


_TASK = re.compile(r"\[([ xX])\](?:[ \t]+|$)")


def _mark_task(children: list[Token], item: Token) -> None:
    """Puts a token of type `task`, an empty or a ticked box, where a list's item begins with `[ ]` or `[x]`."""
    if children[0].type != "text" or (match := _TASK.match(children[0].content)) is None:
        return
    children[0].content = children[0].content[match.end() :]
    children.insert(0, Token("task", "input", 0, content="☐ " if match[1] == " " else "☑ "))
    item.attrs["class"] = "task"


def _replace_emoji_names(children: Sequence[Token]) -> None:
    for token in children:
        if token.type == "text" and token.content.count(":") > 1 and "://" not in token.content:
            token.content = replace_emoji_names(token.content)


def _close_marks(state: StateCore) -> None:
    """Closes what the last line opens: `**bold` is bold before the rest of it is there, and a mark with nothing after
    it is not shown yet."""
    inline = next((token for token in reversed(state.tokens) if token.type == "inline"), None)
    if inline is None or not inline.content:
        return
    text = inline.content.rstrip()
    mark = open_mark(text[text.rfind("\n") + 1 :])
    if mark:
        inline.content = text.removesuffix(mark) if text.endswith(mark) else text + mark


_CODE = re.compile(r"`[^`]*`")


def open_mark(line: str) -> str:
    """The mark of code or of strong emphasis that a line opens and does not close; empty without one."""
    if line.count("`") % 2:
        return "`"
    words = _CODE.sub("", line)
    return "**" if words.count("**") % 2 and not words[words.rfind("**") + 2 :][:1].isspace() else ""


def _build_parser(*, is_growing: bool = False) -> MarkdownIt:
    options = {"html": False, "breaks": True, "maxNesting": MAX_BLOCK_NESTING + 4}
    markdown = MarkdownIt("commonmark", options)
    markdown.inline = InlineParser()
    markdown.configure("commonmark", options)
    markdown.enable(["table", "strikethrough"])
    markdown.disable(["html_inline", "html_block"])
    markdown.validateLink = is_safe_link  # type: ignore[method-assign]  # how the library takes it
    add_disclosures(markdown)
    add_formulas(markdown)
    markdown.inline.ruler.before("escape", "backslash", keep_backslash)
    if is_growing:
        markdown.core.ruler.before("inline", "close_marks", _close_marks)
    else:
        footnote_plugin(markdown, inline=False)  # `^[…]` is text: what is raised, in mathematics
    markdown.core.ruler.before("normalize", "reset_steps", _reset_steps)
    markdown.block.ruler.before("table", "count_steps", _count_block_step, {"alt": []})
    markdown.inline.ruler.before("text", "count_steps", _count_inline_step)
    # text_join stays off: an escaped "\@" is a token of its own, and so no mention.
    markdown.core.ruler.at("text_join", _postprocess_tokens)
    return markdown


PARSER = _build_parser()
_GROWING_PARSER = _build_parser(is_growing=True)

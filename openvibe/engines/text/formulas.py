"""Formulas in Markdown: `\\(…\\)` and `$…$` in a line, `\\[…\\]` and `$$…$$` alone. Pure: no Django, no database.

A dollar is a price more often than a formula, and a bracket with a backslash an escaped one: each is a formula only
where it cannot be taken for the other."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

INLINE_FORMULA = "math_inline"
BLOCK_FORMULA = "math_block"

_CLOSING_OF = {"\\(": "\\)", "\\[": "\\]", "$": "$", "$$": "$$"}
_TEX_SIGN = re.compile(r"[\\^_{}]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_OPERATOR_OR_NONE = re.compile(r"\S+|.*[=<>+*/|≤≥≈-].*", re.DOTALL)
_BRACKET = re.compile(r"\\[\[\]\\]")
_PARENTHESIS = re.compile(r"\\[()\\]")
_DOLLAR = re.compile(r"\\.|\$+", re.DOTALL)
_BLOCK_END = re.compile(r"[.,;:]?\s*$")


class FormulaSource(NamedTuple):
    """A formula as it was written: what opens it, its TeX, and where what closes it ends."""

    opening: str
    tex: str
    end: int

    @property
    def stands_alone(self) -> bool:
        return self.opening in ("\\[", "$$")


def source_of(token: Token) -> str:
    """The formula of a token with its delimiters, as it was written."""
    return f"{token.markup}{token.content}{_CLOSING_OF[token.markup]}"


def stands_alone(token: Token) -> bool:
    """Whether a formula is to be shown on lines of its own."""
    return token.markup in ("\\[", "$$")


def formulas_of(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens that are formulas, in order."""
    for token in tokens:
        if token.type == BLOCK_FORMULA:
            yield token
        yield from (child for child in token.children or () if child.type == INLINE_FORMULA)


def add_formulas(markdown: MarkdownIt) -> None:
    """Adds the rules to a parser, ahead of those that read backslashes."""
    markdown.inline.ruler.before("escape", INLINE_FORMULA, _parse_inline)
    ends_others: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list", "table"]}
    markdown.block.ruler.before("fence", BLOCK_FORMULA, _parse_block, ends_others)


def _parse_inline(state: StateInline, silent: bool) -> bool:
    sign = state.src[state.pos]
    if sign == "\\":
        formula = _read_bracketed(state.src, state.pos, state.posMax)
    elif sign == "$":
        formula = _read_dollars(state.src, state.pos, state.posMax)
    else:
        return False
    if formula is None:
        return False
    if not silent:
        token = state.push(INLINE_FORMULA, "math", 0)
        token.content, token.markup = formula.tex, formula.opening
    state.pos = formula.end
    return True


def _read_bracketed(src: str, start: int, limit: int) -> FormulaSource | None:
    """A formula that `\\(` or `\\[` opens. The next bracket of its kind closes it, so none is looked for twice."""
    opening = src[start : start + 2]
    if opening not in ("\\(", "\\["):
        return None
    pattern = _PARENTHESIS if opening == "\\(" else _BRACKET
    for match in pattern.finditer(src, start + 2, limit):
        if match[0] == "\\\\":
            continue
        if match[0] != _CLOSING_OF[opening]:
            return None
        tex = src[start + 2 : match.start()]
        if not tex.strip() or (opening == "\\[" and not _is_no_escaped_bracket(src, start, tex, match.end())):
            return None
        return FormulaSource(opening, tex, match.end())
    return None


def _is_no_escaped_bracket(src: str, start: int, tex: str, end: int) -> bool:
    """Whether it is no bracket that somebody escaped within a line, as `\\[1\\]` and `\\[a link\\](…)` are."""
    if src[end : end + 1] in ("(", "[", ":") or (start and not (src[start - 1].isspace() or src[start - 1] in "(:,;")):
        return False
    return tex[0].isspace() or bool(_TEX_SIGN.search(tex)) or ("=" in tex and not _WORD.search(tex))


def _read_dollars(src: str, start: int, limit: int) -> FormulaSource | None:
    """A formula between single or double dollars. The next dollars have to close it, so none is looked for twice."""
    opening = "$$" if src.startswith("$$", start) else "$"
    first = start + len(opening)
    before = src[start - 1 : start]
    if (
        first >= limit
        or before.isalnum()
        or before == "$"
        or src[first] == "$"
        or (opening == "$" and src[first].isspace())
    ):
        return None
    for match in _DOLLAR.finditer(src, first, limit):
        if match[0][0] == "\\":
            continue
        tex, after = src[first : match.start()], src[match.end() : match.end() + 1]
        is_closed = match[0] == opening and not (opening == "$" and tex[-1:].isspace()) and not after.isalnum()
        return FormulaSource(opening, tex, match.end()) if is_closed and tex.strip() and _is_no_price(tex) else None
    return None


def _is_no_price(tex: str) -> bool:
    """Whether it is TeX, or so short that it is no words between two prices: `5 and`, `20/month (or 15`."""
    if _TEX_SIGN.search(tex):
        return "\n\n" not in tex
    if "\n" in tex or not _OPERATOR_OR_NONE.fullmatch(tex):
        return False
    return not _WORD.search(tex) or not (" " in tex or tex[0].isdigit() or _LONG_WORD.search(tex))


def _parse_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    if state.is_code_block(start_line):
        return False
    start = state.bMarks[start_line] + state.tShift[start_line]
    opening = state.src[start : start + 2]
    if opening not in ("$$", "\\["):
        return False
    found = _find_block_end(state, start_line, end_line, opening)
    if found is None:
        return False
    if silent:
        return True
    tex, last_line = found
    token = state.push(BLOCK_FORMULA, "math", 0)
    token.block, token.content, token.markup, token.map = True, tex, opening, [start_line, last_line + 1]
    state.line = last_line + 1
    return True


def _find_block_end(state: StateBlock, start_line: int, end_line: int, opening: str) -> tuple[str, int] | None:
    """The TeX up to the line that ends with what closes it, and that line. A line that is empty, or opens another
    one, ends the search."""
    closing, lines = _CLOSING_OF[opening], list[str]()
    for line in range(start_line, end_line):
        text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]
        if line == start_line:
            text = text[2:]
        elif not text.strip() or state.sCount[line] < state.blkIndent:
            return None
        at = text.find(closing)
        if at >= 0:
            lines.append(text[:at])
            tex = "\n".join(lines)
            is_end = _BLOCK_END.match(text, at + 2) is not None
            return (
                (tex, line) if is_end and tex.strip() and (line > start_line or _is_block_line(opening, tex)) else None
            )
        if opening in text:
            return None
        lines.append(text)
    return None


def _is_block_line(opening: str, tex: str) -> bool:
    """A line alone that is `\\[1\\]` is an escaped bracket, and `$$ and $$` are no formula."""
    return (
        bool(tex[0].isspace() or _TEX_SIGN.search(tex) or not _WORD.search(tex))
        if opening == "\\["
        else _is_no_price(tex.strip())
    )

"""`<details>` in Markdown: a part that is opened by its summary, with Markdown inside. Pure: no Django, no database.

The only HTML that is read as such, and only as it stands here: any other attribute or tag stays text."""

import re

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

_OPENING = re.compile(r"<details( open(?:=\"(?:open)?\")?)?>[ \t]*", re.IGNORECASE)
_TAG = re.compile(r"<(/?)details(?: open(?:=\"(?:open)?\")?)?>", re.IGNORECASE)
_SUMMARY = re.compile(r"[ \t]*<summary>(.*?)</summary>[ \t]*", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(```|~~~)")
NO_SUMMARY = "Details"


def add_disclosures(markdown: MarkdownIt) -> None:
    """Adds the rule to a parser."""
    ends_others: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    markdown.block.ruler.before("fence", "details", _parse_details, ends_others)


def _parse_details(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    start = state.bMarks[start_line] + state.tShift[start_line]
    opening = _OPENING.match(state.src, start, state.eMarks[start_line])
    if opening is None or state.is_code_block(start_line):
        return False
    if silent:
        return True
    closing_line, next_line, before, after = _find_closing(state, start_line, end_line)
    first = _text(state, start_line)[len(opening[0]) :] if closing_line > start_line else before[len(opening[0]) :]
    token = state.push("details_open", "details", 1)
    token.block, token.map = True, [start_line, next_line]
    if opening[1]:
        token.attrs["open"] = ""
    line = start_line + 1
    summary = _SUMMARY.match(first)
    if summary is None and not first.strip() and line < closing_line:
        while line < closing_line and not _text(state, line).strip():
            line += 1
        summary = _SUMMARY.match(_text(state, line)) if line < closing_line else None
        if summary is not None:
            first, line = _text(state, line), line + 1
    _push_text(state, "summary", summary[1] if summary else NO_SUMMARY, start_line)
    _push_text(state, "paragraph", first[summary.end() :] if summary else first, start_line)
    _tokenize_between(state, line, closing_line)
    if start_line < closing_line < next_line:
        _push_text(state, "paragraph", before, closing_line)
    state.push("details_close", "details", -1).block = True
    _push_text(state, "paragraph", after, start_line)
    state.line = next_line
    return True


def _find_closing(state: StateBlock, start_line: int, end_line: int) -> tuple[int, int, str, str]:
    """The line with the tag that closes it, the one after it, and what stands before and after the tag; without one,
    where what it stands in ends: it is still being written."""
    depth, fence = 0, ""
    for line in range(start_line, end_line):
        text = _text(state, line)
        if line > start_line and text.strip() and state.sCount[line] < state.blkIndent:
            return line, line, "", ""
        if mark := _FENCE.match(text):
            fence = "" if fence == mark[1] else fence or mark[1]
        if fence or "<" not in text:
            continue
        for tag in _TAG.finditer(text):
            depth += -1 if tag[1] else 1
            if depth == 0:
                return line, line + 1, text[: tag.start()], text[tag.end() :]
    return end_line, end_line, "", ""


def _text(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _push_text(state: StateBlock, kind: str, text: str, line: int) -> None:
    if not text.strip():
        return
    tag = "summary" if kind == "summary" else "p"
    state.push(f"{kind}_open", tag, 1).map = [line, line + 1]
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = text.strip(), [line, line + 1], list[Token]()
    state.push(f"{kind}_close", tag, -1)


def _tokenize_between(state: StateBlock, first_line: int, closing_line: int) -> None:
    line_max, parent_type = state.lineMax, state.parentType
    state.lineMax, state.parentType = closing_line, "details"
    if first_line < closing_line:
        state.md.block.tokenize(state, first_line, closing_line)
    state.lineMax, state.parentType = line_max, parent_type

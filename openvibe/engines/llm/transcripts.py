"""Transcripts: consecutive messages of one trust label share one fenced block of a prompt, a line each.

    <messages trust="semi_trusted">
    1226 Grad F [2026-03-04 10:42]: Should it be yellow?
      A second line of the same message.
    1227 Ana: No.
    </messages>

The number is the message's in its thread. Lines after a message's first are indented and names hold no colon, so that
no text can begin a line of its own. Code and Markdown stand as they were written; only what would open or close a
fence is escaped, and reading a block back gives the text again. Pure.
"""

import re
from collections.abc import Iterator

from openvibe.engines.llm.fences import (
    Fence,
    clean_text,
    escape_attribute,
    escape_signs,
    escape_tags,
    find_fences,
    unescape_text,
)
from openvibe.engines.text.masking import mask_secrets

CLOSING = "</messages>"
INDENT = "  "
_LINE_SIGNS = re.compile(r"[:：﹕︓꞉∶\[\]［］〔〕【】<>＜＞﹤﹥≮‹›˂ᐸᚲ❬❮❰⦑⧼𝈶〈〉⟨⟩]")
"""What ends a name where a line says who spoke, and what looks like it."""

_OPENING = re.compile(r'<(messages|request)((?: [a-z][a-z0-9_]*="[^"<>\n]*")*)>\n(?=\S+ [^:\n]*:)')
_ATTRIBUTE = re.compile(r'([a-z][a-z0-9_]*)="([^"]*)"')
_LINE = re.compile(r"(\S+) ([^:\[\]\n]*?)(?: \[([^\]\n]*)\])?:(?: (.*))?\Z", re.DOTALL)


def opening(trust: str, **attributes: str) -> str:
    """The line that opens a transcript of messages of this trust label."""
    rest = "".join(f' {name}="{escape_attribute(value)}"' for name, value in attributes.items())
    return f'<messages trust="{trust}"{rest}>\n'


def bare_text(text: str) -> str:
    """A text as it stands outside of every fence: cleaned, and nothing in it opens or closes one."""
    return _escape("\n".join(line.rstrip() for line in clean_text(text).strip().split("\n")))


def request_block(line: str, trust: str) -> str:
    """A message that is to be answered and that nobody vouches for, as a fenced block of one line."""
    return f'<request trust="{trust}">\n{line}</request>'


def message_line(ref: str, name: str, text: str, *, note: str = "") -> str:
    """A message as it stands in a transcript, line break included."""
    brackets = f" [{note}]" if note else ""
    return f"{ref} {clean_name(name)}{brackets}: {_escape(indent_text(text))}\n"


def parse_transcripts(text: str) -> Iterator[tuple[int, Fence]]:
    """Every message of every transcript of a prompt, and the request, each with where its block begins."""
    end = 0
    while match := _OPENING.search(text, end):
        end = text.find(f"</{match[1]}>", match.end())
        if end < 0:
            return
        attributes = {**dict(_ATTRIBUTE.findall(match[2])), "source": "message"}
        for lines in re.split(r"\n(?=\S)", text[match.end() : end].rstrip("\n")):
            if line := _LINE.match(lines):
                tag = "request" if match[1] == "request" else "data"
                more = {"ref": line[1], "author": line[2], "time": line[3] or ""}
                yield match.start(), Fence(tag, _unescape(line[4] or ""), {**attributes, **more})


def parse_blocks(text: str) -> list[Fence]:
    """Every fenced block of a prompt, in order, unescaped; each message of a transcript as a `data` of its own."""
    lines = list(parse_transcripts(text))
    transcripts = {start for start, _ in lines}
    others = [(start, block) for start, block in find_fences(text) if start not in transcripts]
    return [block for _, block in sorted([*others, *lines], key=lambda pair: pair[0])]


def indent_text(text: str) -> str:
    """The text, cleaned, with its lines after the first indented: nothing said can begin a line of its own."""
    lines = [line.rstrip() for line in clean_text(text).strip().split("\n")]
    return "\n".join([lines[0], *(f"{INDENT}{line}" if line else "" for line in lines[1:])])


def one_line(text: str) -> str:
    """The text, cleaned, on one line: what is said in a list, one thing a line, begins no further one."""
    return " ".join(clean_text(text).split())


def clean_name(name: str) -> str:
    """The name on one line, without secrets and without the signs that end it where a line says who spoke."""
    return one_line(_LINE_SIGNS.sub(" ", mask_secrets(clean_text(name)))) or "somebody"


def _escape(text: str) -> str:
    return escape_tags(escape_signs(text))


def message_text(line: str) -> str:
    """What a line made by `message_line` says, as it was written: without who said it, and when."""
    match = _LINE.match(line.strip("\n"))
    return _unescape(match[4] or "") if match else line


def _unescape(text: str) -> str:
    return unescape_text(text.replace(f"\n{INDENT}", "\n"))

"""What a summary is made from, as text: a line for each message, in the form that transcripts in prompts have. Pure.

    1226 Grad F [2026-03-04 10:42]: Should it be yellow?
      A second line of the same message.
    1227 Ana: No.

The time stands where more than an hour passed, what a tool answered and who is an agent where they are met first.
Lines after a message's first are indented and names hold no colon, so that nothing said can begin a line of its own.
Sizes are in tokens (o200k_base). Secrets are masked before anything else reads a text."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from memory.plugins.base import MAX_ENTRY_TOKENS
from openvibe.engines.llm.fences import clean_text, escape_signs, escape_tags, fence
from openvibe.engines.llm.tokens import count_tokens, counter_for, truncate_middle
from openvibe.engines.llm.transcripts import CLOSING, INDENT, clean_name, indent_text, opening
from openvibe.engines.text.masking import mask_secrets

PREVIEW_CHARACTERS = 300
"""The number of characters that are shown of a tool's arguments or answer."""

HEADER_TOKENS = 8
"""Tokens that a line's number and speaker usually take."""

MINUTE = "%Y-%m-%d %H:%M"
SILENCE = timedelta(hours=1)
"""The time after which it is said again."""

_SOUND = re.compile(
    r"[{<\[(]\s*(?:vocal ?sound|nonvocalsound|disfmarker|comment|gap|pause|laugh(?:s|ter|ing)?|noise|inaudible"
    r"|crosstalk|cough(?:s|ing)?|sigh(?:s|ing)?|breath|music|applause|silence|unintelligible|unverständlich|rires|risas|笑)\s*[}>\])]",
    re.IGNORECASE,
)
FILLERS: Final = frozenset(
    [
        "hmm",
        "hm",
        "mm",
        "mmm",
        "mhm",
        "uh",
        "um",
        "uhm",
        "er",
        "erm",
        "ah",
        "oh",
        "huh",
        "yeah",
        "yep",
        "yup",
        "okay",
        "ok",
        "right",
        "sure",
        "well",
        "alright",
        "like",
        "äh",
        "ähm",
        "öh",
        "tja",
        "euh",
        "ben",
        "bah",
        "eh",
        "pues",
        "bueno",
        "allora",
        "ehm",
        "nou",
        "ну",
        "эм",
    ]
)
"""Words that say nothing where they are all that is said."""

SUMMARY_NAME = "Summary"
LINE_HEADER = re.compile(r"(?m)^(?P<ref>\d+(?:–\d+)?) (?P<who>[^:\[\]\n]{1,160}?)(?: \[(?P<note>[^\]\n]{1,80})\])?: ")


class SourceMessage(NamedTuple):
    """One message that a summary is made from, as it is stored. `tokens` is the stored count of its whole text, `seq`
    its number in the thread."""

    at: datetime
    role: str
    speaker: str
    text: str
    tokens: int
    is_tool: bool = False
    seq: int = 1


class SourceSummary(NamedTuple):
    """A summary that a condensed one is made from."""

    earliest: datetime
    latest: datetime
    first: int
    last: int
    content: str
    tokens: int


@dataclass(frozen=True, slots=True)
class SummarySource:
    """What is summarised: lines for the model, how many tokens they say without their headers, and of how many
    messages."""

    text: str
    tokens: int
    messages: int = 0

    @property
    def block(self) -> str:
        """The lines as they stand in a prompt: nothing in them opens or closes a fence."""
        if LINE_HEADER.match(self.text):
            lines = escape_tags(escape_signs(self.text))
            return f"{opening('untrusted', source='conversation')}{lines}\n{CLOSING}"
        return fence("data", self.text, source="conversation", trust="untrusted")  # the second half of one message


class SourceLine(NamedTuple):
    """What one message says. `speaker` is "" where a summary does, or nobody is named; `ref` its number, or the first
    and last of those that a summary stands for."""

    speaker: str
    text: str
    ref: str = ""
    is_tool: bool = False


DETAILS_PREFIX = "Ask for details about "
_DETAILS_LINE = re.compile(rf"(?m)^{DETAILS_PREFIX}.*\n?")


def strip_details(summary: str) -> str:
    """A summary without the line that says what more there is to ask for."""
    return _DETAILS_LINE.sub("", summary).strip() or summary


def message_source(messages: Sequence[SourceMessage], *, chunk_tokens: int) -> SummarySource:
    """A line for each message. Tools as previews, long messages as head and tail, so that the whole stays within
    `chunk_tokens` tokens or so."""
    max_tokens = max(16, min(MAX_ENTRY_TOKENS, chunk_tokens // max(len(messages), 1) - HEADER_TOKENS))
    if sum(min(message.tokens, MAX_ENTRY_TOKENS) + HEADER_TOKENS for message in messages) <= chunk_tokens:
        max_tokens = MAX_ENTRY_TOKENS
    lines, tokens = [], 0
    told_at: datetime | None = None
    agents: set[str] = set()
    for message in messages:
        text, size = _preview(message, max_tokens)
        notes = []
        if message.is_tool:
            notes.append("tool")
        elif message.role == "assistant" and message.speaker not in agents:
            agents.add(message.speaker)
            notes.append("agent")
        if told_at is None or abs(message.at - told_at) >= SILENCE:
            told_at = message.at
            notes.append(f"{message.at:{MINUTE}}")
        note = f" [{', '.join(notes)}]" if notes else ""
        lines.append(f"{message.seq} {clean_name(message.speaker)}{note}: {indent_text(text)}")
        tokens += size
    return SummarySource("\n".join(lines), tokens, len(messages))


def summary_source(summaries: Sequence[SourceSummary]) -> SummarySource:
    """A line for each summary, numbered by the first and last message it stands for."""
    lines = [
        f"{one.first}–{one.last} {SUMMARY_NAME} [{one.earliest:{MINUTE}} – {one.latest:{MINUTE}}]: "
        + indent_text(strip_details(one.content))
        for one in summaries
    ]
    messages = sum(one.last - one.first + 1 for one in summaries)
    return SummarySource(mask_secrets("\n".join(lines)), sum(one.tokens for one in summaries), messages)


def parse_lines(source: str) -> Iterator[SourceLine]:
    """What each message of a source says; text without a header as lines of nobody's."""
    starts = list(LINE_HEADER.finditer(source))
    before = source[: starts[0].start()] if starts else source
    yield from (SourceLine("", line.strip()) for line in before.split("\n") if line.strip())
    for at, match in enumerate(starts):
        end = starts[at + 1].start() if at + 1 < len(starts) else len(source)
        text = source[match.end() : end].removesuffix("\n").replace(f"\n{INDENT}", "\n")
        is_tool = "tool" in (match["note"] or "")
        text = _SOUND.sub("", text).strip()
        yield SourceLine("" if "–" in match["ref"] else match["who"], text, match["ref"], is_tool)


def line_times(source: str) -> str:
    """All that the headers of a source say of times, for dates that are looked for in it."""
    return " ".join(match["note"] for match in LINE_HEADER.finditer(source) if match["note"])


def strip_headers(text: str) -> str:
    """What the lines of a source say, without who said it and when."""
    return " ".join(LINE_HEADER.sub("", text).split())


def _preview(message: SourceMessage, max_tokens: int) -> tuple[str, int]:
    """The text as the model sees it, and its tokens: never more than the stored count."""
    text = mask_secrets(clean_text(message.text)).strip()
    if message.is_tool and len(text) > PREVIEW_CHARACTERS:
        text = f"{text[:PREVIEW_CHARACTERS].rstrip()} […]"
    if text == message.text and message.tokens <= max_tokens:
        return text, message.tokens
    text = truncate_middle(text, max_tokens, counter_for("offline"), " […] ")
    return text, min(count_tokens(text), message.tokens)

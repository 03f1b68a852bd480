"""The words of an answer and what they rest on: passages that stand in what its run read, marked in both."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString

from agents.agent.models import Run
from agents.prompts.answer_sources import EXCERPT_CHARACTERS, SharedPassage, find_sources, shorten_end, shorten_start
from agents.prompts.comparison import prompt_order
from agents.prompts.descriptions import item_anchor
from agents.prompts.snapshots.redaction import ItemView, SnapshotView
from agents.web.prompt_items import written_text
from openvibe.chat.models import Message
from openvibe.engines.text.markdown import plain_text, render_markdown

UNQUOTED_SECTIONS = ("request", "tools", "policy")
MAX_MARKED_CHARACTERS = 20_000
"""Characters of a text, up to which passages are marked in it: each takes a rendering."""

_OPENINGS, _CLOSING = "\uf8a0\uf8a1\uf8a2\uf8a3\uf8a4\uf8a5\uf8a6\uf8a7", "\uf8a8"
"""Signs for private use, which stand for a passage's beginning and end while a text is rendered."""
_SIGN = re.compile(f"([{_OPENINGS}{_CLOSING}])")
_TAG = re.compile(r'(<(?:[^>"]|"[^"]*")*>)')


@dataclass(frozen=True)
class AnswerSource:
    """An item that the answer shares words with, and which; `number`: of its passages in the answer, from 1. `is_own`:
    an earlier message of the agent itself."""

    number: int
    item: ItemView
    passage: SharedPassage
    is_own: bool

    @property
    def anchor(self) -> str:
        return item_anchor(self.item.key)

    @property
    def excerpt(self) -> SafeString:
        """The passage with what stands around it, on one line and without Markdown signs."""
        text = written_text(self.item)
        if not self.passage.is_exact:
            return escape(shorten_end(plain_text(text), 2 * EXCERPT_CHARACTERS))
        at = text.find(self.passage.match)
        if at >= 0 and len(text) <= MAX_MARKED_CHARACTERS and not _SIGN.search(text):
            before, opening, rest = plain_text(_signed(text, [(at, at + len(self.passage.match), 0)])).partition(
                _OPENINGS[0]
            )
            match, closing, after = rest.partition(_CLOSING)
            if opening and closing:
                return _excerpt(before, match, after)
        return _excerpt("", plain_text(_unsigned(self.passage.match)), "")

    @property
    def html(self) -> SafeString:
        """All of the item's words, rendered, the passage marked."""
        text = written_text(self.item)
        at = text.find(self.passage.match) if self.passage.is_exact else -1
        return mark_passages(text, [(at, at + len(self.passage.match), 0)] if at >= 0 else [])


def _excerpt(before: str, match: str, after: str) -> SafeString:
    signed = f"{shorten_start(before)}{_OPENINGS[0]}{match}{_CLOSING}{shorten_end(after)}"
    return _mark_signed(escape(signed))


def answer_sources(run: Run, view: SnapshotView) -> list[AnswerSource]:
    """What of the prompt the answer's words come from, but for the question; nothing while there is no answer. What the
    agent said itself is the last. One query."""
    items = [
        item
        for item in prompt_order(item for section in view.sections for item in section.items)
        if item.section not in UNQUOTED_SECTIONS and not item.hidden
    ]
    messages = Message.objects.filter(pk__in=[item.message_id for item in items if item.message_id])
    own_ids = set(messages.filter(author=run.agent.participant_id).values_list("pk", flat=True))
    own = {place for place, item in enumerate(items) if item.message_id in own_ids}
    passages = find_sources(run.reply.body if run.reply else "", [written_text(item) for item in items], own)
    return [
        AnswerSource(number, items[passage.place], passage, passage.place in own)
        for number, passage in enumerate(passages, 1)
    ]


def mark_answer(body: str, sources: Iterable[AnswerSource]) -> SafeString:
    """The answer rendered, the passages of each source marked and numbered."""
    return mark_passages(body, [(*span, source.number) for source in sources for span in source.passage.spans])


def mark_passages(text: str, passages: Sequence[tuple[int, int, int]]) -> SafeString:
    """A text rendered, with `<mark>` around passages (begin, end, number) and their numbers behind them, none for 0. A
    passage whose marks would change how the text is read (inside an address) is left unmarked."""
    plain_html = render_markdown(text)
    if len(text) > MAX_MARKED_CHARACTERS or _SIGN.search(text):
        return SafeString(plain_html)
    html, chosen = plain_html, list[tuple[int, int, int]]()
    whole = render_markdown(_signed(text, passages))
    if _unsigned(whole) == plain_html:
        html = whole
    else:
        for passage in passages:
            tried = render_markdown(_signed(text, [*chosen, passage]))
            if _unsigned(tried) == plain_html:
                html, chosen = tried, [*chosen, passage]
    return _mark_signed(html)


def _signed(text: str, passages: Iterable[tuple[int, int, int]]) -> str:
    for begin, end, number in sorted(passages, reverse=True):
        opening = _OPENINGS[min(number, len(_OPENINGS) - 1)]
        text = f"{text[:begin]}{opening}{text[begin:end]}{_CLOSING}{text[end:]}"
    return text


def _unsigned(text: str) -> str:
    return _SIGN.sub("", text)


def _mark_signed(html: str) -> SafeString:
    """HTML with a `<mark>` around each piece of text between two signs, whatever tags stand between them."""
    parts: list[str] = []
    number: int | None = None
    links = 0
    for part in _TAG.split(html):
        if part.startswith("<"):
            links += part.startswith("<a ") - part.startswith("</a")
        for piece in _SIGN.split(part):
            if _SIGN.fullmatch(piece):
                if piece == _CLOSING and not part.startswith("<"):
                    parts.append(_number_link(number, is_in_link=links > 0))
                number = None if piece == _CLOSING else _OPENINGS.index(piece)
            else:
                is_marked = number is not None and not part.startswith("<") and piece.strip()
                parts.append(f"<mark>{piece}</mark>" if is_marked else piece)
    return SafeString("".join(parts))  # made of sanitised HTML


def _number_link(number: int | None, *, is_in_link: bool) -> str:
    """The way from a passage to its source below; no link inside of another one."""
    if not number:
        return ""
    if is_in_link:
        return f"<sup>{number}</sup>"
    return f'<sup><a data-layer href="#source-{number}" aria-label="Source {number}">{number}</a></sup>'

"""Items of a prompt as the context viewer shows them: their words as they were written, rendered, each with an address
of its own; the sections they make up, in words and with their share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.safestring import SafeString

from agents.prompts.answer_sources import unescaped_text
from agents.prompts.assembler.stack import STACK
from agents.prompts.comparison import prompt_order
from agents.prompts.descriptions import SECTION_TITLES, item_anchor
from agents.prompts.snapshots.origins import item_kind
from agents.prompts.snapshots.redaction import ItemView, SnapshotView
from openvibe.engines.text.markdown import render_markdown

TRUST_LABELS = {"trusted": "Trusted", "semi_trusted": "Semi-trusted", "untrusted": "Untrusted"}
FRAME_TITLE = "Signs around messages and quotes"
PLAIN_SECTIONS = frozenset(("tools", "files", "images", "request_images", "situation"))
PLAIN_KINDS = frozenset(("observation", "file", "piece", "image"))
"""Sections, and kinds of items, that hold no Markdown: definitions, fields, files and what tools answered."""


def written_text(item: ItemView) -> str:
    """What the item says, as it was written."""
    return unescaped_text(item.text, section=item.section, role=item.role, opening=item.opening)


@dataclass(frozen=True)
class ItemRow:
    """An item with its address on the page, which a hidden one has not, and its words: rendered, or `plain` as they
    stand."""

    item: ItemView

    @property
    def anchor(self) -> str:
        return "" if self.item.hidden else item_anchor(self.item.key)

    @property
    def is_plain(self) -> bool:
        return self.item.section in PLAIN_SECTIONS or item_kind(self.item.key) in PLAIN_KINDS

    @property
    def plain(self) -> str:
        return written_text(self.item)

    @property
    def html(self) -> SafeString:
        return SafeString(render_markdown(written_text(self.item)))  # sanitised

    @property
    def trust(self) -> str:
        return TRUST_LABELS.get(self.item.trust, self.item.trust)


@dataclass(frozen=True)
class SectionShare:
    """A section of a prompt: its tokens, its share of the whole in words, and its items in their order; none where the
    texts are gone. `trust` is empty where its items differ in it."""

    name: str
    title: str
    tokens: int
    share: str
    rows: tuple[ItemRow, ...] = ()
    trust: str = ""
    trust_title: str = ""


def share_in_words(part: int, whole: int) -> str:
    """62 % of 100; what is less than one percent is said to be that."""
    percent = 100 * part / max(whole, 1)
    return "under 1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def section_shares(view: SnapshotView) -> list[SectionShare]:
    """The sections, the largest first, and what stands around them: their tokens are those of the whole prompt."""
    total, rows_by_section = view.snapshot.tokens, _rows_by_section(view)
    sizes = _section_sizes(view, rows_by_section)
    shares = [
        SectionShare(
            name,
            SECTION_TITLES.get(name, name),  # type: ignore[call-overload]  # of an old prompt it may be any
            tokens,
            share_in_words(tokens, total),
            tuple(rows_by_section.get(name, ())),
            *_common_trust(rows_by_section.get(name, ())),
        )
        for name, tokens in sizes.items()
    ]
    shares.sort(key=lambda share: -share.tokens)
    frame = view.snapshot.layers.get("frame", 0)
    return [*shares, SectionShare("frame", FRAME_TITLE, frame, share_in_words(frame, total))] if frame else shares


def _rows_by_section(view: SnapshotView) -> dict[str, list[ItemRow]]:
    rows: dict[str, list[ItemRow]] = {}
    for item in prompt_order(item for section in view.sections for item in section.items):
        rows.setdefault(item.section, []).append(ItemRow(item))
    return rows


def _section_sizes(view: SnapshotView, rows: Mapping[str, Iterable[ItemRow]]) -> dict[str, int]:
    """Tokens by section, of the items as far as there are any; what an old prompt did not store is not known."""
    if rows:
        return {name: sum(row.item.tokens for row in own) for name, own in rows.items()}
    return {name: tokens for name, tokens in view.snapshot.sections.items() if tokens}


def _common_trust(rows: Iterable[ItemRow]) -> tuple[str, str]:
    labels = {row.item.trust for row in rows}
    label = labels.pop() if len(labels) == 1 else ""
    return label, TRUST_LABELS.get(label, label)


@dataclass(frozen=True)
class LayerRow:
    """A layer of the priority stack that holds something: its tokens, and its sections by name and title."""

    key: str
    title: str
    tokens: int
    sections: tuple[tuple[str, str], ...]


def layer_rows(view: SnapshotView) -> list[LayerRow]:
    """The layers that hold something, with their tokens as the snapshot has them."""
    rows = []
    for layer in STACK:
        tokens = int(view.snapshot.layers.get(layer.name, 0))
        names = dict.fromkeys(section.section for section in view.sections if section.layer == layer.name)
        sections = tuple((name, SECTION_TITLES.get(name, name)) for name in names)  # type: ignore[call-overload]
        if tokens or sections:
            rows.append(LayerRow(layer.name, layer.title[:1].upper() + layer.title[1:], tokens, sections))
    return rows

"""Chips: what a message cites, and the places that it names, as links that say what they lead to.

Only what the reader may see is one; all else is the text that was written. They are read once for all messages of a
page, and stand in `extras`, by which the HTML of a message is kept: no reader is given another's."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from django.utils.safestring import SafeString

from openvibe.chat.models import Message
from openvibe.chat.queries import CHANNEL_NAME, PlaceTitle, parse_address, read_citations, read_place_titles
from openvibe.chat.wiring import Citation
from openvibe.engines.text.html_links import WordLink, link_matches, link_words, title_links
from openvibe.workspaces.access import Access


def read_chips(messages: Sequence[Message], access: Access) -> dict[int, dict[str, object]]:
    """`citations` and `places` of the messages that have some, by message id. Three queries at most, none without."""
    chips: dict[int, dict[str, object]] = {}
    shown = [message for message in messages if not message.is_deleted and message.state != Message.State.WRITING]
    for message_id, citations in read_citations(shown, access).items():
        chips.setdefault(message_id, {})["citations"] = citations
    for message_id, places in read_place_titles(shown, access).items():
        chips.setdefault(message_id, {})["places"] = places
    return chips


def with_chips(html: SafeString, extras: Mapping[str, object], slug: str) -> SafeString:
    """The HTML of a message with its chips; that of one without any as it is."""
    citations = cast(Sequence[Citation], extras.get("citations", ()))
    links = [_citation_link(citation) for citation in citations if citation.words]
    return SafeString(link_words(with_places(html, extras, slug), links))  # what is put in is escaped


def with_places(html: SafeString, extras: Mapping[str, object], slug: str) -> SafeString:
    """The HTML of a message, or of a part of it, with the places that it names as links."""
    places = cast(Sequence[PlaceTitle], extras.get("places", ()))
    return SafeString(_link_places(str(html), places, slug)) if places else html  # the same


def _citation_link(citation: Citation) -> WordLink:
    words = citation.words
    is_bracketed = words.startswith("[") and words.endswith("]")
    return WordLink(words, citation.occurrence, _citation_attributes(citation), words[1:-1] if is_bracketed else "")


def _citation_attributes(citation: Citation) -> tuple[tuple[str, str], ...]:
    """The link of a citation: into the prompt of its answer, or to the thing itself where no prompt holds it any
    more."""
    return (
        ("href", citation.address),
        ("class", "place-chip cite"),
        ("data-reference", citation.reference),
        *((("data-panel", ""),) if citation.opens_panel else ()),
        ("dir", "auto"),
    )


@dataclass(frozen=True)
class UsedSource:
    """A source that an answer repeats without naming it. `opens_panel`: whether it is shown beside the page."""

    label: str
    author: str
    href: str
    reference: str
    opens_panel: bool


def used_sources(extras: Mapping[str, object]) -> tuple[UsedSource, ...]:
    """The sources that stand numbered under an answer, in order."""
    citations = cast(Sequence[Citation], extras.get("citations", ()))
    return tuple(
        UsedSource(one.label, one.author, one.address, one.reference, one.opens_panel)
        for one in citations
        if not one.words
    )


def _link_places(markup: str, places: Sequence[PlaceTitle], slug: str) -> str:
    home = f"/w/{slug}/"
    by_place = {one.place: one for one in places}
    by_channel = {one.place.name: one for one in places if one.place.kind == "channel"}

    def find_place(address: str) -> tuple[str, str] | None:
        place = parse_address(address, slug)
        title = by_place.get(place) if place is not None else None
        return (home + title.path, title.title) if title is not None else None

    def channel_link(match: re.Match[str]) -> tuple[tuple[str, str], ...] | None:
        channel = by_channel.get(match[1])
        return (("href", home + channel.path), ("class", "place-chip")) if channel is not None else None

    markup = title_links(markup, find_place)
    return link_matches(markup, CHANNEL_NAME, channel_link) if by_channel else markup

"""The quotes of a message: other texts that repeat it, as their reader may see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from openvibe.base.problems import Missing
from openvibe.base.quotation import Quotation
from openvibe.chat.models import AccessQuery, Erasure, Message, Quote
from openvibe.chat.queries.conversations import access_message
from openvibe.chat.wiring import QUOTE_KINDS, InboxNote, QuotePlace, find_quotes, message_texts
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace


@dataclass(frozen=True)
class QuoteView:
    """A text that repeats a message, as its reader may see it. `is_own`: it is the reader's; `may_keep`: she may say
    that it stays, which admins may of what agents wrote."""

    quote: Quote
    label: str
    place: QuotePlace
    is_own: bool
    may_keep: bool


@dataclass(frozen=True)
class MessageQuotes:
    """The places where a message's words stand, as far as the reader may see. `erasure`: of a deleted one, how far it
    is. `has_own_only`: she sees nothing once no text of hers is left; others see that there is none."""

    message: Message
    quotes: tuple[QuoteView, ...]
    erasure: Erasure | None
    has_own_only: bool = False


def access_quotes(access: Access, message_id: int) -> MessageQuotes:
    """The quotes of a message: who may delete a message sees, before and after that, where its words stand; others
    their own texts that repeat a deleted one. Raises Missing for all others. Some queries for each kind of text."""
    message = access_message(access, message_id)
    erasure = message.erasures.filter(is_deletion=True).defer("texts").first()
    is_in_charge = access.administers or access.participant_id == message.author_id
    if erasure is None:
        if message.is_deleted or not is_in_charge:
            raise Missing
        quotation = Quotation(message_texts(message))
        return MessageQuotes(message, _quote_views(access, find_quotes(message, quotation)), None)
    quotes = list(message.quotes.select_related("owner"))
    if erasure.finished_at is None:
        stored = {(quote.kind, quote.ref) for quote in quotes}
        new_quotes = find_quotes(message, erasure.quotation())
        quotes += [quote for quote in new_quotes if (quote.kind, quote.ref) not in stored]
    views = _quote_views(access, quotes)
    has_own_only = not is_in_charge and access.participant_id != erasure.by_id
    if has_own_only:
        views = tuple(view for view in views if view.is_own)
        if not views:
            raise Missing
    return MessageQuotes(message, views, erasure, has_own_only)


def _quote_views(access: Access, quotes: Sequence[Quote]) -> tuple[QuoteView, ...]:
    """Those of the texts that the reader may see, by kind."""
    slug = Workspace.objects.values_list("slug", flat=True).get(pk=access.workspace_id)
    views: list[QuoteView] = []
    for kind in QUOTE_KINDS:
        of_kind = [quote for quote in quotes if quote.kind == kind.name]
        places = kind.places(access, [quote.ref for quote in of_kind], slug) if of_kind else {}
        views += [
            QuoteView(
                quote,
                kind.label,
                places[quote.ref],
                is_own=quote.owner_id == access.participant_id,
                may_keep=quote.pk is not None and quote.kept_at is None and _may_keep(quote, access),
            )
            for quote in of_kind
            if quote.ref in places
        ]
    return tuple(views)


def _may_keep(quote: Quote, access: Access) -> bool:
    is_nobodys = quote.owner is None or quote.owner.is_agent
    return quote.owner_id == access.participant_id or (access.administers and is_nobodys)


MAX_QUOTE_NOTES = 20
"""Notes of the inbox about texts that repeat deleted messages."""


def quote_notes(access: Access) -> list[InboxNote]:
    """What the reader wrote, for admins also what agents did, that repeats a message somebody else deleted."""
    rows: list[Quote] = _quotes_to_settle.objects(access)
    if not rows:
        return []
    slug = Workspace.objects.values_list("slug", flat=True).get(pk=access.workspace_id)
    return [
        InboxNote(
            href=reverse("message-quotes", args=[slug, view.quote.message_id]),
            text=f"{view.place.title} says what stood in a message that was deleted. Delete it there too, or keep it.",
            at=view.quote.created_at,
        )
        for view in _quote_views(access, rows)
    ]


@AccessQuery
def _quotes_to_settle(access: Access) -> QuerySet[Quote]:
    """The newest that somebody has to decide on."""
    is_addressed = Q(owner=access.participant_id)
    if access.administers:
        is_addressed |= Q(owner__kind=Participant.Kind.AGENT, message__thread__workspace=access.workspace_id)
    by_reader = Erasure.objects.filter(message=OuterRef("message"), is_deletion=True, by=access.participant_id)
    visible_messages = Message.objects.visible_to(access).order_by().values("pk")
    quotes = Quote.objects.filter(~Exists(by_reader), is_addressed, kept_at=None, message__in=visible_messages)
    return quotes.select_related("owner").order_by("-id")[:MAX_QUOTE_NOTES]

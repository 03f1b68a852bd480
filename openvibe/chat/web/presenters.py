"""Messages as a page shows them: rows, groups, dive chips, result cards, and their HTML.

A page shows fifty messages and most were shown before, so what was rendered is cached."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from django.conf import settings
from django.db.models import QuerySet
from django.forms.models import model_to_dict
from django.template import Library
from django.template.defaultfilters import filesizeformat, pluralize
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from openvibe.base.params import int_param
from openvibe.chat.images import is_called_image
from openvibe.chat.models import MAX_THUMBNAIL_SIDE, Attachment, Dive, DiveResult, Message, Thread
from openvibe.chat.queries import message_page, page_word
from openvibe.chat.web.chips import UsedSource, read_chips, used_sources, with_chips, with_places
from openvibe.chat.wiring import MESSAGE_DECORATORS
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal
from openvibe.engines.llm.offline.drafts import ResultDraft, parse_draft, render_draft
from openvibe.engines.serving.fragments import cached_html, render_cached, typed_key, with_csrf_token
from openvibe.engines.text.markdown import render_growing, render_markdown
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest
from openvibe.workspaces.models import IMPORTED_KINDS, Workspace

register = Library()
"""Tags of templates that `{% load conversation %}`."""


_MENTION = re.compile(r'<span class="mention">(@([A-Za-z0-9_-]+))</span>')


@register.filter
def link_mentions(html: SafeString, slug: str) -> SafeString:
    """The HTML of a message, in which each mention leads to the card of who is named."""
    if 'class="mention"' not in html:
        return html
    return SafeString(_MENTION.sub(lambda match: _mention_link(match[1], match[2].lower(), slug), html))


def _mention_link(words: str, handle: str, slug: str) -> str:
    return format_html('<a class="mention" href="{}" data-card>{}</a>', reverse("person", args=[slug, handle]), words)


@register.simple_tag
def max_file_bytes() -> int:
    """Bytes that one file of a message may have, other than an image."""
    return int(settings.MAX_FILE_BYTES)


@dataclass(frozen=True)
class DiveChip:
    """One dive on the message it started from."""

    pk: int
    agent: str
    state: str
    state_label: str


@dataclass(frozen=True)
class ResultCard:
    """The card of a result. Its full text is fetched when somebody asks for it: it may have 100,000 characters.

    `full` is empty but in previews, `has_full` tells whether there is one, of `full_tokens` tokens.
    """

    headline: str
    bullets: tuple[SafeString, ...]
    deferred: tuple[SafeString, ...]
    questions: tuple[SafeString, ...]
    has_full: bool
    full_tokens: int = 0
    full: str = ""
    starter: str = ""
    agent: str = ""
    dive_id: int | None = None


@dataclass(frozen=True)
class ReactionChip:
    """An emoji on a message. `names` is a sentence's subject; `code` names it in the page: it is plain ASCII."""

    emoji: str
    count: int
    names: str
    is_own: bool

    @property
    def code(self) -> str:
        return "-".join(f"{ord(point):x}" for point in self.emoji)


def reaction_chips(message: Message, participant_id: int) -> tuple[ReactionChip, ...]:
    """The emoji of a message that was read with them, as this participant sees them. No query."""
    return tuple(
        ReactionChip(
            row["emoji"],
            count=len(row["people"]),
            names=_names_words(row["names"], len(row["people"])),
            is_own=participant_id in row["people"],
        )
        for row in message.reacted
    )


def _names_words(names: Sequence[str], count: int) -> str:
    """ "Ana", "Ana and Ben", "Ana, Ben and 3 others"."""
    others = count - len(names)
    parts = [*names, f"{others} other{pluralize(others)}"] if others else list(names)
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def reacted_by(message: Message, participant_id: int) -> bool:
    """Whether one of the emoji of a message that was read with them is this participant's. No query."""
    return any(participant_id in row["people"] for row in message.reacted)


@dataclass(frozen=True)
class FileChip:
    """A file of a message; `facts` in words: what it is, how large, what it costs. `problem` says why agents cannot
    read it, or all of it. `width` and `height` of its preview in pixels, 0 for none."""

    pk: int
    name: str
    facts: tuple[str, ...]
    problem: str = ""
    width: int = 0
    height: int = 0


SHOWN_PREVIEW_SIDE = 160
"""Pixels of the longer side of a file's first page beside its message."""

NO_IMAGE_NOTE = "text, shown as no image"
"""The note of a text that is called as images are."""


@dataclass(frozen=True)
class ImageThumbnail:
    """An image of a message; `width` and `height` in pixels of its thumbnail. `may_describe`: by the reader."""

    pk: int
    name: str
    description: str
    width: int
    height: int
    may_describe: bool


def file_chips(message: Message) -> tuple[FileChip, ...]:
    """The files of a message that was read with them. No query."""
    return tuple(
        FileChip(
            row["id"],
            row["name"],
            _facts(row),
            row["problem"],
            *_scaled(row["preview_width"], row["preview_height"], SHOWN_PREVIEW_SIDE),
        )
        for row in message.attached
    )


def file_facts(file: Attachment, size: int) -> tuple[str, ...]:
    """The facts of a file of `size` bytes, in words."""
    return _facts({**model_to_dict(file, ["name", "format", "page_count", "token_count"]), "file_size": size})


def _facts(row: Mapping[str, Any]) -> tuple[str, ...]:
    form, pages = row["format"], row["page_count"]
    facts = (
        "" if form == Attachment.Format.TEXT else str(Attachment.Format(form).label),
        filesizeformat(row["file_size"]),
        f"{pages:,} {page_word(form)}{pluralize(pages)}" if pages is not None else "",
        _token_words(row["token_count"]) if row["token_count"] else "",
        NO_IMAGE_NOTE if form == Attachment.Format.TEXT and is_called_image(row["name"]) else "",
    )
    return tuple(filter(None, facts))


def _scaled(width: int, height: int, most: int) -> tuple[int, int]:
    """Width and height of a picture once its longer side is at most so long; zeros for none."""
    scale = min(1.0, most / max(width, height, 1))
    return (max(int(width * scale), 1), max(int(height * scale), 1)) if width and height else (0, 0)


def image_thumbnails(message: Message, *, is_mine: bool) -> tuple[ImageThumbnail, ...]:
    """The images of a message that was read with them. No query."""
    return tuple(
        ImageThumbnail(
            row["id"],
            row["name"],
            row["description"],
            *_scaled(row["width"], row["height"], MAX_THUMBNAIL_SIDE),
            may_describe=is_mine,
        )
        for row in message.pictured
    )


def _token_words(count: int) -> str:
    return f"{count:,} token{pluralize(count)}"


def dive_chips(messages: Sequence[Message]) -> dict[int, tuple[DiveChip, ...]]:
    """The dives of each message, oldest first. One query; who sees a message sees its dives."""
    chips: dict[int, tuple[DiveChip, ...]] = {}
    for pk, source, state, agent in _dives_from.rows(array_literal(message.id for message in messages)):
        chip = DiveChip(pk, agent, state, Dive.State(state).label.lower())
        chips[source] = (*chips.get(source, ()), chip)
    return chips


@CompiledQuery
def _dives_from(ids: int) -> QuerySet[Any, Any]:
    dives = Dive.objects.filter(source__id__any_of=ids).order_by("id")
    return dives.values_list("pk", "source_id", "state", "agent__label")


def result_cards(messages: Sequence[Message]) -> dict[int, ResultCard]:
    """The cards of those messages that are results and not deleted. One query, none without any."""
    ids = [m.pk for m in messages if m.kind == Message.Kind.DIVE_RESULT and not m.is_deleted]
    if not ids:
        return {}
    rows = DiveResult.objects.filter(message__in=ids).defer("full").select_related("agent")
    return {
        row.message_id: ResultCard(
            **_rendered_parts(row),
            has_full=row.full_tokens > 0,
            full_tokens=row.full_tokens,
            starter=row.dive.started_by.label if row.dive else "",
            agent=row.agent.label,
            dive_id=row.dive_id,
        )
        for row in rows.select_related("dive__started_by")
    }


def preview_card(draft: ResultDraft) -> ResultCard:
    """The card as it would be published."""
    return ResultCard(**_rendered_parts(draft), has_full=bool(draft.full.strip()), full=render_safe_html(draft.full))


def _rendered_parts(result: DiveResult | ResultDraft) -> dict[str, Any]:
    lists = {name: getattr(result, name) for name in ("bullets", "deferred", "questions")}
    return {"headline": result.headline, **{name: tuple(map(render_safe_html, lists[name])) for name in lists}}


def render_safe_html(text: str, handles: frozenset[str] = frozenset(), *, anchor: str = "") -> SafeString:
    return SafeString(render_markdown(text, handles=handles, anchor=anchor))  # its HTML is sanitised


GROUPING_INTERVAL = timedelta(minutes=5)
NO_HANDLES = frozenset[str]()


@dataclass(frozen=True)
class MessageRow:
    """One message on the page. `starts_day`, `starts_group` and `shows_origin` follow from the message ahead of it.

    `shows_origin`: whether it says that it was imported, once for all that follow it on the same day.
    """

    message: Message
    html: SafeString
    extras: dict[str, object]
    starts_group: bool
    starts_day: bool
    shows_origin: bool
    is_first_new: bool
    is_mine: bool
    mentions_me: bool
    may_edit: bool
    may_delete: bool
    may_trace: bool
    notes: tuple[str, ...]
    dives: tuple[DiveChip, ...]
    result: ResultCard | None
    files: tuple[FileChip, ...]
    images: tuple[ImageThumbnail, ...]
    reactions: tuple[ReactionChip, ...]
    is_saved: bool
    used_sources: tuple[UsedSource, ...]


def decorate_messages(messages: Sequence[Message], access: Access) -> dict[int, dict[str, object]]:
    """The values that upper floors show on each message, merged and frozen. A constant number of queries."""
    extras_by_message: dict[int, dict[str, object]] = {message.id: {} for message in messages}
    for decorator in MESSAGE_DECORATORS:
        for message_id, values in decorator(messages, access).items():
            extras_by_message.setdefault(message_id, {}).update(values)
    for message_id, values in read_chips(messages, access).items():
        extras_by_message.setdefault(message_id, {}).update(values)
    return extras_by_message


class ListedMessage(NamedTuple):
    """A message of a page and what its row is made of. `previous` is the message just ahead of it."""

    message: Message
    previous: Message | None
    extras: dict[str, object]
    dives: tuple[DiveChip, ...]
    result: ResultCard | None
    is_first_new: bool = False


def list_page_messages(
    messages: Sequence[Message], access: Access, *, before: Message | None = None, read_seq: int | None = None
) -> list[ListedMessage]:
    """Returns the messages in order. `before` is the message just ahead of the first; `read_seq` places the "New" line,
    never above a reply that is being written: who opens the page sees it grow."""
    extras, dives, results = decorate_messages(messages, access), dive_chips(messages), result_cards(messages)
    new_seq = read_seq + 1 if read_seq else None
    for message in messages:
        if message.seq == new_seq and message.state == Message.State.WRITING:
            new_seq += 1
    return [
        ListedMessage(
            message,
            previous,
            extras[message.id],
            dives.get(message.id, ()),
            results.get(message.id),
            is_first_new=message.seq == new_seq,
        )
        for message, previous in zip(messages, (before, *messages), strict=False)
    ]


def message_row(row: ListedMessage, access: Access, slug: str) -> MessageRow:
    """One row, for one reader; no query. `slug`: of the workspace."""
    message, previous = row.message, row.previous
    mentions = message.mentioned
    is_mine = message.author_id == access.participant_id
    is_writing = message.state == Message.State.WRITING
    starts_day = previous is None or not _is_same_day(previous.created_at, message.created_at)
    writable = not message.is_deleted and not is_writing
    handles = frozenset(mention["handle"] for mention in mentions) if mentions else NO_HANDLES
    return MessageRow(
        message=message,
        html=render_unfinished(message.body)
        if is_writing
        else with_chips(render_safe_html(_readable_body(message), handles, anchor=f"m{message.pk}"), row.extras, slug),
        extras=row.extras,
        starts_group=starts_day or row.is_first_new or not _continues_group(message, previous),
        starts_day=starts_day,
        shows_origin=_is_imported(message) and (starts_day or previous is None or not _is_imported(previous)),
        is_first_new=row.is_first_new,
        is_mine=is_mine,
        mentions_me=access.participant_id in [mention["participant_id"] for mention in mentions],
        may_edit=is_mine and writable and message.kind == Message.Kind.TEXT,
        may_delete=writable and (is_mine or access.administers),
        may_trace=message.is_deleted and (is_mine or access.administers),
        notes=tuple([mention["note"] for mention in mentions if mention["note"]]),
        dives=row.dives,
        result=_result_with_places(row, slug),
        files=file_chips(message),
        images=image_thumbnails(message, is_mine=is_mine),
        reactions=reaction_chips(message, access.participant_id),
        is_saved=access.participant_id in message.savers,
        used_sources=used_sources(row.extras),
    )


def _result_with_places(row: ListedMessage, slug: str) -> ResultCard | None:
    card = row.result
    if card is None or "places" not in row.extras:
        return card

    def linked(parts: tuple[SafeString, ...]) -> tuple[SafeString, ...]:
        return tuple(with_places(part, row.extras, slug) for part in parts)

    return replace(card, bullets=linked(card.bullets), deferred=linked(card.deferred), questions=linked(card.questions))


def _is_imported(message: Message) -> bool:
    return message.author.kind in IMPORTED_KINDS


def _readable_body(message: Message) -> str:
    """The text; a result that an agent drafted in JSON as the form takes it from there: headline, points, full text."""
    if not (message.author.is_agent and JSON_START.match(message.body)):
        return message.body
    draft = parse_draft(message.body)
    return message.body if draft is None else render_draft(draft)


JSON_START = re.compile(r"\s*(```(json)?\s*)?\{")


def is_draft_start(body: str) -> bool:
    """Whether a reply that is being written begins as a draft in JSON does: for the form, not for people."""
    return JSON_START.match(body) is not None


def render_unfinished(body: str) -> SafeString:
    """A reply that is being written: finished blocks as they will stay, and the last one in an element of its own, as
    far as it goes."""
    growing = render_growing(body)
    draft = " is-draft" if is_draft_start(body) else ""
    return SafeString(f'{growing.done}<div class="tail{draft}">{growing.tail}</div>')  # its HTML is sanitised


def _is_same_day(one: datetime, other: datetime) -> bool:
    """Whether both are on the same day of the reader."""
    zone = timezone.get_current_timezone()
    return one.astimezone(zone).date() == other.astimezone(zone).date()


def _continues_group(message: Message, before: Message | None) -> bool:
    return (
        before is not None
        and before.state != Message.State.REPLACED  # a page shows the later answer in its place
        and before.author_id == message.author_id
        and before.kind == message.kind == Message.Kind.TEXT
        and timedelta(0) <= message.created_at - before.created_at < GROUPING_INTERVAL
    )


class PageReader(Protocol):
    """The parts of a request that the HTML of a message depends on."""

    @property
    def access(self) -> Access: ...
    @property
    def workspace(self) -> Workspace: ...


def render_message(row: ListedMessage, *, thread: Thread, request: PageReader, csrf_token: str) -> SafeString:
    """`chat/_message.html` for one message. Only the asker's token differs between two that show the same."""
    return _render_messages([row], thread, request, csrf_token)


@register.simple_tag(takes_context=True)
def messages(context: dict[str, Any], rows: Sequence[ListedMessage]) -> SafeString:
    """`{% messages rows %}`: these messages, of the `thread` of the page."""
    return _render_messages(rows, context["thread"], context["request"], context["csrf_token"])


def _render_messages(
    rows: Sequence[ListedMessage], thread: Thread, request: PageReader, csrf_token: object
) -> SafeString:
    page_key, html = _page_key(thread, request), []
    for row in rows:
        key = (page_key, *_message_key(row, request.access.participant_id))
        piece = cached_html(key)
        if piece is None:
            context = {
                "row": message_row(row, request.access, request.workspace.slug),
                "thread": thread,
                "request": request,
            }
            keep = row.message.state != Message.State.WRITING
            piece = render_cached(key, "chat/_message.html", context, keep=keep)
        html.append(piece)
    return with_csrf_token("".join(html), csrf_token)


# Everything the row and the template of a message and the fragments in it read: what is added there is added here. By
# hand, since the template asks model rows and the request: `render_fragment` is for plain values.


def _page_key(thread: Thread, request: PageReader) -> tuple[object, ...]:
    access, zone = request.access, timezone.get_current_timezone_name()
    return request.workspace.slug, access.is_guest, access.administers, zone, thread.pk, thread.parent_id


_columns_of = attrgetter(*("id", "seq", "kind", "state", "body", "client_id", "created_at", "edited_at", "deleted_at"))
_author_columns_of = attrgetter("id", "name", "label", "handle", "kind", "picture_version")
_columns_ahead_of = attrgetter("author_id", "kind", "state", "created_at", "author.kind")


def _message_key(row: ListedMessage, participant_id: int) -> tuple[object, ...]:
    message, previous, extras, *others = row
    author = message.author
    return (
        message.author_id == participant_id,
        _columns_of(message),
        _author_columns_of(author),
        author.agent.level if author.is_agent else None,
        _columns_ahead_of(previous) if previous is not None else None,
        *_marks_key(message, participant_id),
        *extras,
        typed_key((*others, *extras.values())),
    )


def _marks_key(message: Message, participant_id: int) -> tuple[object, ...]:
    """A key of what a message names, its files and images, its emoji and who saved it, as this participant sees them;
    most have none."""
    mentions, reactions, attachments = message.mentioned, message.reacted, (*message.attached, *message.pictured)
    if not (mentions or reactions or attachments or message.savers):
        return ()
    is_named = any(row["participant_id"] == participant_id for row in mentions)
    own_emoji = tuple(participant_id in row["people"] for row in reactions)
    personal_key = (is_named, participant_id in message.savers, own_emoji)
    return (*personal_key, repr(mentions), repr(reactions), repr(attachments))


PAGE_SIZE = 50
"""Messages."""


def message_page_context(request: WorkspaceRequest, thread: Thread) -> dict[str, Any]:
    """The context of `chat/_messages.html`: `?at=`, `?before_seq=`, `?after_seq=` choose messages, else the newest.

    With `?live` no "New" line is drawn, nor in a thread that was loaded without `read_seq`.
    """
    bounds = {name: int_param(request.GET, name) for name in ("before_seq", "after_seq")}
    page = message_page(thread, request.access, around_seq=int_param(request.GET, "at"), size=PAGE_SIZE, **bounds)
    read_seq = None if "live" in request.GET else getattr(thread, "read_seq", None)
    rows = list_page_messages(page.rows, request.access, before=page.before, read_seq=read_seq)
    return {
        "rows": rows,
        "first_seq": rows[0].message.seq if rows else 0,
        "last_seq": rows[-1].message.seq if rows else 0,
        "has_older": page.before is not None,
        "has_newer": page.has_newer,
    }

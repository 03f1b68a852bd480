"""Messages, titles, instructions and files that repeat a message: what chat itself adds to the places where its words
may still stand."""

from collections.abc import Iterator, Mapping, Sequence

from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.urls import reverse

from openvibe.base.problems import Missing
from openvibe.base.quotation import Quotation
from openvibe.chat.models import Attachment, Channel, Image, Message, Thread
from openvibe.chat.services.messages import delete_message, describe_image
from openvibe.chat.services.permissions import may_manage_channel, may_manage_thread
from openvibe.chat.wiring import MAX_FILE_CHARACTERS, QUOTE_KINDS, QuoteKind, QuotePlace, QuotingText
from openvibe.engines.search.lexeme_fields import matches_tsquery
from openvibe.engines.search.lexemes import phrase_term
from openvibe.engines.text.tokenizer import tokenize
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Snippet, Workspace

MAX_NEAR_MESSAGES = 20_000
"""Messages of the same thread and its dives that are read whole, the newest first."""

FRAGMENTS_A_QUERY, MAX_HITS_A_QUERY = 100, 500
"""Fragments asked for in one text search of the workspace, and messages looked at of what it finds."""

MAX_FILES = 200
"""Files of the workspace that are read, the newest first."""


def _quoting_messages(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    """Those of the same thread and of its dives are read; in the rest of the workspace the text index is asked."""
    thread = message.thread
    root = thread.parent_id or thread.pk
    since = quotation.since(message.created_at)
    is_later = Q(created_at__gte=since) | Q(edited_at__gte=since)
    later = Message.objects.filter(is_later, deleted_at=None).exclude(pk=message.pk)
    near_messages = later.filter(Q(thread=root) | Q(thread__parent=root))
    yield from _as_texts(near_messages.order_by("-id")[:MAX_NEAR_MESSAGES])
    far = later.filter(thread__workspace=thread.workspace_id).exclude(Q(thread=root) | Q(thread__parent=root))
    fragments = [*quotation.fragments(), *quotation.written_values()]
    for start in range(0, len(fragments), FRAGMENTS_A_QUERY):
        matches = Q()
        for fragment in fragments[start : start + FRAGMENTS_A_QUERY]:
            if tokens := list(tokenize(fragment)):
                matches |= Q(matches_tsquery("search", phrase_term(tokens).tsquery()))
        if matches:
            yield from _as_texts(far.filter(matches).order_by("-id")[:MAX_HITS_A_QUERY])


def _as_texts(messages: QuerySet[Message]) -> Iterator[QuotingText]:
    """The text of a result is its message's, and the full one."""
    rows = messages.values_list("pk", "body", "author_id", "dive_result__full")
    return (QuotingText(pk, f"{body}\n\n{full or ''}", author) for pk, body, author, full in rows.iterator(500))


def _message_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    rows = Message.objects.visible_to(access).filter(pk__in=refs, deleted_at=None)
    return {
        row.pk: QuotePlace(
            title=f"{row.author.label}, message {row.seq} in “{row.thread.title}”",
            href=reverse("message", args=[slug, row.pk]),
            may_delete=_may_delete(row, access),
            advice="It is still being written." if row.state == Message.State.WRITING else "",
        )
        for row in rows.select_related("author", "thread")
    }


def _may_delete(message: Message, access: Access) -> bool:
    is_own = message.author_id == access.participant_id
    return (is_own or access.administers) and message.state != Message.State.WRITING


def _delete_quoting_message(ref: int, by: Access) -> None:
    message = Message.objects.visible_to(by).filter(pk=ref).first()
    if message is None:
        raise Missing
    delete_message(message=message, by=by)


def _quoting_titles(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    since = quotation.since(message.created_at)
    threads = Thread.objects.filter(workspace=message.thread.workspace_id, updated_at__gte=since)
    return (QuotingText(*row) for row in threads.values_list("pk", "title", "created_by_id").iterator(500))


def _title_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    rows = Thread.objects.visible_to(access).filter(pk__in=refs)
    return {
        row.pk: QuotePlace(
            title=f"The title of “{row.title}”",
            href=reverse("thread", args=[slug, row.pk]),
            may_delete=False,
            advice="Rename the thread." if may_manage_thread(row, access) else "Whoever runs the thread can rename it.",
        )
        for row in rows
    }


def _refuse_title(ref: int, by: Access) -> None:
    raise Missing("A title is not deleted: rename the thread.")


def _quoting_channels(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    """What they are for, and their instructions for agents."""
    since = quotation.since(message.created_at)
    channels = Channel.objects.filter(workspace=message.thread.workspace_id, updated_at__gte=since)
    rows = channels.values_list("pk", "description", "instructions", "created_by_id")
    return (QuotingText(pk, f"{words}\n\n{rules}", owner) for pk, words, rules, owner in rows.iterator(500))


def _channel_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    rows = Channel.objects.visible_to(access).filter(pk__in=refs)
    return {
        row.pk: QuotePlace(
            title=f"Channel #{row.name}: what it is for, or its instructions for agents",
            href=reverse("channel", args=[slug, row.pk]),
            may_delete=False,
            advice="Change them."
            if may_manage_channel(row, access)
            else "Whoever manages the channel can change them.",
        )
        for row in rows
    }


def _quoting_instructions(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    """Those of threads, which only admins write."""
    since = quotation.since(message.created_at)
    threads = Thread.objects.filter(workspace=message.thread.workspace_id, updated_at__gte=since)
    rows = threads.exclude(instructions="").values_list("pk", "instructions")
    return (QuotingText(pk, text, None) for pk, text in rows.iterator(500))


def _instruction_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    rows = Thread.objects.visible_to(access).filter(pk__in=refs)
    return {
        row.pk: QuotePlace(
            title=f"Instructions for agents in “{row.title}”",
            href=reverse("thread", args=[slug, row.pk]),
            may_delete=False,
            advice="Change them." if access.administers else "An admin can change them.",
        )
        for row in rows
    }


def _refuse_change(ref: int, by: Access) -> None:
    raise Missing("They are not deleted here: change them where they are written.")


def _workspace_kind(name: str, label: str, field: str, title: str, page: str) -> QuoteKind:
    """One text of the workspace, which admins change on a page of theirs; members read it in prompts alone."""

    def texts(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
        since = quotation.since(message.created_at)
        workspaces = Workspace.objects.filter(pk=message.thread.workspace_id, updated_at__gte=since)
        return (QuotingText(pk, text, None) for pk, text in workspaces.values_list("pk", field))

    def places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
        href = reverse(page, args=[slug]) if access.administers else ""
        place = QuotePlace(title, href, False, "Change it." if access.administers else "An admin can change it.")
        return {} if access.is_guest else {ref: place for ref in refs if ref == access.workspace_id}

    return QuoteKind(name, label, texts, places, _refuse_change)


WORKSPACE_KINDS = (
    _workspace_kind(
        "description",
        "Description",
        "description",
        "What the workspace says it is, in its settings",
        "settings-general",
    ),
    _workspace_kind(
        "organisation", "Instructions", "instructions", "Instructions of the organisation", "settings-instructions"
    ),
)


def _quoting_snippets(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    since = quotation.since(message.created_at)
    snippets = Snippet.objects.filter(workspace=message.thread.workspace_id, updated_at__gte=since)
    return (QuotingText(*row) for row in snippets.order_by().values_list("pk", "text", "changed_by_id"))


def _snippet_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    """The places in snippets, for admins, who alone see snippets."""
    rows = Snippet.objects.filter(workspace=access.workspace_id, pk__in=refs if access.administers else ())
    return {
        row.pk: QuotePlace(
            title=f"Snippet “{row.name}”, which instructions for agents include",
            href=reverse("snippets", args=[slug]),
            may_delete=False,
            advice="Change it.",
        )
        for row in rows
    }


def _quoting_files(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    """The newest of the workspace, from their beginning."""
    files = Attachment.objects.filter(thread__workspace=message.thread.workspace_id)
    files = files.filter(created_at__gte=quotation.since(message.created_at)).exclude(message=message).order_by("-id")
    rows = files.annotate(beginning=Left("content", MAX_FILE_CHARACTERS))[:MAX_FILES]
    return (QuotingText(*row) for row in rows.values_list("pk", "beginning", "message__author_id").iterator(20))


def _file_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    files = Attachment.objects.visible_to(access).filter(pk__in=refs).defer("content")
    return {
        file.pk: QuotePlace(
            title=f"The file “{file.name}” in “{file.thread.title}”",
            href=reverse("message", args=[slug, file.message_id]),
            may_delete=False,
            advice="It goes when the message is deleted that it is attached to.",
        )
        for file in files.select_related("thread")
    }


def _refuse_file(ref: int, by: Access) -> None:
    raise Missing("A file is not deleted by itself: delete the message it is attached to.")


def _quoting_descriptions(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    """Descriptions of the workspace's newest images that may repeat the message."""
    images = Image.objects.filter(thread__workspace=message.thread.workspace_id).exclude(description="")
    images = images.exclude(message=message).order_by("-id")[:MAX_FILES]
    return (QuotingText(*row) for row in images.values_list("pk", "description", "message__author_id"))


def _description_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    images = Image.objects.visible_to(access).filter(pk__in=refs).defer("content", "thumbnail")
    return {
        image.pk: QuotePlace(
            title=f"The description of “{image.name}” in “{image.thread.title}”",
            href=reverse("image-description", args=[slug, image.pk]),
            may_delete=image.message.author_id == access.participant_id,
            advice="Whoever posted the image can change it.",
        )
        for image in images.select_related("thread", "message")
    }


def _delete_description(ref: int, by: Access) -> None:
    image = Image.objects.visible_to(by).filter(pk=ref).defer("content", "thumbnail").first()
    if image is None:
        raise Missing
    describe_image(image=image, by=by, description="")


def wire() -> None:
    QUOTE_KINDS.add(QuoteKind("message", "Message", _quoting_messages, _message_places, _delete_quoting_message))
    QUOTE_KINDS.add(QuoteKind("title", "Title", _quoting_titles, _title_places, _refuse_title))
    QUOTE_KINDS.add(QuoteKind("channel", "Channel", _quoting_channels, _channel_places, _refuse_change))
    QUOTE_KINDS.add(
        QuoteKind("instructions", "Instructions", _quoting_instructions, _instruction_places, _refuse_change)
    )
    for kind in WORKSPACE_KINDS:
        QUOTE_KINDS.add(kind)
    QUOTE_KINDS.add(QuoteKind("snippet", "Snippet", _quoting_snippets, _snippet_places, _refuse_change))
    QUOTE_KINDS.add(QuoteKind("file", "File", _quoting_files, _file_places, _refuse_file))
    QUOTE_KINDS.add(QuoteKind("image", "Description", _quoting_descriptions, _description_places, _delete_description))

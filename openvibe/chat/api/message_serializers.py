"""Messages, their files, search in them and what repeats them: what the API takes and gives."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

from django.conf import settings
from django.db.models import Manager
from rest_framework import serializers

from openvibe.api.fields import ChoiceField, SeqField, TextField, WholeNumberField, utc_text
from openvibe.chat.models import Attachment, Mention, Message
from openvibe.chat.queries import MessageQuotes, read_citations
from openvibe.chat.wiring import CITATION_KINDS, Citation
from openvibe.workspaces.api.serializers import ParticipantOut
from openvibe.workspaces.decorators import request_access


class MentionOut(serializers.ModelSerializer[Mention]):
    handle = serializers.CharField(read_only=True)

    class Meta:
        model = Mention
        fields = ("handle", "note")
        read_only_fields = fields


class AttachmentOut(serializers.Serializer[Any]):
    """A file of a message, without its content. `attachments/{id}/` has its text, `attachments/{id}/content/` the file
    as it came."""

    id = serializers.IntegerField(read_only=True)
    name = serializers.CharField(read_only=True)
    media_type = serializers.CharField(
        read_only=True, help_text="Of a text guessed from its name; of any other file by what is in it."
    )
    format = serializers.ChoiceField(choices=Attachment.Format.choices, read_only=True, help_text="By what is in it.")
    file_size = serializers.IntegerField(read_only=True, help_text="Bytes of the file as it came.")
    size = serializers.IntegerField(read_only=True, help_text="Bytes of its text in UTF-8; 0 where there is none.")
    tokens = serializers.IntegerField(source="token_count", read_only=True, help_text="Of its text (o200k_base).")
    sha256 = serializers.CharField(read_only=True, help_text="Of its text in UTF-8.")
    page_count = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="Pages, slides, sheets or chapters; null where it has none."
    )
    problem = serializers.CharField(
        read_only=True, help_text="Why agents can read nothing of it, or not all; empty where they can."
    )


class ImageOut(serializers.Serializer[Any]):
    """An image of a message, as it is kept: scaled, without what else its file held. `images/{id}/content/` has it."""

    id = serializers.IntegerField(read_only=True)
    name = serializers.CharField(read_only=True)
    media_type = serializers.CharField(read_only=True, help_text="Of what is kept: image/png or image/jpeg.")
    width = serializers.IntegerField(read_only=True, help_text="Pixels.")
    height = serializers.IntegerField(read_only=True, help_text="Pixels.")
    size = serializers.IntegerField(read_only=True, help_text="Bytes.")
    sha256 = serializers.CharField(read_only=True, help_text="Of what is kept.")
    description = serializers.CharField(read_only=True, help_text="What a person wrote that it shows; may be empty.")


class ImageDetailOut(ImageOut):
    message = serializers.IntegerField(source="message_id", read_only=True)


class ImageEdit(serializers.Serializer[Any]):
    description = TextField(help_text="What it shows, at most 1,000 characters; empty takes it away.")


class EmojiOut(serializers.Serializer[Any]):
    """An emoji on a message; `messages/{id}/reactions/` says who put it there."""

    emoji = serializers.CharField(read_only=True)
    count = serializers.IntegerField(read_only=True, help_text="Of participants.")


class CitationOut(serializers.Serializer[Any]):
    """Something that an answer cites and the caller may see. `text` stands in the body; where `is_named` is false the
    answer repeats its words without naming it, and `text` says what it is."""

    text = serializers.CharField(read_only=True)
    is_named = serializers.BooleanField(read_only=True)
    kind = serializers.ChoiceField(choices=CITATION_KINDS, read_only=True)
    id = serializers.IntegerField(source="ref", read_only=True, help_text="Of the message, entry, file, image or row.")
    url = serializers.CharField(read_only=True, help_text="The whole address of its page.")


class MessageListSerializer(serializers.ListSerializer[Message]):
    """Messages, whose citations are read at once. The request in the context says for whom; without one, none are
    given."""

    def to_representation(self, data: Any) -> list[Any]:
        rows = list(data.all() if isinstance(data, Manager) else data)
        assert isinstance(self.child, MessageOut)
        self.child.cited = _read_citations(rows, self.context)
        return [self.child.to_representation(row) for row in rows]


def _read_citations(messages: Sequence[Message], context: Mapping[str, Any]) -> Mapping[int, Sequence[Citation]]:
    request = context.get("request")
    return read_citations(messages, request_access(request)) if request is not None else {}


class MessageOut(serializers.ModelSerializer[Message]):
    """A deleted message keeps its place: `deleted_at` is set and `body` is empty."""

    thread = serializers.IntegerField(source="thread_id", read_only=True)
    author = ParticipantOut(read_only=True)
    mentions = MentionOut(source="mentioned", many=True, read_only=True)
    tokens = serializers.IntegerField(source="token_count", read_only=True, help_text="Of the body (o200k_base).")
    attachments = AttachmentOut(source="attached", many=True, read_only=True)
    images = ImageOut(source="pictured", many=True, read_only=True)
    reactions = EmojiOut(source="reacted", many=True, read_only=True, help_text="In the order of their first use.")
    citations = CitationOut(many=True, read_only=True, help_text="In an agent's answer, in the order of the body.")

    class Meta:
        model = Message
        list_serializer_class = MessageListSerializer
        fields = (
            "id",
            "thread",
            "seq",
            "author",
            "kind",
            "state",
            "body",
            "call_id",
            "client_id",
            "tokens",
            "mentions",
            "attachments",
            "images",
            "reactions",
            "citations",
            "created_at",
            "edited_at",
            "deleted_at",
        )
        read_only_fields = fields

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cited: Mapping[int, Sequence[Citation]] | None = None

    def to_representation(self, instance: Message) -> dict[str, Any]:
        citations = self.cited
        if citations is None:
            citations = _read_citations([instance], self.context)
        # As the fields have it, without asking each of them for each of a hundred rows.
        return {
            "id": instance.pk,
            "thread": instance.thread_id,
            "seq": instance.seq,
            "author": _AUTHOR.to_representation(instance.author),
            "kind": instance.kind,
            "state": instance.state,
            "body": instance.body,
            "call_id": instance.call_id,
            "client_id": instance.client_id,
            "tokens": instance.token_count,
            "mentions": [{"handle": each["handle"], "note": each["note"]} for each in instance.mentioned],
            "attachments": [_FILE.to_representation(file) for file in instance.attached],
            "images": [_IMAGE.to_representation(image) for image in instance.pictured],
            "reactions": [{"emoji": row["emoji"], "count": len(row["people"])} for row in instance.reacted],
            "citations": [_citation_payload(each) for each in citations.get(instance.pk, ())],
            "created_at": utc_text(instance.created_at),
            "edited_at": utc_text(instance.edited_at),
            "deleted_at": utc_text(instance.deleted_at),
        }


def _citation_payload(citation: Citation) -> dict[str, Any]:
    return {
        "text": citation.words or citation.label,
        "is_named": bool(citation.words),
        "kind": citation.kind,
        "id": citation.ref,
        "url": urljoin(settings.PUBLIC_URL, citation.path),
    }


_AUTHOR, _FILE, _IMAGE = ParticipantOut(), AttachmentOut(), ImageOut()


class MessageIn(serializers.Serializer[Any]):
    body = TextField(help_text="Markdown, 1 to 100,000 characters.")
    client_id = TextField(
        required=False, default="", help_text="Your own key: the same key is the same message, returned again."
    )
    kind = ChoiceField(
        choices=["text", "tool_call", "tool_result"], default="text", help_text="Agents only: tool_call, tool_result."
    )
    call_id = TextField(required=False, default="", help_text="Pairs a tool_call with its tool_result.")


class MessageUpload(serializers.Serializer[Any]):
    """A message with files, as `multipart/form-data`."""

    body = TextField(
        required=False, default="", help_text="Markdown; without any, the names of the files are the message."
    )
    client_id = TextField(
        required=False, default="", help_text="Your own key: the same key is the same message, returned again."
    )
    files = serializers.ListField(
        child=serializers.FileField(),
        help_text=(
            "At most 5: text files (UTF-8, what a byte order mark names, else Windows-1252) and documents (PDF, DOCX, "
            "PPTX, XLSX, ODT, ODP, ODS, EPUB, HTML, RTF) of at most as many MB as the operator allows (10), and images "
            "of at most 20 MB (PNG, JPEG, WebP, the first frame of a GIF), scaled and kept without metadata."
        ),
    )
    descriptions = serializers.ListField(
        child=TextField(),
        required=False,
        default=list,
        help_text="What the images show: one for each file, in their order, empty for none.",
    )


class PieceParams(serializers.Serializer[Any]):
    offset = SeqField(required=False, default=0, help_text="The character to begin at.")
    page = WholeNumberField(
        required=False, default=None, allow_null=True, min_value=1, help_text="The page to begin at: 1 is the first."
    )
    limit = WholeNumberField(
        required=False, default=2_000, min_value=1, max_value=4_000, help_text="Tokens of the piece, at most."
    )
    find = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        trim_whitespace=False,
        max_length=200,
        help_text="Begin at the next line that holds these words, whatever their case.",
    )


class PieceOut(AttachmentOut):
    """A stretch of a file as agents read it: secrets are masked, and each page stands under a head such as `[page 3]`,
    so `total` may differ from the file's own length."""

    message = serializers.IntegerField(read_only=True)
    text = serializers.CharField(source="piece.text", read_only=True)
    offset = serializers.IntegerField(source="piece.start", read_only=True, help_text="Where it begins, in characters.")
    page = serializers.IntegerField(
        source="piece.page", read_only=True, allow_null=True, help_text="The page on which it begins."
    )
    next_offset = serializers.IntegerField(
        source="piece.next_offset", read_only=True, allow_null=True, help_text="Where to go on; null at the end."
    )
    total = serializers.IntegerField(source="piece.total", read_only=True, help_text="Characters in all.")


class MessageEdit(serializers.Serializer[Any]):
    body = TextField(help_text="The new text.")
    based_on = TextField(
        required=False,
        allow_null=True,
        default=None,
        help_text="The text you began from; 409 `stale` when it is not the current one any more.",
    )


class MessagesParams(serializers.Serializer[Any]):
    after_seq = SeqField(required=False, help_text="Only messages after this one, oldest first.")
    before_seq = SeqField(required=False, help_text="Only messages before this one.")


class SearchParams(serializers.Serializer[Any]):
    q = serializers.CharField(
        max_length=1000,
        help_text='Words, as on the search page: "in quotes" side by side, -word, word*, this OR that, '
        "after:2026-03-01, before:2026-04, from:handle.",
    )


class FoundOut(MessageOut):
    channel = serializers.IntegerField(source="thread.channel_id", read_only=True)
    thread_title = serializers.CharField(source="thread.title", read_only=True)

    class Meta:
        model = Message
        fields = (*MessageOut.Meta.fields, "channel", "thread_title")
        read_only_fields = fields
        list_serializer_class = MessageListSerializer

    def to_representation(self, instance: Message) -> dict[str, Any]:
        place = {"channel": instance.thread.channel_id, "thread_title": instance.thread.title}
        return {**super().to_representation(instance), **place}


class BearingParams(serializers.Serializer[Any]):
    q = serializers.CharField(max_length=4000, help_text="A question, or words. Nothing in it is an operator.")
    budget = WholeNumberField(
        required=False,
        default=4000,
        min_value=1,
        max_value=100_000,
        help_text="Tokens that all messages may cost together: each costs its text and its author's name.",
    )
    before_seq = SeqField(required=False, help_text="Only messages before this one.")


class BearingMessageOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="message_id")
    thread = serializers.IntegerField(source="thread_id")
    seq = serializers.IntegerField()
    kind = serializers.CharField()
    author = serializers.CharField(
        source="author_name", help_text="Name, with the handle where another's looks like it."
    )
    body = serializers.CharField()
    tokens = serializers.IntegerField()
    created_at = serializers.DateTimeField(source="at")
    score = serializers.FloatField(help_text="Compares within this answer only.")
    is_neighbour = serializers.BooleanField(help_text="It stands beside a message that bears on the question.")


class BearingOut(serializers.Serializer[Any]):
    results = BearingMessageOut(source="hits", many=True, help_text="The best first.")
    tokens = serializers.IntegerField(help_text="What they cost together.")
    by_words = serializers.BooleanField(help_text="Whether any holds a word of the question.")
    by_vectors = serializers.BooleanField(help_text="Whether meaning was compared, too.")


class QuoteOut(serializers.Serializer[Any]):
    """A text that repeats a message."""

    kind = serializers.CharField(source="quote.kind", help_text="message, title, entry, work, progress, …")
    ref = serializers.IntegerField(source="quote.ref", help_text="The id of its row.")
    title = serializers.CharField(source="place.title")
    url = serializers.CharField(source="place.href", help_text="Its page; empty where no page shows it to you.")
    is_own = serializers.BooleanField()
    may_delete = serializers.BooleanField(source="place.may_delete")
    advice = serializers.CharField(source="place.advice", help_text="What to do where it cannot be deleted here.")


class QuotesOut(serializers.Serializer[Any]):
    """`finished` is false while the words are still being taken out of stored prompts and kept answers."""

    message = serializers.IntegerField(source="message.pk")
    deleted_at = serializers.DateTimeField(source="message.deleted_at", allow_null=True)
    finished = serializers.SerializerMethodField()
    rewritten = serializers.SerializerMethodField(help_text="How much was rewritten, by what it is.")
    quotes = QuoteOut(many=True)

    def get_finished(self, quotes: MessageQuotes) -> bool:
        return quotes.erasure is not None and quotes.erasure.finished_at is not None

    def get_rewritten(self, quotes: MessageQuotes) -> dict[str, int]:
        return dict(quotes.erasure.counts) if quotes.erasure is not None else {}

"""Channels, threads and messages: what the API takes and gives."""

from datetime import datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from openvibe.api.fields import ClockTimeField, IdField, SeqField, TextField, utc_text
from openvibe.base.params import MAX_ID
from openvibe.base.text import text_version
from openvibe.base.time_zones import is_time_zone
from openvibe.chat.models import Channel, Mention, Message, Thread
from openvibe.chat.queries import MessageQuotes
from openvibe.workspaces.api.serializers import ParticipantOut
from openvibe.workspaces.models import NotificationLevel, Participant, User


class InstructionsVersion(serializers.Serializer[Any]):
    instructions_version = serializers.SerializerMethodField(help_text="Of the text of `instructions`.")

    def get_instructions_version(self, scope: Channel | Thread) -> str:
        return text_version(scope.instructions)


class ChannelOut(InstructionsVersion, serializers.ModelSerializer[Channel]):
    class Meta:
        model = Channel
        fields = (
            *("id", "name", "description", "instructions", "instructions_version", "is_private"),
            *("archived_at", "created_at"),
        )
        read_only_fields = fields


class ChannelIn(serializers.Serializer[Any]):
    name = TextField(help_text="1 to 40 of a-z, 0-9, - and _.")
    description = TextField(required=False, default="", help_text="At most 1,000 characters.")
    is_private = serializers.BooleanField(required=False, default=False)


INSTRUCTIONS_HELP = "What agents are told here, at most 2,000 tokens; empty takes it away. Owners and admins."

VERSION_HELP = "The one that was read with them: 409 `changed_meanwhile` where another text stands there now."


class ChannelChange(serializers.Serializer[Any]):
    instructions = TextField(help_text=INSTRUCTIONS_HELP)
    instructions_version = serializers.CharField(required=False, max_length=40, help_text=VERSION_HELP)


class ThreadOut(InstructionsVersion, serializers.ModelSerializer[Thread]):
    channel = serializers.IntegerField(source="channel_id", read_only=True)
    parent = serializers.IntegerField(  # type: ignore[assignment]  # DRF takes it off the class
        source="parent_id", read_only=True, allow_null=True, help_text="For a dive: the thread it started in."
    )
    created_by = ParticipantOut(read_only=True, allow_null=True)
    allowed_agents = serializers.SerializerMethodField(help_text="Handles.")
    following_agents = serializers.SerializerMethodField(help_text="Handles.")
    is_pinned = serializers.SerializerMethodField(help_text="Shown first in its channel.")
    last_read_seq = serializers.IntegerField(
        read_only=True, default=0, help_text="Up to which message the caller has read it; unread below `last_seq`."
    )

    class Meta:
        model = Thread
        fields = (
            "id",
            "channel",
            "parent",
            "title",
            "instructions",
            "instructions_version",
            "access",
            "allowed_agents",
            "following_agents",
            "created_by",
            "created_at",
            "archived_at",
            "is_pinned",
            "last_seq",
            "last_read_seq",
            "last_message_at",
        )
        read_only_fields = fields

    def get_is_pinned(self, thread: Thread) -> bool:
        return thread.pin_slot is not None

    def get_allowed_agents(self, thread: Thread) -> list[str]:
        return [agent.handle for agent in thread.allowed_agents.all()]

    def get_following_agents(self, thread: Thread) -> list[str]:
        return [agent.handle for agent in thread.following_agents.all()]


class DirectMessagesOut(serializers.ModelSerializer[Thread]):
    """`id` is that of the thread, in which messages are read and posted as in any."""

    participants = serializers.SerializerMethodField(help_text="The two.")
    last_read_seq = serializers.IntegerField(read_only=True, default=0, help_text="Unread below `last_seq`.")

    class Meta:
        model = Thread
        fields = ("id", "participants", "created_at", "last_seq", "last_read_seq", "last_message_at")
        read_only_fields = fields

    @extend_schema_field(ParticipantOut(many=True))
    def get_participants(self, thread: Thread) -> object:
        two = (thread.channel.first_participant, thread.channel.second_participant)
        return ParticipantOut([one for one in two if one is not None], many=True).data


class DirectMessagesIn(serializers.Serializer[Any]):
    to = TextField(help_text="The handle of a person or an agent.")


HANDLES_HELP = "Handles of agents; for access agent_restricted."


class ThreadIn(serializers.Serializer[Any]):
    channel = IdField()
    title = TextField(help_text="Cut at 200 characters.")
    access = serializers.ChoiceField(choices=Thread.Access.choices, default=Thread.Access.OPEN)
    allowed_agents = serializers.ListField(
        child=serializers.CharField(max_length=40), max_length=100, required=False, default=list, help_text=HANDLES_HELP
    )


class ThreadChange(serializers.Serializer[Any]):
    title = TextField(required=False)
    instructions = TextField(required=False, help_text=INSTRUCTIONS_HELP)
    instructions_version = serializers.CharField(required=False, max_length=40, help_text=VERSION_HELP)
    archived = serializers.BooleanField(required=False)
    is_pinned = serializers.BooleanField(
        required=False, help_text="Shown first in its channel, which has at most 10 of them."
    )
    access = serializers.ChoiceField(choices=Thread.Access.choices, required=False)
    allowed_agents = serializers.ListField(
        child=serializers.CharField(max_length=40), max_length=100, required=False, help_text=HANDLES_HELP
    )


class ThreadsParams(serializers.Serializer[Any]):
    channel = IdField(required=False, help_text="Only threads of this channel.")
    parent = IdField(  # type: ignore[assignment]  # DRF takes it off the class
        required=False, help_text="The dives of this thread, as threads; left out otherwise."
    )
    unread = serializers.BooleanField(
        required=False, default=False, help_text="The inbox: only threads with something new to the caller."
    )


class ThreadExportParams(serializers.Serializer[Any]):
    form = serializers.ChoiceField(
        choices=["jsonl", "md"], default="jsonl", help_text="jsonl can be imported again; md is for people."
    )


class ReadIn(serializers.Serializer[Any]):
    """One of the two."""

    seq = SeqField(required=False, help_text="Everything up to this message is read; never moves backwards.")
    unread_from = SeqField(required=False, help_text="This message and all after it count as unread again.")


class ReadOut(serializers.Serializer[Any]):
    last_read_seq = serializers.IntegerField(help_text="Everything up to this message is read.")


class NotificationsOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField(choices=NotificationLevel.choices, help_text="What holds.")
    chosen = serializers.ChoiceField(
        choices=NotificationLevel.choices,
        allow_null=True,
        help_text="The caller's own choice for it; null where what is around it holds (channel, then default).",
    )


class NotificationsIn(serializers.Serializer[Any]):
    level = TextField(allow_null=True, help_text="all, mentions or nothing (mute); null for what is around it.")


class DefaultNotificationsOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField(
        choices=NotificationLevel.choices, help_text="What holds where no channel or thread says otherwise."
    )


class DefaultNotificationsIn(serializers.Serializer[Any]):
    level = TextField(help_text="all, mentions or nothing.")


class DoNotDisturbOut(serializers.Serializer[Any]):
    until = serializers.DateTimeField(source="dnd_until", allow_null=True, help_text="No notifications until then.")
    start = ClockTimeField(source="dnd_start", allow_null=True, help_text="Daily from then.")
    end = ClockTimeField(source="dnd_end", allow_null=True, help_text="Daily until then.")
    time_zone = serializers.CharField(help_text="Of the daily hours, as in Europe/Berlin; empty where none is known.")
    ends_at = serializers.SerializerMethodField(help_text="When notifications come again; null where they come now.")

    def get_ends_at(self, user: User) -> datetime | None:
        return user.do_not_disturb.ends_at(timezone.now())


class DoNotDisturbIn(serializers.Serializer[Any]):
    until = serializers.DateTimeField(required=False, allow_null=True, help_text="Null ends a pause.")
    start = ClockTimeField(required=False, allow_null=True, help_text="As in 22:00, with `end`; null: no hours.")
    end = ClockTimeField(required=False, allow_null=True, help_text="As in 07:00, the next day where it is earlier.")
    time_zone = TextField(required=False, help_text="Of the hours, for who chose none in the profile.")

    def validate_time_zone(self, name: str) -> str:
        if name and not is_time_zone(name):
            raise serializers.ValidationError("Give a time zone as in Europe/Berlin.")
        return name


class PersonOut(serializers.ModelSerializer[Participant]):
    role = serializers.CharField(source="member.role", read_only=True, help_text="owner, admin, member or guest.")
    is_here = serializers.BooleanField(read_only=True, help_text="Whether a page of theirs is open now.")
    avatar_url = serializers.CharField(read_only=True, allow_null=True, help_text="Path of their picture.")

    class Meta:
        model = Participant
        fields = ("id", "handle", "name", "avatar_url", "role", "is_here")
        read_only_fields = fields


class MentionOut(serializers.ModelSerializer[Mention]):
    handle = serializers.CharField(read_only=True)

    class Meta:
        model = Mention
        fields = ("handle", "note")
        read_only_fields = fields


class AttachmentOut(serializers.Serializer[Any]):
    """A file of a message, without its content."""

    id = serializers.IntegerField(read_only=True)
    name = serializers.CharField(read_only=True)
    media_type = serializers.CharField(read_only=True, help_text="Guessed from the name.")
    size = serializers.IntegerField(read_only=True, help_text="Bytes in UTF-8.")
    tokens = serializers.IntegerField(source="token_count", read_only=True, help_text="Of the content (o200k_base).")
    sha256 = serializers.CharField(read_only=True, help_text="Of the content in UTF-8.")


class EmojiOut(serializers.Serializer[Any]):
    """An emoji on a message; `messages/{id}/reactions/` says who put it there."""

    emoji = serializers.CharField(read_only=True)
    count = serializers.IntegerField(read_only=True, help_text="Of participants.")


class MessageOut(serializers.ModelSerializer[Message]):
    """A deleted message keeps its place: `deleted_at` is set and `body` is empty."""

    thread = serializers.IntegerField(source="thread_id", read_only=True)
    author = ParticipantOut(read_only=True)
    mentions = MentionOut(source="mentioned", many=True, read_only=True)
    tokens = serializers.IntegerField(source="token_count", read_only=True, help_text="Of the body (o200k_base).")
    attachments = AttachmentOut(source="attached", many=True, read_only=True)
    reactions = EmojiOut(source="reacted", many=True, read_only=True, help_text="In the order of their first use.")

    class Meta:
        model = Message
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
            "reactions",
            "created_at",
            "edited_at",
            "deleted_at",
        )
        read_only_fields = fields

    def to_representation(self, instance: Message) -> dict[str, Any]:
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
            "reactions": [{"emoji": row["emoji"], "count": len(row["people"])} for row in instance.reacted],
            "created_at": utc_text(instance.created_at),
            "edited_at": utc_text(instance.edited_at),
            "deleted_at": utc_text(instance.deleted_at),
        }


_AUTHOR, _FILE = ParticipantOut(), AttachmentOut()


class MessageIn(serializers.Serializer[Any]):
    body = TextField(help_text="Markdown, 1 to 100,000 characters.")
    client_id = TextField(
        required=False, default="", help_text="Your own key: the same key is the same message, returned again."
    )
    kind = serializers.ChoiceField(
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
        help_text="At most 5 text files of at most 5 MB: UTF-8, what a byte order mark names, else Windows-1252.",
    )


class PieceParams(serializers.Serializer[Any]):
    offset = SeqField(required=False, default=0, help_text="The character to begin at.")
    limit = serializers.IntegerField(
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
    """A stretch of a file as agents read it: secrets are masked, so `total` may differ from the file's own length."""

    message = serializers.IntegerField(read_only=True)
    text = serializers.CharField(source="piece.text", read_only=True)
    offset = serializers.IntegerField(source="piece.start", read_only=True, help_text="Where it begins, in characters.")
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
    q = serializers.CharField(max_length=1000, help_text="Words, as in a web search.")


class FoundOut(MessageOut):
    channel = serializers.IntegerField(source="thread.channel_id", read_only=True)
    thread_title = serializers.CharField(source="thread.title", read_only=True)

    class Meta:
        model = Message
        fields = (*MessageOut.Meta.fields, "channel", "thread_title")
        read_only_fields = fields

    def to_representation(self, instance: Message) -> dict[str, Any]:
        place = {"channel": instance.thread.channel_id, "thread_title": instance.thread.title}
        return {**super().to_representation(instance), **place}


class BearingParams(serializers.Serializer[Any]):
    q = serializers.CharField(max_length=4000, help_text="A question, or words. Nothing in it is an operator.")
    budget = serializers.IntegerField(
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
    author = serializers.CharField(source="author_name", help_text="Name.")
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


class EventsParams(serializers.Serializer[Any]):
    after = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_ID, help_text="The last position seen; or send Last-Event-ID."
    )
    include = serializers.ChoiceField(choices=["data"], required=False, help_text="The message of each event, too.")
    kind = serializers.ListField(
        child=serializers.CharField(max_length=40),
        max_length=20,
        required=False,
        help_text="Only events of these kinds: `mention`, `message_posted`, `message_changed`, …; may be repeated.",
    )
    thread = serializers.ListField(
        child=IdField(), max_length=50, required=False, help_text="Only events of these threads; may be repeated."
    )


class QuoteOut(serializers.Serializer[Any]):
    """A text that repeats a message."""

    kind = serializers.CharField(source="quote.kind", help_text="message, title, entry, work, progress, …")
    ref = serializers.IntegerField(source="quote.ref", help_text="The id of its row.")
    title = serializers.CharField(source="place.title")
    url = serializers.CharField(source="place.href", help_text="Its page.")
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

    def get_finished(self, found: MessageQuotes) -> bool:
        return found.erasure is not None and found.erasure.finished_at is not None

    def get_rewritten(self, found: MessageQuotes) -> dict[str, int]:
        return dict(found.erasure.counts) if found.erasure is not None else {}

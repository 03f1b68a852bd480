"""Messages, their history, mentions and vectors: numbered without gaps by the database, deleted without a trace.

Triggers keep the promise of vectors: a text that changes loses its vector in the same transaction, and so does the
message after it, whose pair holds that text too. Both are made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pgtrigger
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Func, OuterRef, Q, Subquery, Value
from django.db.models.functions import Cast, Now
from django.db.models.lookups import Exact
from pgvector.django import HalfVectorField, HnswIndex

from openvibe.chat.models.thread import Thread
from openvibe.engines.search.lexeme_fields import LexemesField, LexemesVersionField, loses_lexemes
from openvibe.engines.search.lexemes import BODY
from openvibe.engines.search.models import GIN_PENDING_LIST_KB, SignsField, VectorSpace
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


class MessageQuerySet(models.QuerySet["Message"]):
    def visible_to(self, access: Access) -> MessageQuerySet:
        """Messages of threads the asker sees; dive results only for those whose level reads them.

        The thread is looked up for each message found. In a join, PostgreSQL may begin with the threads and read all
        messages of the workspace, as it does where it has no statistics of threads.
        """
        thread = Thread.objects.visible_to(access).filter(pk=OuterRef("thread_id")).values(seen=Value(True))
        messages = self.filter(Subquery(thread, output_field=models.BooleanField()))
        return messages if access.reads_dive_results else messages.exclude(kind=Message.Kind.DIVE_RESULT)


class Message(models.Model):
    """One entry of a thread. `seq` counts from 1 without gaps: leave it 0 and the database gives the next.

    Inserting and changing a row also writes the event that open pages wait for, whoever does it. Rows inserted with
    a `seq` of their own (imports, under the thread's lock) write none.
    """

    class Kind(models.TextChoices):
        TEXT = "text", "Text"
        TOOL_CALL = "tool_call", "Tool call"
        TOOL_RESULT = "tool_result", "Tool result"
        DIVE_RESULT = "dive_result", "Dive result"
        SYSTEM = "system", "System"

    class State(models.TextChoices):
        COMPLETE = "complete", "Complete"
        WRITING = "writing", "Being written"
        STOPPED = "stopped", "Stopped"
        FAILED = "failed", "Failed"
        REPLACED = "replaced", "Replaced by a later answer"

    # Both are the first of an index below.
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="messages", db_index=False)
    seq = models.PositiveBigIntegerField(db_default=0, editable=False)
    author = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="messages", db_index=False)
    kind = models.CharField(max_length=12, choices=Kind.choices, default=Kind.TEXT)
    state = models.CharField(max_length=8, choices=State.choices, default=State.COMPLETE)
    body = models.TextField(blank=True)
    call_id = models.CharField(max_length=100, blank=True)
    client_id = models.CharField(
        max_length=100, blank=True, help_text="The sender's own key; the same key is the same message."
    )
    token_count = models.PositiveIntegerField(default=0, help_text="Tokens of the body (o200k_base), counted at write.")
    created_at = models.DateTimeField(db_default=Now())
    edited_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    search = LexemesField(sources={"body": BODY})
    lexemes_version = LexemesVersionField()

    objects: ClassVar[models.Manager[Message]] = MessageQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["thread", "seq"], name="message_seq_unique"),
            models.UniqueConstraint(
                fields=["thread", "author", "client_id"], condition=~Q(client_id=""), name="message_client_id_once"
            ),
            models.CheckConstraint(condition=Q(seq__gte=1), name="message_seq_from_one"),
            models.CheckConstraint(
                condition=Q(kind__in=["text", "tool_call", "tool_result", "dive_result", "system"]),
                name="message_kind_known",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["complete", "writing", "stopped", "failed", "replaced"]),
                name="message_state_known",
            ),
            models.CheckConstraint(
                condition=Q(deleted_at=None) | Q(body="", token_count=0), name="message_deleted_is_empty"
            ),
        ]
        indexes = [
            GinIndex(fields=["search"], gin_pending_list_limit=GIN_PENDING_LIST_KB, name="message_search"),
            models.Index(fields=["-id"], condition=Q(lexemes_version=0), name="message_lexemes_due"),
            models.Index(fields=["author", "-created_at"], name="message_author_recent"),
            models.Index(fields=["-created_at"], name="message_recent"),
            models.Index(
                fields=["thread"],
                condition=Q(edited_at__isnull=False) | Q(deleted_at__isnull=False),
                name="message_changed",
            ),
            models.Index(
                fields=["thread", "seq"],
                condition=Q(body="") | Q(kind="system") | Q(state__in=["failed", "replaced"]),
                name="message_not_said",
            ),  # what prompts leave out, and count
        ]
        triggers = [
            pgtrigger.Trigger(
                name="take_next_seq",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                condition=pgtrigger.Q(new__seq=0),
                declare=[("place", "record")],
                func=(
                    "UPDATE chat_thread SET last_seq = last_seq + 1, last_message_at = NEW.created_at"
                    " WHERE id = NEW.thread_id RETURNING last_seq, channel_id, workspace_id INTO place;"
                    " NEW.seq := place.last_seq;"
                    " INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at)"
                    " VALUES ('message_posted', place.workspace_id, place.channel_id, NEW.thread_id, NEW.id, now());"
                    " RETURN NEW;"
                ),
            ),
            loses_lexemes("body", writing_state="writing"),
            pgtrigger.Trigger(
                name="tell_change",
                operation=pgtrigger.Update,
                when=pgtrigger.After,
                condition=pgtrigger.Condition(
                    "((OLD.author_id, OLD.kind, OLD.state, OLD.body, OLD.token_count, OLD.edited_at, OLD.deleted_at,"
                    " OLD.created_at, OLD.seq, OLD.call_id, OLD.client_id, OLD.thread_id) IS DISTINCT FROM"
                    " (NEW.author_id, NEW.kind, NEW.state, NEW.body, NEW.token_count, NEW.edited_at, NEW.deleted_at,"
                    " NEW.created_at, NEW.seq, NEW.call_id, NEW.client_id, NEW.thread_id))"
                ),
                func=(
                    "INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at)"
                    " SELECT 'message_changed', workspace_id, channel_id, id, NEW.id, now()"
                    " FROM chat_thread WHERE id = NEW.thread_id;"
                    " RETURN NULL;"
                ),
            ),
            pgtrigger.Trigger(  # once a statement: an import writes thousands of messages in one
                name="wants_vector",
                level=pgtrigger.Statement,
                operation=pgtrigger.Insert,
                when=pgtrigger.After,
                referencing=pgtrigger.Referencing(new="said"),
                func=(
                    "INSERT INTO chat_messagetoembed (space_id, message_id)"
                    " SELECT s.id, m.id FROM said m JOIN chat_thread t ON t.id = m.thread_id"
                    " JOIN search_vectorspace s ON s.workspace_id = t.workspace_id"
                    " WHERE s.state <> 'retired' AND s.kind <> 'none'"
                    " AND m.state IN ('complete', 'stopped') AND m.kind IN ('text', 'dive_result')"
                    " ON CONFLICT DO NOTHING;"
                    " RETURN NULL;"
                ),
            ),
            pgtrigger.Trigger(
                name="loses_vector",
                operation=pgtrigger.UpdateOf("body", "state", "deleted_at"),
                when=pgtrigger.After,
                condition=pgtrigger.Condition(
                    "NEW.state <> 'writing' AND (OLD.body, OLD.state, OLD.deleted_at)"
                    " IS DISTINCT FROM (NEW.body, NEW.state, NEW.deleted_at)"
                ),
                func=(
                    "DELETE FROM chat_messagevector WHERE thread_id = NEW.thread_id"
                    " AND seq BETWEEN NEW.seq AND NEW.seq + 1;"
                    " DELETE FROM chat_diveresult WHERE message_id = NEW.id AND NEW.deleted_at IS NOT NULL;"
                    " INSERT INTO chat_messagetoembed (space_id, message_id)"
                    " SELECT s.id, m.id FROM search_vectorspace s JOIN chat_thread t ON t.id = NEW.thread_id"
                    " JOIN chat_message m ON m.thread_id = t.id AND m.seq BETWEEN NEW.seq AND NEW.seq + 1"
                    " WHERE s.workspace_id = t.workspace_id AND s.state <> 'retired' AND s.kind <> 'none'"
                    " AND m.deleted_at IS NULL AND m.state IN ('complete', 'stopped')"
                    " AND m.kind IN ('text', 'dive_result')"
                    " ON CONFLICT DO NOTHING;"
                    " RETURN NULL;"
                ),
            ),
            pgtrigger.Trigger(
                name="loses_attachments",
                operation=pgtrigger.UpdateOf("deleted_at"),
                when=pgtrigger.After,
                condition=pgtrigger.Q(new__deleted_at__isnull=False),
                func="DELETE FROM chat_attachment WHERE message_id = NEW.id; RETURN NULL;",
            ),
            pgtrigger.Trigger(
                name="loses_images",
                operation=pgtrigger.UpdateOf("deleted_at"),
                when=pgtrigger.After,
                condition=pgtrigger.Q(new__deleted_at__isnull=False),
                func="DELETE FROM chat_image WHERE message_id = NEW.id; RETURN NULL;",
            ),
            pgtrigger.Trigger(
                name="loses_reactions_and_saves",
                operation=pgtrigger.UpdateOf("deleted_at"),
                when=pgtrigger.After,
                condition=pgtrigger.Q(new__deleted_at__isnull=False),
                func=(
                    "DELETE FROM chat_reaction WHERE message_id = NEW.id;"
                    " DELETE FROM chat_savedmessage WHERE message_id = NEW.id;"
                    " RETURN NULL;"
                ),
            ),
        ]

    attached: Sequence[Mapping[str, Any]] = ()
    """The message's files without their content, where `with_authors_and_mentions` read it."""
    pictured: Sequence[Mapping[str, Any]] = ()
    """The message's images without their pixels, where `with_authors_and_mentions` read them."""
    mentioned: Sequence[Mapping[str, Any]] = ()
    """The participants it names (`participant_id`, `handle`, `note`), where `with_authors_and_mentions` read it."""
    reacted: Sequence[Mapping[str, Any]] = ()
    """The message's emoji in the order of their first use (`emoji`, `people`: ids, `names`: the first of them), where
    `with_authors_and_mentions` read it."""
    savers: Sequence[int] = ()
    """Participants who saved it, where `with_authors_and_mentions` read it: for nobody's eyes but their own."""

    def __str__(self) -> str:
        return f"{self.author} #{self.seq}"

    @property
    def is_deleted(self) -> bool:
        return self.deleted_at is not None


class MessageRevision(models.Model):
    """What a message said before an edit. Gone when the message is deleted."""

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="revisions")
    body = models.TextField()
    replaced_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["replaced_at"]


class Mention(models.Model):
    """Somebody was named in a message. `note` says, in words for people, why an agent named here did not answer."""

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="mentions", db_index=False)
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="mentions", db_index=False)
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = [F("id").asc()]
        constraints = [models.UniqueConstraint(fields=["message", "participant"], name="mention_once")]
        indexes = [models.Index(fields=["participant", "message"], name="mention_of")]


class MessageVector(models.Model):
    """`own`: the message with its author; `pair`: with the message before it. Unit length, `dimension` numbers.

    `parts`: the passages of a long message, each with its author, packed by
    `openvibe.engines.search.passages.binary_quantize`.
    `pair_signs`: a bit a number of `pair`, which an index alone answers with.
    """

    space = models.ForeignKey(VectorSpace, on_delete=models.CASCADE, related_name="+")
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+", db_index=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+", db_index=False)
    seq = models.PositiveBigIntegerField()
    dimension = models.PositiveSmallIntegerField()
    own = HalfVectorField()
    pair = HalfVectorField(null=True)
    parts = models.BinaryField(null=True)
    pair_signs = models.GeneratedField(
        expression=Cast(Func("pair", function="binary_quantize"), SignsField()),
        output_field=SignsField(),
        db_persist=True,
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["message", "space"], name="message_vector_once")]
        indexes = [
            models.Index(fields=["thread", "space", "seq"], name="message_vector_in_thread"),
            models.Index(
                fields=["thread", "space", "seq"],
                include=["dimension", "pair_signs"],
                condition=Q(Exact(F("seq") % 2, 0)),
                name="message_vector_signs",
            ),  # every second pair: together they hold every message
            HnswIndex(
                OpClass(Cast("own", HalfVectorField(dimensions=256)), name="halfvec_cosine_ops"),
                condition=Q(dimension=256),
                name="message_vector_hnsw_256",
            ),  # the built-in embedder's; others get theirs when their space is built
        ]


class MessageToEmbed(models.Model):
    """A message that has no vector in this space yet. The job that makes the vector takes the row away with it."""

    space = models.ForeignKey(VectorSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")
    try_again_at = models.DateTimeField(null=True, help_text="Set where the embedder could not take it.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["space", "message"], name="message_to_embed_once")]

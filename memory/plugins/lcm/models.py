"""The tables of lossless memory. What may be said of them in one row, the database promises itself.

A summary stands at the number of the first message it stands for, so ordinals never have to be given anew. "Parent"
is read both ways for the edges of this graph; they are called container and constituent."""

import pgtrigger
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Participant, Workspace

STALE_CONTENT = "[This part of the conversation is being summarised anew, because a message in it was changed.]"
"""What a summary says from the moment something it was made from is changed until it has been rebuilt."""

STALE_TOKENS = 20
"""Tokens of it (o200k_base)."""


class Conversation(models.Model):
    """A thread, as far as lossless memory has taken it in: all messages up to `seen_seq` are reachable from items."""

    thread = models.OneToOneField(Thread, on_delete=models.CASCADE, related_name="lcm_conversation")
    seen_seq = models.PositiveBigIntegerField(default=0)
    version = models.PositiveBigIntegerField(default=0, help_text="Counts changes of the items.")
    exhausted_version = models.PositiveBigIntegerField(
        null=True, help_text="The version at which nothing was left to compact."
    )

    def __str__(self) -> str:
        return f"Memory of thread {self.thread_id}"


class EndpointFailures(models.Model):
    """How often in a row an endpoint failed to write a workspace's summaries, and until when it is left alone.

    `endpoint` is None for a client that has no row of its own.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+", db_index=False)
    endpoint = models.ForeignKey(Endpoint, null=True, on_delete=models.CASCADE, related_name="+")
    failures = models.PositiveSmallIntegerField(default=0)
    paused_until = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "endpoint"], nulls_distinct=False, name="lcm_endpoint_failures_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.failures} failures of endpoint {self.endpoint_id}"


class Summary(models.Model):
    """What a stretch of the conversation comes to. Never rewritten, unless something it was made from was changed
    (`stale`), or a person corrects it.

    What it was made from are its messages or constituents, and the earlier summaries that were shown with them. All of
    that are messages from `source_from_seq` on, up to `last_seq`: whatever is changed there makes it stale, and takes
    its words out of it, by triggers on chat's messages (`FORGET_CHANGED` in the migrations).
    """

    class Kind(models.TextChoices):
        LEAF = "leaf", "Leaf"
        CONDENSED = "condensed", "Condensed"

    class Level(models.TextChoices):
        NORMAL = "normal", "Normal"
        AGGRESSIVE = "aggressive", "Durable facts only"
        FALLBACK = "fallback", "Cut from the source"
        CORRECTED = "corrected", "Corrected by a person"

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="summaries", db_index=False)
    kind = models.CharField(max_length=9, choices=Kind.choices)
    depth = models.PositiveSmallIntegerField(default=0)
    content = models.TextField()
    token_count = models.PositiveIntegerField(help_text="Tokens of the content (o200k_base).")
    first_seq = models.PositiveBigIntegerField()
    last_seq = models.PositiveBigIntegerField()
    source_from_seq = models.PositiveBigIntegerField(
        help_text="The first message that anything it was made from goes back to, earlier context included."
    )
    earliest_at = models.DateTimeField()
    latest_at = models.DateTimeField()
    message_count = models.PositiveIntegerField()
    source_tokens = models.PositiveIntegerField(help_text="Tokens of what it was made from.")
    level = models.CharField(max_length=10, choices=Level.choices)
    model = models.CharField(max_length=120)
    stale = models.BooleanField(default=False)
    version = models.PositiveIntegerField(db_default=1, help_text="Counts its rewritings.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    messages = models.ManyToManyField(Message, through="SummaryMessage", related_name="+")
    constituents = models.ManyToManyField(
        "self",
        through="SummaryEdge",
        symmetrical=False,
        through_fields=("container", "constituent"),
        related_name="containers",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["leaf", "condensed"]), name="summary_kind_known"),
            models.CheckConstraint(
                condition=Q(kind="leaf", depth=0) | Q(kind="condensed", depth__gte=1), name="summary_depth_fits_kind"
            ),
            models.CheckConstraint(condition=Q(content__regex=r"\S"), name="summary_not_empty"),
            models.CheckConstraint(
                condition=Q(level__in=["normal", "aggressive", "fallback", "corrected"]), name="summary_level_known"
            ),
            models.CheckConstraint(
                condition=Q(message_count__gte=1, token_count__gte=1), name="summary_stands_for_some"
            ),
            models.CheckConstraint(condition=Q(last_seq__gte=models.F("first_seq")), name="summary_seqs_in_order"),
            models.CheckConstraint(
                condition=Q(source_from_seq__lte=models.F("first_seq")), name="summary_source_holds_its_messages"
            ),
            models.CheckConstraint(condition=Q(latest_at__gte=models.F("earliest_at")), name="summary_times_in_order"),
        ]
        indexes = [
            models.Index(fields=["conversation", "depth", "first_seq"], name="summary_place"),
            models.Index(fields=["conversation"], condition=Q(stale=True), name="summary_stale"),
        ]
        triggers = [
            pgtrigger.Protect(
                name="rewritten_only_when_stale",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "NOT OLD.stale AND NOT NEW.stale AND OLD.content IS DISTINCT FROM NEW.content"
                    " AND NOT (NEW.level = 'corrected' AND NEW.version = OLD.version + 1)"
                    " OR OLD.conversation_id <> NEW.conversation_id OR OLD.depth <> NEW.depth"
                    " OR OLD.first_seq <> NEW.first_seq OR OLD.last_seq <> NEW.last_seq"
                ),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.first_seq}–{self.last_seq}"


class SummaryCorrection(models.Model):
    """A person put a summary right. Both texts are emptied when a message below the summary is edited or deleted."""

    summary = models.ForeignKey(Summary, on_delete=models.CASCADE, related_name="corrections", db_index=False)
    author = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    version = models.PositiveIntegerField(help_text="The summary's version since then.")
    previous = models.TextField(blank=True)
    content = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["summary", "version"], name="summary_corrected_once_a_version")]

    def __str__(self) -> str:
        return f"Correction {self.version} of {self.summary_id}"


class SummaryMessage(models.Model):
    """A leaf and a message it stands for. No message is in two leaves."""

    summary = models.ForeignKey(Summary, on_delete=models.CASCADE, related_name="links")
    message = models.OneToOneField(Message, on_delete=models.RESTRICT, related_name="+")

    class Meta:
        triggers = [
            pgtrigger.Trigger(
                name="same_conversation",
                operation=pgtrigger.Insert | pgtrigger.Update,
                when=pgtrigger.Before,
                func=(
                    "IF NOT EXISTS (SELECT FROM lcm_summary s JOIN lcm_conversation c ON c.id = s.conversation_id"
                    " JOIN chat_message m ON m.thread_id = c.thread_id"
                    " WHERE s.id = NEW.summary_id AND s.kind = 'leaf' AND m.id = NEW.message_id"
                    " AND m.seq BETWEEN s.first_seq AND s.last_seq) THEN"
                    " RAISE EXCEPTION 'a leaf holds messages of its own conversation' USING ERRCODE = '23514';"
                    " END IF; RETURN NEW;"
                ),
            )
        ]

    def __str__(self) -> str:
        return f"{self.message_id} in {self.summary_id}"


class SummaryEdge(models.Model):
    """A condensed summary (container) and a summary it stands for (constituent), which is in no other container."""

    container = models.ForeignKey(Summary, on_delete=models.CASCADE, related_name="edges_down")
    constituent = models.OneToOneField(Summary, on_delete=models.RESTRICT, related_name="edge_up")

    class Meta:
        triggers = [
            pgtrigger.Trigger(
                name="one_step_down",
                operation=pgtrigger.Insert | pgtrigger.Update,
                when=pgtrigger.Before,
                func=(
                    "IF NOT EXISTS (SELECT FROM lcm_summary up JOIN lcm_summary down"
                    " ON down.conversation_id = up.conversation_id AND up.depth = down.depth + 1"
                    " AND down.first_seq >= up.first_seq AND down.last_seq <= up.last_seq"
                    " WHERE up.id = NEW.container_id AND down.id = NEW.constituent_id) THEN"
                    " RAISE EXCEPTION 'a container stands one step above its constituents, in one conversation'"
                    " USING ERRCODE = '23514'; END IF; RETURN NEW;"
                ),
            )
        ]

    def __str__(self) -> str:
        return f"{self.constituent_id} in {self.container_id}"


class Item(models.Model):
    """One item of the context: exactly one of message and summary. `ordinal`: the number of its (first) message."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="items", db_index=False)
    ordinal = models.PositiveBigIntegerField()
    message = models.OneToOneField(Message, null=True, on_delete=models.RESTRICT, related_name="+")
    summary = models.OneToOneField(Summary, null=True, on_delete=models.RESTRICT, related_name="item")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "ordinal"], name="item_ordinal_once"),
            models.CheckConstraint(
                condition=Q(message__isnull=False, summary=None) | Q(message=None, summary__isnull=False),
                name="item_is_message_or_summary",
            ),
        ]
        indexes = [
            models.Index(fields=["conversation", "ordinal"], condition=Q(summary__isnull=False), name="item_summaries")
        ]
        triggers = [
            pgtrigger.Trigger(
                name="same_conversation",
                operation=pgtrigger.Insert | pgtrigger.Update,
                when=pgtrigger.Before,
                condition=pgtrigger.Condition("NEW.summary_id IS NOT NULL"),
                func=(
                    "IF NOT EXISTS (SELECT FROM lcm_summary s WHERE s.id = NEW.summary_id"
                    " AND s.conversation_id = NEW.conversation_id AND s.first_seq = NEW.ordinal) THEN"
                    " RAISE EXCEPTION 'an item holds a summary of its own conversation' USING ERRCODE = '23514';"
                    " END IF; RETURN NEW;"
                ),
            )
        ]

    def __str__(self) -> str:
        return f"{self.ordinal} of {self.conversation_id}"

"""Knowledge entries (topic, content, source, expiry), their revisions, contradictions, notices and vectors."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import Exists, F, Func, OuterRef, Q, Value
from django.db.models.functions import Cast, Now, Upper
from django.utils import timezone
from pgvector.django import HalfVectorField, HnswIndex

from openvibe.base.name_field import NameField
from openvibe.chat.models import Message, Thread, open_to_agent
from openvibe.engines.database.models import TimestampedModel
from openvibe.engines.search.lexeme_fields import LexemesField, LexemesVersionField, loses_lexemes
from openvibe.engines.search.lexemes import BODY, HEADING
from openvibe.engines.search.models import GIN_PENDING_LIST_KB, VectorSpace
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace

ENTRY_TOKEN_LIMIT = 2_000
MAX_TOPIC_CHARACTERS = 120


def _is_of_all(shut_out: str) -> Func:
    """Whether all of these (`Access.shut_out`) wrote or own the entry; it is so of none."""
    writers = Func("author_id", "owner_id", function="ARRAY", template="%(function)s[%(expressions)s]")
    readers = Value(shut_out or "{}")
    return Func(
        writers, readers, template="(%(expressions)s::bigint[])", arg_joiner=" @> ", output_field=models.BooleanField()
    )


class EntryQuerySet(models.QuerySet["Entry"]):
    def visible_to(self, access: Access) -> EntryQuerySet:
        """What the asker may read, whatever its status.

        Shared entries for those whose scope is shared or more; restricted ones for scope restricted, and for people
        also those they wrote or own. Where an agent answers, restricted ones only as far as everybody who reads the
        answer may read them, too (`Access.shut_out`). Agents never see what comes from a thread they may not know of,
        and people no suggestion from a conversation they do not see, until somebody accepted it.
        """
        entries = self.filter(workspace_id=access.workspace_id)
        if access.knowledge == "none":
            return entries.none()
        if access.is_agent:
            entries = entries.filter(Q(source_thread=None) | open_to_agent(access, "source_thread__"))
        own = Q(author_id=access.participant_id) | Q(owner_id=access.participant_id)
        if not access.is_agent:
            let_in = ~Q(source=Entry.Source.SUGGESTION) | Q(decided_at__isnull=False) | Q(source_thread=None)
            sources = Thread.objects.visible_to(access).filter(pk=OuterRef("source_thread_id")).order_by()
            entries = entries.filter(let_in | own | Exists(sources))
        shared = Q(visibility=Entry.Visibility.SHARED)
        if access.knowledge == "restricted":
            return entries.filter(shared | Q(_is_of_all(access.shut_out))) if access.is_agent else entries
        return entries.filter(shared if access.is_agent else shared | own)

    def with_related(self) -> EntryQuerySet:
        """The entries with all that pages and prompts show beside an entry, in the same query."""
        people = self.select_related("owner", "author__agent", "decided_by", "source_thread__channel")
        return people.defer("search")

    def current(self, now: datetime | None = None) -> EntryQuerySet:
        """Active and not expired at `now` (UTC; the default is this moment): what prompts may use.

        Expiry is inclusive: at the very instant the entry no longer holds.
        """
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now or timezone.now()), status=Entry.Status.ACTIVE)


class Entry(TimestampedModel):
    """`content` is Markdown of at most 2,000 tokens (o200k_base). Every change has a revision; `version` counts them.

    A superseded entry always has a successor; which entry supersedes which never closes a circle (a trigger).
    """

    class Kind(models.TextChoices):
        FACT = "fact", "Fact"
        DECISION = "decision", "Decision"
        POLICY = "policy", "Policy"
        RUNBOOK = "runbook", "Runbook"
        SCHEMA = "schema", "Schema"
        PLAN = "plan", "Plan"
        GAP = "gap", "Known gap"
        CONVENTION = "convention", "Convention"

    class Visibility(models.TextChoices):
        SHARED = "shared", "Everybody in the workspace, agents from L3"
        RESTRICTED = "restricted", "Admins and its owner, agents at L4"

    class Status(models.TextChoices):
        PROPOSED = "proposed", "Proposed"
        ACTIVE = "active", "Active"
        NEEDS_REVIEW = "needs_review", "Needs review"
        SUPERSEDED = "superseded", "Superseded"
        ARCHIVED = "archived", "Archived"

    class Source(models.TextChoices):
        RESULT = "result", "Dive result"
        MESSAGE = "message", "Message"
        MANUAL = "manual", "Written by hand"
        SUGGESTION = "suggestion", "Suggested by an agent"
        IMPORT = "import", "Imported"

    class Reason(models.TextChoices):
        """A reason why an entry waits for review, or was archived by itself."""

        EXPIRED = "expired", "It expired"
        CONTRADICTION = "contradiction", "It may contradict another entry"
        WRONG = "wrong", "Somebody said it was wrong"
        SOURCE_GONE = "source_gone", "What it was made from was deleted"
        UNUSED = "unused", "Nobody used it for 90 days"
        ASKED = "asked", "Somebody asked for a review"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="knowledge", db_index=False)
    topic = NameField(max_length=MAX_TOPIC_CHARACTERS)
    content = models.TextField()
    tokens = models.PositiveIntegerField(help_text="Tokens of the content (o200k_base).")
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.FACT)
    visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.SHARED)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.ACTIVE)
    status_since = models.DateTimeField(default=timezone.now, help_text="When the status last changed.")
    reason = models.CharField(
        max_length=16, choices=Reason.choices, blank=True, help_text="Why it waits for review or was archived."
    )
    reason_note = models.TextField(blank=True, help_text="What whoever sent it to review said.")
    expires_at = models.DateTimeField(null=True, blank=True, help_text="UTC; at this instant it no longer holds.")
    source = models.CharField(max_length=10, choices=Source.choices, default=Source.MANUAL)
    source_message = models.ForeignKey(
        Message, null=True, blank=True, on_delete=models.SET_NULL, related_name="knowledge"
    )
    source_thread = models.ForeignKey(
        Thread, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", help_text="Where it comes from."
    )
    author = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")
    owner = models.ForeignKey(
        Participant,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Who is told when it needs a review.",
        db_index=False,
    )
    decided_by = models.ForeignKey(
        Participant,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="The person who let it in.",
    )
    decided_at = models.DateTimeField(null=True, blank=True, help_text="When a person last said that it holds.")
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="successor"
    )
    tags = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    is_pinned = models.BooleanField(default=False, help_text="Kept even when nobody uses it for 90 days.")
    use_count = models.PositiveIntegerField(default=0)
    last_used_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    compared_version = models.PositiveIntegerField(
        default=0, editable=False, help_text="The version that was last compared with its neighbours."
    )
    client_id = models.CharField(max_length=100, blank=True, help_text="The sender's own key: the same is the same.")
    search = LexemesField(sources={"topic": HEADING, "content": BODY})
    lexemes_version = LexemesVersionField()

    objects: ClassVar[models.Manager[Entry]] = EntryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "entries"
        ordering = [F("id").desc()]
        constraints = [
            models.CheckConstraint(condition=~Q(topic="") & ~Q(content=""), name="entry_says_something"),
            models.CheckConstraint(condition=Q(tokens__lte=ENTRY_TOKEN_LIMIT), name="entry_fits"),
            models.CheckConstraint(
                condition=Q(kind__in=["fact", "decision", "policy", "runbook", "schema", "plan", "gap", "convention"]),
                name="entry_kind_known",
            ),
            models.CheckConstraint(condition=Q(visibility__in=["shared", "restricted"]), name="entry_visibility_known"),
            models.CheckConstraint(
                condition=Q(status__in=["proposed", "active", "needs_review", "superseded", "archived"]),
                name="entry_status_known",
            ),
            models.CheckConstraint(
                condition=Q(source__in=["result", "message", "manual", "suggestion", "import"]),
                name="entry_source_known",
            ),
            models.CheckConstraint(condition=~Q(supersedes=F("id")), name="entry_not_its_own_successor"),
            models.UniqueConstraint(
                fields=["source_message"],
                condition=Q(source="result", status__in=["proposed", "active", "needs_review"]),
                name="entry_result_pinned_once",
            ),
            models.UniqueConstraint(
                fields=["workspace", "author", "client_id"], condition=~Q(client_id=""), name="entry_client_id_once"
            ),
        ]
        indexes = [
            GinIndex(fields=["search"], gin_pending_list_limit=GIN_PENDING_LIST_KB, name="entry_search"),
            models.Index(fields=["workspace", "status", "-id"], name="entry_by_status"),
            models.Index(fields=["-id"], condition=Q(lexemes_version=0), name="entry_lexemes_due"),
            models.Index(fields=["workspace", "topic"], name="entry_by_topic"),
            models.Index("workspace", Upper("topic"), name="entry_by_topic_any_case"),
            models.Index(fields=["owner", "status"], name="entry_by_owner"),
            models.Index(
                fields=["expires_at"], condition=Q(status="active", expires_at__isnull=False), name="entry_expiring"
            ),
            models.Index(
                fields=["id"], condition=Q(status="active", compared_version__lt=F("version")), name="entry_to_compare"
            ),
        ]
        triggers = [
            loses_lexemes("topic", "content"),
            pgtrigger.Trigger(
                name="no_circle",
                operation=pgtrigger.Insert | pgtrigger.UpdateOf("supersedes_id"),
                when=pgtrigger.Before,
                condition=pgtrigger.Q(new__supersedes__isnull=False),
                declare=[("other", "bigint")],
                func=(
                    # One workspace's entries are linked one after the other, or two halves could close a circle.
                    "PERFORM pg_advisory_xact_lock(7002, NEW.workspace_id::int);"
                    " SELECT workspace_id INTO other FROM knowledge_entry WHERE id = NEW.supersedes_id;"
                    " IF other IS DISTINCT FROM NEW.workspace_id THEN"
                    " RAISE EXCEPTION 'An entry supersedes one of its own workspace.'"
                    " USING ERRCODE = 'check_violation'; END IF;"
                    " IF EXISTS (WITH RECURSIVE line (id) AS (SELECT NEW.supersedes_id UNION"
                    " SELECT e.supersedes_id FROM knowledge_entry e JOIN line ON e.id = line.id"
                    " WHERE e.supersedes_id IS NOT NULL) SELECT FROM line WHERE id = NEW.id) THEN"
                    " RAISE EXCEPTION 'Entries cannot supersede each other in a circle.'"
                    " USING ERRCODE = 'check_violation'; END IF;"
                    " RETURN NEW;"
                ),
            ),
            pgtrigger.Trigger(
                name="wants_vector",
                operation=pgtrigger.Insert | pgtrigger.UpdateOf("topic", "content"),
                when=pgtrigger.After,
                func=(
                    "IF TG_OP = 'UPDATE' THEN"
                    " IF (OLD.topic, OLD.content) IS NOT DISTINCT FROM (NEW.topic, NEW.content)"
                    " THEN RETURN NULL; END IF;"
                    " DELETE FROM knowledge_entryvector WHERE entry_id = NEW.id; END IF;"
                    " INSERT INTO knowledge_entrytoembed (space_id, entry_id)"
                    " SELECT id, NEW.id FROM search_vectorspace"
                    " WHERE workspace_id = NEW.workspace_id AND state <> 'retired' AND kind <> 'none'"
                    " ON CONFLICT DO NOTHING;"
                    " RETURN NULL;"
                ),
            ),
            pgtrigger.Trigger(
                name="tell_change",
                operation=pgtrigger.Insert | pgtrigger.UpdateOf("topic", "content", "status", "expires_at", "version"),
                when=pgtrigger.After,
                func=(
                    "INSERT INTO base_event (kind, workspace_id, created_at)"
                    " VALUES ('knowledge_changed', NEW.workspace_id, now());"
                    " RETURN NULL;"
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.topic

    def has_expired(self, now: datetime | None = None) -> bool:
        """Whether its time is over at `now`: the same inclusive rule as `EntryQuerySet.current`."""
        return self.expires_at is not None and self.expires_at <= (now or timezone.now())


LIVE_STATUSES = (Entry.Status.PROPOSED, Entry.Status.ACTIVE, Entry.Status.NEEDS_REVIEW)
"""Entries that were not put aside: the others are superseded or archived."""


class Revision(models.Model):
    """`number` is the entry's version after the change; `by` is None where a job made it.

    `changes` is `{field: [before, after]}`; the first revision holds what the entry began with.
    """

    class Action(models.TextChoices):
        CREATED = "created", "Written"
        PINNED = "pinned", "Pinned"
        SUGGESTED = "suggested", "Suggested"
        IMPORTED = "imported", "Imported"
        ACCEPTED = "accepted", "Accepted"
        REJECTED = "rejected", "Rejected"
        EDITED = "edited", "Edited"
        RENEWED = "renewed", "Renewed"
        SUPERSEDED = "superseded", "Superseded"
        ARCHIVED = "archived", "Archived"
        RESTORED = "restored", "Brought back"
        FLAGGED = "flagged", "Sent to review"
        EXPIRED = "expired", "Expired"
        SETTLED = "settled", "Contradiction settled"
        UNDONE = "undone", "Taken back"

    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="revisions", db_index=False)
    number = models.PositiveIntegerField()
    action = models.CharField(max_length=10, choices=Action.choices)
    by = models.ForeignKey(Participant, null=True, on_delete=models.PROTECT, related_name="+")
    how = models.CharField(max_length=10, help_text="What changed it: page, api, admin, agent, import, job.")
    note = models.TextField(blank=True, help_text="Why, in the words of whoever did it.")
    changes = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["entry", "number"], name="revision_number_once")]
        triggers = [pgtrigger.Protect(name="final", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"{self.get_action_display()} ({self.number})"


class Contradiction(models.Model):
    """`first` is the older entry. Found once a pair: settled as no contradiction, it is found again only when one of
    the two changes (`first_version`, `second_version` are what was compared)."""

    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="+")
    first = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="+", db_index=False)
    second = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="contradictions")
    first_version = models.PositiveIntegerField()
    second_version = models.PositiveIntegerField()
    why = models.CharField(max_length=300, help_text="What differs, in words for people.")
    found_by = models.CharField(max_length=10, default="rule", help_text="rule or model")
    found_at = models.DateTimeField(db_default=Now(), editable=False)
    settled_at = models.DateTimeField(null=True)
    settled_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    settled_how = models.CharField(max_length=20, blank=True, help_text="both_hold, edited, superseded or archived")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["first", "second"], name="contradiction_once_per_pair"),
            models.CheckConstraint(condition=Q(first__lt=F("second")), name="contradiction_older_first"),
        ]
        indexes = [
            models.Index(fields=["workspace", "-id"], condition=Q(settled_at=None), name="contradiction_open"),
            models.Index(fields=["second"], condition=Q(settled_at=None), name="contradiction_open_second"),
        ]

    def __str__(self) -> str:
        return f"{self.first_id} and {self.second_id}"


class Notice(models.Model):
    """An entry needs its owner. One open notice an entry, person and reason; seen once its page or the queue was."""

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="knowledge_notices")
    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="notices")
    reason = models.CharField(max_length=16, choices=[*Entry.Reason.choices, ("proposed", "An agent suggested it")])
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    seen_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["participant", "entry", "reason"], condition=Q(seen_at=None), name="notice_once_while_unseen"
            )
        ]
        indexes = [models.Index(fields=["participant", "-id"], condition=Q(seen_at=None), name="notice_unseen")]

    def __str__(self) -> str:
        return f"{self.reason}: {self.entry_id}"


class EntryVector(models.Model):
    """Topic and content together. Unit length, `dimension` numbers.

    `parts`: the passages of a long entry, each with its topic, packed by
    `openvibe.engines.search.passages.binary_quantize`.
    """

    space = models.ForeignKey(VectorSpace, on_delete=models.CASCADE, related_name="+")
    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="+", db_index=False)
    dimension = models.PositiveSmallIntegerField()
    own = HalfVectorField()
    parts = models.BinaryField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["entry", "space"], name="entry_vector_once")]
        indexes = [
            HnswIndex(
                OpClass(Cast("own", HalfVectorField(dimensions=256)), name="halfvec_cosine_ops"),
                condition=Q(dimension=256),
                name="entry_vector_hnsw_256",
            )  # the built-in embedder's; others get theirs when their space is built
        ]

    def __str__(self) -> str:
        return f"Vector of entry {self.entry_id}"


class EntryToEmbed(models.Model):
    """An entry that has no vector in this space yet. The job that makes the vector takes the row away with it."""

    space = models.ForeignKey(VectorSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="+")
    try_again_at = models.DateTimeField(null=True, help_text="Set where the embedder could not take it.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["space", "entry"], name="entry_to_embed_once")]

    def __str__(self) -> str:
        return f"Entry {self.entry_id} waits"

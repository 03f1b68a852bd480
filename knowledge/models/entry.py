"""Knowledge entries: topic, content, where it comes from, and until when it holds."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper
from django.utils import timezone

from openvibe.base.models import Timestamped
from openvibe.chat.models import Message, Thread, in_short_runs
from openvibe.search.models import PENDING
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace

ENTRY_TOKEN_LIMIT = 2_000
TOPIC = 120
"""Characters of a topic."""


class EntryQuerySet(models.QuerySet["Entry"]):
    def visible_to(self, access: Access) -> EntryQuerySet:
        """What the asker may read, whatever its status.

        Shared entries for those whose scope is shared or more; restricted ones for scope restricted, and for people
        also those they wrote or own. Agents never see what comes from a thread they may not know of.
        """
        entries = self.filter(workspace_id=access.workspace_id)
        if access.knowledge == "none":
            return entries.none()
        if access.is_agent:
            closed = Q(source_thread__access=Thread.Access.HUMAN_ONLY)
            listed = Thread.allowed_agents.through.objects.filter(participant_id=access.participant_id)
            unlisted = Q(source_thread__access=Thread.Access.AGENT_RESTRICTED) & ~(
                Q(source_thread__in=listed.values("thread_id"))
                | Q(source_thread__parent__in=listed.values("thread_id"))
            )
            entries = entries.exclude(closed | unlisted)
        if access.knowledge == "restricted":
            return entries
        shared = Q(visibility=Entry.Visibility.SHARED)
        own = Q(author_id=access.participant_id) | Q(owner_id=access.participant_id)
        return entries.filter(shared if access.is_agent else shared | own)

    def with_people(self) -> EntryQuerySet:
        """With all that pages and prompts show beside an entry, in the same query."""
        people = self.select_related("owner", "author__agent", "decided_by", "source_thread__channel")
        return people.defer("search")

    def holding(self, now: datetime | None = None) -> EntryQuerySet:
        """Active and not expired at `now` (UTC; the default is this moment): what prompts may use.

        Expiry is inclusive: at the very instant the entry no longer holds.
        """
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now or timezone.now()), status=Entry.Status.ACTIVE)


class Entry(Timestamped):
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
        """Why an entry waits for review, or was archived by itself."""

        EXPIRED = "expired", "It expired"
        CONTRADICTION = "contradiction", "It may contradict another entry"
        WRONG = "wrong", "Somebody said it was wrong"
        SOURCE_GONE = "source_gone", "What it was made from was deleted"
        UNUSED = "unused", "Nobody used it for 90 days"
        ASKED = "asked", "Somebody asked for a review"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="knowledge")
    topic = models.CharField(max_length=TOPIC)
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
        Participant, on_delete=models.PROTECT, related_name="+", help_text="Who is told when it needs a review."
    )
    decided_by = models.ForeignKey(
        Participant, null=True, blank=True, on_delete=models.PROTECT, related_name="+",
        help_text="The person who let it in.",
    )  # fmt: skip
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
    search = models.GeneratedField(
        expression=SearchVector("topic", weight="A", config="english")
        + SearchVector(in_short_runs("content"), weight="B", config="english"),
        output_field=SearchVectorField(),
        db_persist=True,
    )

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
            GinIndex(fields=["search"], gin_pending_list_limit=PENDING, name="entry_search"),
            models.Index(fields=["workspace", "status", "-id"], name="entry_by_status"),
            models.Index(fields=["workspace", "topic"], name="entry_by_topic"),
            models.Index("workspace", Upper("topic"), name="entry_by_topic_any_case"),
            models.Index(fields=["owner", "status"], name="entry_by_owner"),
            models.Index(
                fields=["expires_at"], condition=Q(status="active", expires_at__isnull=False), name="entry_expiring"
            ),
            models.Index(
                fields=["id"],
                condition=Q(status="active", compared_version__lt=F("version")),
                name="entry_to_compare",
            ),
        ]
        triggers = [
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
        """Whether its time is over at `now`: the same inclusive rule as `holding`."""
        return self.expires_at is not None and self.expires_at <= (now or timezone.now())


LIVING = (Entry.Status.PROPOSED, Entry.Status.ACTIVE, Entry.Status.NEEDS_REVIEW)
"""Entries that were not put aside: the others are superseded or archived."""

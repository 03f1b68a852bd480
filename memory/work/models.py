"""Work state in rows: work items, approvals, the progress log, and the handoffs written at compactions."""

from __future__ import annotations

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memory.plugins.models import Compaction
from openvibe.chat.models import Message, Thread
from openvibe.engines.database.models import TimestampedModel
from openvibe.workspaces.models import Participant


class WorkItemQuerySet(models.QuerySet["WorkItem"]):
    def open(self) -> WorkItemQuerySet:
        """What still holds: not done, not dropped."""
        return self.filter(state=WorkItem.State.OPEN)

    def binding(self) -> WorkItemQuerySet:
        """Constraints that are open and that a member set or confirmed."""
        return self.open().filter(kind=WorkKind.CONSTRAINT, confirmed_by__isnull=False)

    def standing_for(self, asker_id: int) -> WorkItemQuerySet:
        """What binds, and what the asker or somebody imported prefers."""
        theirs = Q(author=asker_id) | Q(author__kind=Participant.Kind.IMPORTED)
        binding = Q(kind=WorkKind.CONSTRAINT, confirmed_by__isnull=False)
        return self.open().filter(binding | Q(theirs, kind=WorkKind.PREFERENCE))


class WorkKind(models.TextChoices):
    OBJECTIVE = "objective", "Objective"
    CONSTRAINT = "constraint", "Constraint"
    PREFERENCE = "preference", "Preference"
    PLAN = "plan", "Plan"
    GOAL = "goal", "Goal"
    TODO = "todo", "To do"
    ARTIFACT = "artifact", "Artifact"
    ERROR_TRIED = "error_tried", "Error and what was tried"
    OPEN_QUESTION = "open_question", "Open question"
    DO_NOT_REDO = "do_not_redo", "Do not redo"


class WorkItem(TimestampedModel):
    """One row of a thread's work. `data` holds what the kind adds: a goal's `done_condition` and `budget`, an
    artifact's `ref`. `message` is where it was said, if anywhere.

    A constraint binds agents while it is open and `confirmed_by` names the member who stands behind it. One that a
    member writes is confirmed by that; what agents and guests write is a proposal until a member confirms it.

    A preference is what its author once asked for, in the words of a message; it stands in the prompts of that person's
    requests and binds nobody, until a member confirms it: then it is a constraint.
    """

    Kind = WorkKind

    class State(models.TextChoices):
        OPEN = "open", "Open"
        DONE = "done", "Done"
        DROPPED = "dropped", "Dropped"

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="work", db_index=False)
    kind = models.CharField(max_length=14, choices=Kind.choices)
    text = models.TextField()
    tokens = models.PositiveIntegerField(default=0)
    data = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=7, choices=State.choices, default=State.OPEN)
    author = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")
    message = models.ForeignKey(Message, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    version = models.PositiveIntegerField(default=1)
    closed_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    closed_at = models.DateTimeField(null=True)
    confirmed_by = models.ForeignKey(Participant, null=True, on_delete=models.PROTECT, related_name="+")

    objects: ClassVar[models.Manager[WorkItem]] = WorkItemQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=WorkKind.values), name="work_kind_known"),
            models.CheckConstraint(condition=Q(state__in=["open", "done", "dropped"]), name="work_state_known"),
            models.CheckConstraint(condition=Q(text__regex=r"\S"), name="work_not_empty"),
            models.CheckConstraint(
                condition=Q(state="open", closed_at=None) | ~Q(state="open"), name="work_open_is_not_closed"
            ),
            models.UniqueConstraint(
                fields=["thread"], condition=Q(kind="objective", state="open"), name="work_one_objective"
            ),
            models.UniqueConstraint(fields=["thread"], condition=Q(kind="plan", state="open"), name="work_one_plan"),
            models.CheckConstraint(
                condition=Q(confirmed_by=None) | Q(kind="constraint"), name="work_only_constraints_are_confirmed"
            ),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="members_confirm_constraints",
                operation=pgtrigger.Insert | pgtrigger.UpdateOf("confirmed_by_id"),
                when=pgtrigger.Before,
                condition=pgtrigger.Condition("NEW.kind = 'constraint'"),
                declare=[("member", "bigint")],
                func=(
                    "SELECT participant_id INTO member FROM workspaces_member"
                    " WHERE participant_id = COALESCE(NEW.confirmed_by_id, NEW.author_id) AND role <> 'guest';"
                    " IF NEW.confirmed_by_id IS NOT NULL AND member IS NULL THEN"
                    " RAISE EXCEPTION 'Only members confirm constraints.' USING ERRCODE = 'check_violation'; END IF;"
                    " IF TG_OP = 'INSERT' THEN NEW.confirmed_by_id := member; END IF;"
                    " RETURN NEW;"
                ),
            )
        ]
        indexes = [models.Index(fields=["thread", "kind", "id"], name="work_of_thread")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.text[:40]}"

    @property
    def is_proposal(self) -> bool:
        """A constraint that binds nobody yet."""
        return self.kind == WorkKind.CONSTRAINT and self.confirmed_by_id is None


class Approval(TimestampedModel):
    """Somebody asks whether something may be done; a person decides, or it lapses after a while. A field, never a
    sentence in a summary."""

    class State(models.TextChoices):
        REQUESTED = "requested", "Requested"
        GRANTED = "granted", "Granted"
        DENIED = "denied", "Denied"
        LAPSED = "lapsed", "Lapsed"

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="approvals", db_index=False)
    what = models.CharField(max_length=300, help_text="What would be done.")
    reason = models.TextField(blank=True, max_length=2000)
    requested_by = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=9, choices=State.choices, default=State.REQUESTED)
    decided_by = models.ForeignKey(Participant, null=True, on_delete=models.PROTECT, related_name="+")
    decided_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state="requested", decided_by=None, decided_at=None)
                | Q(state__in=["granted", "denied"], decided_by__isnull=False, decided_at__isnull=False)
                | Q(state="lapsed", decided_by=None, decided_at__isnull=False),
                name="approval_decided_by_somebody",
            )
        ]
        triggers = [
            pgtrigger.Protect(
                name="decision_is_final",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("OLD.state <> 'requested' AND OLD.* IS DISTINCT FROM NEW.*"),
            )
        ]
        indexes = [
            models.Index(fields=["thread", "id"], name="approval_of_thread"),
            models.Index(fields=["created_at"], condition=Q(state="requested"), name="approval_waiting"),
        ]

    def __str__(self) -> str:
        return f"{self.what} ({self.state})"


class ProgressEntry(models.Model):
    """A line of a thread's progress log. Only ever added to."""

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="progress", db_index=False)
    checkpoint = models.CharField(max_length=200)
    changed = models.TextField(blank=True, max_length=2000, help_text="What changed.")
    evidence = models.TextField(blank=True, max_length=2000)
    open_issues = models.TextField(blank=True, max_length=2000)
    next_action = models.TextField(blank=True, max_length=2000)
    author = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["thread", "-id"], name="progress_of_thread")]
        triggers = [pgtrigger.Protect(name="only_added_to", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return self.checkpoint


class Handoff(models.Model):
    """What is handed over at a compaction's boundary: fourteen sections (`memory.work.handoff.SECTIONS`). Never
    changed.

    `sections` holds what the work rows said, and ids of summaries; a summary's words are read from the summary, so
    that nothing deleted lives on here.
    """

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="handoffs", db_index=False)
    compaction = models.OneToOneField(Compaction, null=True, on_delete=models.SET_NULL, related_name="handoff")
    trigger = models.CharField(max_length=11, choices=Compaction.Trigger.choices)
    at_seq = models.PositiveBigIntegerField()
    sections = models.JSONField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["thread", "-id"], name="handoff_of_thread")]
        triggers = [
            pgtrigger.Protect(
                name="handoff_is_final",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("OLD.sections IS DISTINCT FROM NEW.sections"),
            )
        ]

    def __str__(self) -> str:
        return f"Handoff at {self.at_seq}"

"""What agents elsewhere ask leave for, the rules that decide without asking, and what they plan."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from agents.agent.models.agent import Agent
from agents.agent.models.run import Run

CALL_KINDS = ["read", "search", "think", "edit", "move", "delete", "execute", "fetch", "switch_mode", "other"]


class CallRule(models.Model):
    """What becomes of an agent's calls of one kind, everywhere or in one channel or thread: an admin's decision. Empty
    `pattern`: all calls of the kind."""

    class Effect(models.TextChoices):
        ALLOW = "allow", "Allow"
        ASK = "ask", "Ask first"
        DENY = "deny", "Deny"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="call_rules", db_index=False)
    kind = models.CharField(max_length=12, help_text="agents.agent.trust.CallKind")
    pattern = models.CharField(max_length=500, blank=True, default="", help_text="agents.agent.call_patterns")
    effect = models.CharField(max_length=5, choices=Effect.choices)
    channel = models.ForeignKey("chat.Channel", null=True, on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey("chat.Thread", null=True, on_delete=models.CASCADE, related_name="+")
    made_by = models.ForeignKey("workspaces.Participant", null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "kind", "pattern", "channel", "thread"], name="call_rule_once", nulls_distinct=False
            ),
            models.CheckConstraint(condition=Q(kind__in=CALL_KINDS), name="call_rule_kind_known"),
            models.CheckConstraint(condition=Q(effect__in=["allow", "ask", "deny"]), name="call_rule_effect_known"),
            models.CheckConstraint(condition=Q(channel=None) | Q(thread=None), name="call_rule_one_place"),
        ]

    def __str__(self) -> str:
        return f"{self.effect} {self.kind} {self.pattern}".strip()


class PermissionQuerySet(models.QuerySet["Permission"]):
    def with_text(self) -> PermissionQuerySet:
        return self.exclude(title="", command="", paths=[], arguments="", diff="", note="")

    def forget(self) -> int:
        """Empty their texts; how many. What was decided, by whom, and the figures stay."""
        return self.with_text().update(title="", command="", paths=[], arguments="", diff="", note="")


class Permission(models.Model):
    """A call of its own tools that an agent elsewhere asks leave for in a run, named by a key of the agent's, and the
    answer. Asked again it is not decided again.

    Its texts are as people read them: secrets masked, invisible characters as escapes. They leave with a deleted
    message of the thread, and after PROMPT_RETENTION_DAYS. `digest`: SHA-256 of all that was asked, by which the same
    call is known again.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waits for an answer"
        ALLOWED = "allowed", "Allowed"
        DENIED = "denied", "Denied"

    class Scope(models.TextChoices):
        ONCE = "once", "Once"
        ALWAYS = "always", "Always"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="permissions", db_index=False)
    attempt = models.PositiveSmallIntegerField()
    key = models.CharField(max_length=100)
    kind = models.CharField(max_length=12, help_text="agents.agent.trust.CallKind")
    title = models.CharField(max_length=300, blank=True)
    command = models.TextField(blank=True)
    paths = models.JSONField(default=list, db_default=[])
    arguments = models.TextField(blank=True)
    diff = models.TextField(blank=True, help_text="The beginning of it.")
    added = models.PositiveIntegerField(default=0, help_text="Lines that the whole diff adds.")
    removed = models.PositiveIntegerField(default=0)
    unkept_lines = models.PositiveIntegerField(default=0, help_text="Lines of the diff that are not kept.")
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=7, choices=State.choices)
    scope = models.CharField(max_length=6, choices=Scope.choices, blank=True, default="")
    why = models.CharField(max_length=300, blank=True)
    note = models.CharField(max_length=300, blank=True)
    rule = models.ForeignKey(CallRule, null=True, on_delete=models.SET_NULL, related_name="+")
    approval = models.OneToOneField(
        "memory.Approval", null=True, on_delete=models.SET_NULL, related_name="permission", help_text="The card."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, help_text="When it is denied for want of an answer.")
    decided_at = models.DateTimeField(null=True)

    objects: ClassVar[models.Manager[Permission]] = PermissionQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "attempt", "key"], name="permission_once"),
            models.CheckConstraint(condition=Q(kind__in=CALL_KINDS), name="permission_kind_known"),
            models.CheckConstraint(
                condition=Q(state="waiting", decided_at=None, expires_at__isnull=False)
                | Q(state__in=["allowed", "denied"], decided_at__isnull=False),
                name="permission_decided_once",
            ),
            models.CheckConstraint(condition=Q(scope__in=["", "once", "always"]), name="permission_scope_known"),
        ]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(state="waiting"), name="permission_waiting"),
            models.Index(
                fields=["created_at"],
                condition=~Q(title="", command="", paths=[], arguments="", diff="", note=""),
                name="permission_with_text",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} ({self.state})"


class AgentPlan(models.Model):
    """What an agent elsewhere plans in a thread, as it last told: entries of `content`, `status` and `priority`."""

    class Status(models.TextChoices):
        PENDING = "pending", "To do"
        IN_PROGRESS = "in_progress", "Under way"
        COMPLETED = "completed", "Done"

    class Priority(models.TextChoices):
        HIGH = "high", "High"
        MEDIUM = "medium", "Medium"
        LOW = "low", "Low"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+", db_index=False)
    thread = models.ForeignKey("chat.Thread", on_delete=models.CASCADE, related_name="agent_plans")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="plans", help_text="In which it was told.")
    entries = models.JSONField(default=list)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["agent", "thread"], name="agent_plan_once")]

    def __str__(self) -> str:
        return f"Plan of {len(self.entries)}"

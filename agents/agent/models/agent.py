"""Agents, their versioned SOULs, their trust, and the skills they have loaded."""

from __future__ import annotations

import pgtrigger
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.chat.models import Thread
from openvibe.engines.database.models import TimestampedModel
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Participant, Workspace


class Effort(models.TextChoices):
    """How long a model may think before it answers; in the words of `openvibe.engines.llm.values.CallOptions`."""

    OFF = "off", "Not at all"
    LOW = "low", "Briefly"
    MEDIUM = "medium", "For a while"
    HIGH = "high", "At length"


MAX_RUN_MINUTES = 2_880
"""The longest that one answer of an agent elsewhere may take: two days."""
MAX_PERMISSION_MINUTES = 1_440
"""The longest that a call of such an agent waits for an answer: a day."""


class Agent(TimestampedModel):
    """One-to-one with its participant. Deactivated, never deleted: what it said keeps its author."""

    class Level(models.IntegerChoices):
        OBSERVER = 1, "L1 Observer"
        ADVISOR = 2, "L2 Advisor"
        OPERATOR = 3, "L3 Operator"
        AUTONOMOUS = 4, "L4 Autonomous"

    participant = models.OneToOneField(Participant, on_delete=models.PROTECT, related_name="agent")
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="agents")
    level = models.PositiveSmallIntegerField(
        choices=Level.choices, default=Level.OBSERVER, validators=[MinValueValidator(1), MaxValueValidator(4)]
    )
    soul = models.ForeignKey(
        "agents.SoulVersion", null=True, on_delete=models.PROTECT, related_name="+", editable=False
    )
    endpoint = models.ForeignKey(
        Endpoint,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="agents",
        help_text="Empty: the workspace's default, or the offline model when there is none.",
    )
    fallback = models.ForeignKey(
        Endpoint,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="fallback_agents",
        verbose_name="fallback model",
        help_text="Answers where the model itself fails twice. Empty: the workspace's fallback, where it has one.",
    )
    daily_token_budget = models.PositiveIntegerField(default=500_000, help_text="Tokens it may use in one UTC day.")
    answers_itself = models.BooleanField(
        default=False,
        help_text="It listens and answers through the API with a model of its own; no runs are started for it here.",
    )
    effort = models.CharField(
        max_length=6,
        choices=Effort.choices,
        blank=True,
        default="",
        db_default="",
        help_text="How long its model may think before it answers, where it can be told. Empty: as the model does.",
    )
    proactive_cooldown = models.PositiveSmallIntegerField(
        default=10,
        validators=[MaxValueValidator(1_440)],
        help_text="Minutes between two messages that it posts unasked.",
    )
    run_minutes = models.PositiveSmallIntegerField(
        default=240,
        db_default=240,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_RUN_MINUTES)],
        help_text="Minutes that one answer may take where its program writes it; then it fails.",
    )
    permission_minutes = models.PositiveSmallIntegerField(
        default=15,
        db_default=15,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_PERMISSION_MINUTES)],
        help_text="Minutes that a call it asks leave for waits for an answer; then it is denied.",
    )
    deactivated_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(level__gte=1, level__lte=4), name="agent_level_known"),
            models.CheckConstraint(
                condition=Q(endpoint=None) | Q(fallback=None) | ~Q(fallback=models.F("endpoint")),
                name="agent_fallback_is_another",
            ),
            models.CheckConstraint(condition=Q(effort__in=["", *Effort.values]), name="agent_effort_known"),
            models.CheckConstraint(
                condition=Q(run_minutes__gte=1, run_minutes__lte=MAX_RUN_MINUTES), name="agent_run_minutes_bounded"
            ),
            models.CheckConstraint(
                condition=Q(permission_minutes__gte=1, permission_minutes__lte=MAX_PERMISSION_MINUTES),
                name="agent_permission_minutes_bounded",
            ),
        ]

    def __str__(self) -> str:
        return self.participant.name

    @property
    def is_active(self) -> bool:
        return self.deactivated_at is None

    @property
    def handle(self) -> str:
        return self.participant.handle


class SoulVersion(models.Model):
    """One saved SOUL. The database refuses to change or delete it."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="soul_versions", db_index=False)
    number = models.PositiveIntegerField()
    content = models.JSONField(help_text="The SOUL as agents.agent.soul.soul_to_dict gives it.")
    source = models.TextField(help_text="The YAML as it was written.")
    token_count = models.PositiveIntegerField(help_text="Tokens of the fullest rendering (o200k_base).")
    note = models.CharField(max_length=300)
    author = models.ForeignKey(Participant, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "number"], name="soul_version_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="soul_version_from_one"),
            models.CheckConstraint(condition=Q(token_count__lte=2000), name="soul_version_fits"),
            models.CheckConstraint(condition=~Q(note=""), name="soul_version_has_note"),
        ]
        triggers = [pgtrigger.Protect(name="soul_version_is_final", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"Version {self.number}"


class TrustChange(models.Model):
    """The audit trail of trust levels: who set what, and why. Never changed."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="trust_changes")
    level_before = models.PositiveSmallIntegerField(choices=Agent.Level.choices)
    level_after = models.PositiveSmallIntegerField(choices=Agent.Level.choices)
    note = models.CharField(max_length=300)
    by = models.ForeignKey(Participant, null=True, on_delete=models.PROTECT, related_name="+")
    by_name = models.CharField(max_length=80)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [models.CheckConstraint(condition=~Q(note=""), name="trust_change_has_note")]
        triggers = [pgtrigger.Protect(name="trust_change_is_final", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"L{self.level_before} → L{self.level_after}"


class LoadedSkill(models.Model):
    """A skill an agent has taken up in a thread: its text stands in the agent's prompts there until it is put down."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="loaded_skills", db_index=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=80)
    loaded_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["agent", "thread", "name"], name="skill_loaded_once")]

    def __str__(self) -> str:
        return self.name

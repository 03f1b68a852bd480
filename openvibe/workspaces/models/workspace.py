"""Workspaces, the snippets of their instructions, and what they spend in the background."""

import pgtrigger
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.base.name_field import NameField
from openvibe.engines.database.models import TimestampedModel

snippet_name_validator = RegexValidator(
    r"^[a-z0-9][a-z0-9_-]{0,39}\Z", "Use 1 to 40 of a-z, 0-9, - and _, starting with a letter or digit."
)

MAX_INSTRUCTION_TOKENS = 2_000
"""Tokens of the instructions of one scope, with all that they include. Those of the organisation always fit beside the
SOUL in P0."""


class Workspace(TimestampedModel):
    """A tenant: people, channels, agents and knowledge that never meet another workspace's."""

    name = NameField(max_length=80)
    slug = models.SlugField(max_length=40, unique=True)
    description = models.TextField(
        blank=True, max_length=1000, help_text="Who you are; agents read it (≤ 200 tokens are used)."
    )
    instructions = models.TextField(
        blank=True, help_text="Organisation instructions: trusted, in every agent's prompt, at most 2,000 tokens."
    )
    budgets = models.JSONField(default=dict, blank=True, help_text="Token budgets that differ from the defaults.")
    daily_token_budget = models.PositiveIntegerField(
        default=2_000_000, help_text="Tokens all agents together may use in one UTC day."
    )

    class Meta:
        triggers = [
            pgtrigger.Trigger(
                name="has_vector_space",
                operation=pgtrigger.Insert,
                when=pgtrigger.After,
                func=(
                    "INSERT INTO search_vectorspace"
                    " (workspace_id, kind, model, dimension, state, problem, failures, served_since)"
                    " VALUES (NEW.id, 'static', '', 256, 'serving', '', 0, now());"
                    " RETURN NULL;"
                ),
            )
        ]

    def __str__(self) -> str:
        return self.name


class Snippet(TimestampedModel):
    """A text with a name that instructions include (`@include name`): trusted, written by admins only."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="snippets", db_index=False)
    name = models.CharField(max_length=40, validators=[snippet_name_validator])
    text = models.TextField()
    version = models.PositiveIntegerField(default=1, help_text="Counts its changes.")
    changed_by = models.ForeignKey("Participant", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="snippet_name_unique"),
            models.CheckConstraint(condition=Q(name__regex=r"^[a-z0-9][a-z0-9_-]{0,39}$"), name="snippet_name_form"),
        ]

    def __str__(self) -> str:
        return f"@include {self.name}"


class Spending(models.Model):
    """What one model call in the background cost, in tokens. Calls of runs are counted in the runs."""

    class Purpose(models.TextChoices):
        SUMMARIES = "summaries", "Summaries"
        REVIEW = "review", "Reviews"
        CONTRADICTIONS = "contradictions", "Contradictions"
        TRIALS = "trials", "Trial questions"
        WATCHING = "watching", "Watching"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="spendings", db_index=False)
    agent = models.ForeignKey(
        "Participant",
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="Whose budget it counts against.",
        db_index=False,
    )
    channel = models.ForeignKey(
        "chat.Channel",
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Whose budget it counts against, too: that of the conversation it is about.",
        db_index=False,
    )
    purpose = models.CharField(max_length=14, choices=Purpose.choices)
    model = models.CharField(max_length=120)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(
        null=True, help_text="Of the input, read from the provider's cache. Empty where the provider did not say."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "background call"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["workspace", "-created_at"], name="spending_of_workspace"),
            models.Index(fields=["agent", "-created_at"], name="spending_of_agent"),
        ]

    def __str__(self) -> str:
        return f"{self.get_purpose_display()}: {self.input_tokens + self.output_tokens:,} tokens"

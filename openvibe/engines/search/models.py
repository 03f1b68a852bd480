"""Vector spaces: which embedder a workspace's texts are compared with, and how far its vectors are made."""

from __future__ import annotations

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q
from django.db.models.functions import Now

MAX_DIMENSION = 4_000
"""Numbers in a vector: the most that pgvector's HNSW index takes of half precision."""
GIN_PENDING_LIST_KB = 256
"""kB of the newest words that a full text index may hold in no order. Short, since every search reads all of it."""


class SignsField(models.Field):  # type: ignore[type-arg]  # takes none when it runs
    """A bit for each number of a vector, 1 above zero: what pgvector's `binary_quantize` gives, of any length."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "varbit"


class VectorSpace(models.Model):
    """The vectors that one embedder makes for one workspace.

    `building`: vectors are being made while another space serves; `serving`: searches use it; `retired`: its vectors
    are being removed. A workspace gets a serving space of the built-in embedder when it is made (a trigger of
    `workspaces.Workspace`), so there always is one.
    """

    class Kind(models.TextChoices):
        STATIC = "static", "Built in (no network)"
        MULTILINGUAL = "multilingual", "Multilingual (no network)"
        OPENAI = "openai", "OpenAI-compatible endpoint"
        NONE = "none", "None: full text alone"

    class State(models.TextChoices):
        BUILDING = "building", "Being built"
        SERVING = "serving", "In use"
        RETIRED = "retired", "Being removed"

    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="vector_spaces")
    kind = models.CharField(max_length=12, choices=Kind.choices, default=Kind.STATIC)
    endpoint = models.ForeignKey("llm.Endpoint", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    model = models.CharField(max_length=200, blank=True, help_text="The embedding model, as the endpoint knows it.")
    address = models.CharField(
        max_length=500,
        blank=True,
        default="",
        db_default="",
        help_text="Where the endpoint was when this space began: somewhere else may be another model.",
    )
    dimension = models.PositiveSmallIntegerField(
        default=0, help_text="Numbers in a vector; 0 until the first one was made."
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.BUILDING)
    problem = models.TextField(blank=True, help_text="Why it cannot go on at the moment, in words for people.")
    failures = models.PositiveSmallIntegerField(default=0, help_text="In a row.")
    try_again_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    served_since = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "search embedder"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["workspace"], condition=Q(state="serving"), name="search_one_serving"),
            models.UniqueConstraint(fields=["workspace"], condition=Q(state="building"), name="search_one_building"),
            models.CheckConstraint(
                condition=Q(kind__in=["static", "multilingual", "openai", "none"]), name="search_kind_known"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["building", "serving", "retired"]), name="search_state_known"
            ),
            models.CheckConstraint(condition=Q(dimension__lte=MAX_DIMENSION), name="search_dimension_indexable"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} ({self.state})"

    @property
    def embedder(self) -> tuple[str, int | None, str, str]:
        """What tells its embedder from others: vectors of two embedders do not compare."""
        return self.kind, self.endpoint_id, self.address, self.model

    @property
    def title(self) -> str:
        """The name of its embedder, for people."""
        return f"{self.model} at {self.address}" if self.kind == self.Kind.OPENAI else self.get_kind_display()

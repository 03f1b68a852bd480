"""What entries mean, as vectors, and which entries still wait for theirs. Triggers of `Entry` keep both true."""

from __future__ import annotations

from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models import Q
from django.db.models.functions import Cast
from pgvector.django import HalfVectorField, HnswIndex

from knowledge.models.entry import Entry
from openvibe.search.models import VectorSpace


class EntryVector(models.Model):
    """Topic and content together. Unit length, `dimension` numbers.

    `parts`: the passages of a long entry, each with its topic, as `openvibe.search.passages.signs_of` packs them.
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
            ),  # the built-in embedder's; others get theirs when their space is built
        ]

    def __str__(self) -> str:
        return f"Vector of entry {self.entry_id}"


class EntryToEmbed(models.Model):
    """An entry that has no vector in this space yet. The job that makes the vector takes the row away with it."""

    space = models.ForeignKey(VectorSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["space", "entry"], name="entry_to_embed_once")]

    def __str__(self) -> str:
        return f"Entry {self.entry_id} waits"

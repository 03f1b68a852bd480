"""What messages mean, as vectors, and which messages still wait for theirs.

Triggers of `Message` keep the promise: a text that changes loses its vector in the same transaction, and so does the
message after it, whose pair holds that text too. Both are made anew.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Cast
from django.db.models.lookups import Exact
from pgvector.django import HalfVectorField, HnswIndex

from openvibe.chat.models.message import Message
from openvibe.chat.models.thread import Thread
from openvibe.search.models import SignsField, VectorSpace


class MessageVector(models.Model):
    """`own`: the message with its author; `pair`: with the message before it. Unit length, `dimension` numbers.

    `parts`: the passages of a long message, each with its author, as `openvibe.search.passages.signs_of` packs them.
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

    def __str__(self) -> str:
        return f"Vector of message {self.message_id}"


class MessageToEmbed(models.Model):
    """A message that has no vector in this space yet. The job that makes the vector takes the row away with it."""

    space = models.ForeignKey(VectorSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["space", "message"], name="message_to_embed_once")]

    def __str__(self) -> str:
        return f"Message {self.message_id} waits"

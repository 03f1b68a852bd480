"""What chat clients ask, and the threads it is kept in."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from agents.agent.models.agent import Agent
from agents.agent.models.run import Run
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Participant


class ClientConversation(models.Model):
    """A conversation that a chat client leads with an agent through the OpenAI-compatible door, kept in a thread.

    `key`: what the client itself calls it; empty where it is known by its history. `instructions_digest`: SHA-256 of
    the client's instructions that were stored last.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    caller = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+")
    thread = models.OneToOneField(Thread, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=80, blank=True)
    instructions_digest = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["caller", "agent", "key"], condition=~Q(key=""), name="client_conversation_once"
            )
        ]

    def __str__(self) -> str:
        return self.key or f"Conversation {self.pk}"


class ClientTurn(models.Model):
    """A request of a chat client, and the run that answers it.

    `digest`: SHA-256 of the history it sent, this request included. `tools`: the client's own, which the client carries
    out; `continues`: the turn whose calls this one brought the results of; `awaited`: how many requests wait for the
    answer, the same one sent again among them; `options`: how the client wants to be answered.
    """

    conversation = models.ForeignKey(ClientConversation, on_delete=models.CASCADE, related_name="turns")
    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="client_turn")
    digest = models.CharField(max_length=64)
    tools = models.JSONField(default=list, help_text="Name, description and parameters of each.")
    max_output_tokens = models.PositiveIntegerField(null=True)
    options = models.JSONField(
        default=dict, db_default={}, help_text="How it is to be answered: agents.openai_api.options."
    )
    continues = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    stop_reason = models.CharField(max_length=20, blank=True, help_text="The model's, of its last turn.")
    awaited = models.PositiveIntegerField(default=1, db_default=1)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["digest"], name="client_turn_digest")]

    def __str__(self) -> str:
        return f"Turn of run {self.run_id}"

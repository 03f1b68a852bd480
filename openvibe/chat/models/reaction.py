"""Emoji that people and agents put on a message."""

from __future__ import annotations

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.chat.models.message import Message
from openvibe.chat.models.visibility import visible_threads
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MAX_EMOJI_CODE_POINTS = 16
MAX_EMOJI_OF_MESSAGE = 20
"""Different ones on one message: a trigger below says it, too."""


class ReactionQuerySet(models.QuerySet["Reaction"]):
    def visible_to(self, access: Access) -> ReactionQuerySet:
        """Reactions to messages that the asker sees, as `MessageQuerySet.visible_to` has it."""
        reactions = self.filter(visible_threads(access, "message__thread__"))
        return reactions if access.reads_dive_results else reactions.exclude(message__kind=Message.Kind.DIVE_RESULT)


class Reaction(models.Model):
    """Somebody's emoji on a message. It is not feedback: no prompt holds it. Gone when its message is deleted.

    A trigger, under the message's lock, refuses the 21st different emoji, and any on a deleted message.
    """

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="reactions", db_index=False)
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="reactions")
    emoji = models.CharField(max_length=MAX_EMOJI_CODE_POINTS, help_text="One, in its fully qualified form.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[models.Manager[Reaction]] = ReactionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["message", "emoji", "participant"], name="reaction_once"),
            models.CheckConstraint(condition=~Q(emoji=""), name="reaction_has_emoji"),
        ]
        triggers = [
            pgtrigger.Protect(name="reaction_is_final", operation=pgtrigger.Update),
            pgtrigger.Trigger(
                name="emoji_of_message_bounded",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                func=(
                    "PERFORM FROM chat_message WHERE id = NEW.message_id AND deleted_at IS NULL FOR NO KEY UPDATE;"
                    " IF NOT FOUND THEN RAISE EXCEPTION 'Nobody reacts to a deleted message.'"
                    " USING ERRCODE = 'check_violation'; END IF;"
                    " IF NOT EXISTS (SELECT FROM chat_reaction WHERE message_id = NEW.message_id"
                    " AND emoji = NEW.emoji) AND (SELECT count(DISTINCT emoji) FROM chat_reaction"
                    " WHERE message_id = NEW.message_id) >= 20"
                    " THEN RAISE EXCEPTION 'A message has at most 20 different emoji.'"
                    " USING ERRCODE = 'check_violation'; END IF;"
                    " RETURN NEW;"
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.emoji

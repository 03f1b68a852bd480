"""Verbs of remembering."""

from memory.services.episodes import delete_episode, mark_applied, record_failure, reopen
from memory.services.feedback import give_feedback, withdraw_feedback

__all__ = ["delete_episode", "give_feedback", "mark_applied", "record_failure", "reopen", "withdraw_feedback"]

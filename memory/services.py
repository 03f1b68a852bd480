"""Memory's services, re-exported from its rooms: the verbs that other apps call."""

from memory.episodes.services import (
    delete_episode,
    give_feedback,
    mark_applied,
    record_failure,
    reopen_episode,
    withdraw_feedback,
)

__all__ = ["delete_episode", "give_feedback", "mark_applied", "record_failure", "reopen_episode", "withdraw_feedback"]

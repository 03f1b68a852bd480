"""What became of a 👎, in the words of the chip on its message."""

from memory.models import Episode


def fate_words(episode: Episode) -> str:
    """Recorded → In prompt 3× → Applied by Ana, or Withdrawn. `applied_by` should be loaded."""
    if episode.applied_how == "withdrawn":
        return "Withdrawn"
    if episode.applied_at is not None:
        by = episode.applied_by.name if episode.applied_by else "somebody who has left"
        return f"Applied to the SOUL by {by}" if episode.applied_how == "soul" else f"Applied by {by}"
    return f"In prompt {episode.prompt_count}×" if episode.prompt_count else "Recorded"

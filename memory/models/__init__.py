"""What is remembered: verdicts on agents' messages, and what each agent remembers about its own past."""

from memory.models.episode import Episode
from memory.models.feedback import Feedback

__all__ = ["Episode", "Feedback"]

"""What a workspace knows: entries, every change of them, contradictions, notices, and their vectors."""

from knowledge.models.contradiction import Contradiction
from knowledge.models.entry import ENTRY_TOKEN_LIMIT, LIVING, TOPIC, Entry, EntryQuerySet
from knowledge.models.notice import Notice
from knowledge.models.revision import Revision
from knowledge.models.vector import EntryToEmbed, EntryVector

__all__ = [
    "ENTRY_TOKEN_LIMIT",
    "LIVING",
    "TOPIC",
    "Contradiction",
    "Entry",
    "EntryQuerySet",
    "EntryToEmbed",
    "EntryVector",
    "Notice",
    "Revision",
]

"""What a few characters may stand for: ids of threads, and handles of agents, for programs that complete arguments."""

from collections.abc import Iterable

from django.db.models import CharField, Q, QuerySet
from django.db.models.functions import Cast

from openvibe.chat.models import Thread, participants_known_to
from openvibe.workspaces.access import Access


def threads_by_hint(access: Access, hint: str) -> QuerySet[Thread, int]:
    """Ids of threads that the asker sees, the newest first: those that begin with the hint, or have it in the title."""
    threads = Thread.objects.visible_to(access).alias(number=Cast("pk", CharField()))
    matches = Q(number__startswith=hint) | Q(title__icontains=hint)
    return threads.filter(matches).order_by("-pk").values_list("pk", flat=True)


def agents_by_hint(access: Access, hint: str) -> Iterable[str]:
    """Handles of agents that the asker knows, by their first characters."""
    agents = participants_known_to(access).filter(kind="agent", handle__startswith=hint.lstrip("@").lower())
    return agents.order_by("handle").values_list("handle", flat=True)

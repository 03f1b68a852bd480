"""What agents watch, and what came of it, as far as somebody may see."""

from dataclasses import dataclass

from django.db.models import QuerySet, Sum

from agents.agent.models import Agent, Watch, WatchLook
from openvibe.chat.queries import visible_threads
from openvibe.workspaces.access import Access


@dataclass(frozen=True)
class LookCounts:
    """How often an agent looked and was silent, and how often it spoke up, in the channels that the asker sees;
    `unseen`: other channels that it watches."""

    watches: int
    silent: int
    spoke: int
    unseen: int = 0


def count_looks(agent: Agent, access: Access) -> LookCounts:
    """Two queries."""
    seen = Watch.objects.visible_to(access).filter(agent=agent)
    sums = seen.order_by().aggregate(silent=Sum("silence_count"), spoke=Sum("post_count"))
    states = list(Watch.objects.filter(agent=agent, is_active=True).values_list("pk", flat=True))
    on = seen.filter(pk__in=states).count() if states else 0
    return LookCounts(on, sums["silent"] or 0, sums["spoke"] or 0, len(states) - on)


def visible_looks(access: Access) -> QuerySet[WatchLook]:
    """Looks at threads that the asker sees; none for guests and agents: they tell of a SOUL, and of what was not
    said."""
    if access.is_guest or access.is_agent:
        return WatchLook.objects.none()
    return WatchLook.objects.filter(visible_threads(access, "thread__"), watch__agent__workspace=access.workspace_id)

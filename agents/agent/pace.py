"""Pace: how often an agent posts without being asked, on schedule or because it watches."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import QuerySet

from agents.agent.models import Agent, Run
from openvibe.engines.text.cleaning import pluralize

MAX_PROACTIVE_PER_DAY = 20
"""Messages that an agent posts unasked in one UTC day (spec: agents.md)."""

UNASKED_TASKS = (Run.Task.SCHEDULED, Run.Task.PROACTIVE)

CLOCK_SLACK = timedelta(days=1)
"""What is dated further ahead was written while the server's clock was wrong."""


@dataclass(frozen=True)
class PaceDenial:
    """The reason why it is too soon, or `is_for_today`, too much for one day, as a sentence; and until when."""

    reason: str
    until: datetime
    is_for_today: bool = False


def pace_denial(agent: Agent, now: datetime) -> PaceDenial | None:
    """What keeps the agent from posting unasked at this moment. The caller holds the agent's row. Two queries."""
    posted = unasked_runs(agent).filter(trigger__created_at__lt=now + CLOCK_SLACK)
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if posted.filter(trigger__created_at__gte=midnight).count() >= MAX_PROACTIVE_PER_DAY:
        words = f"It posted {MAX_PROACTIVE_PER_DAY} times unasked today, the most it may. It goes on at midnight UTC."
        return PaceDenial(words, midnight + timedelta(days=1), is_for_today=True)
    cooldown = timedelta(minutes=agent.proactive_cooldown)
    newest = posted.filter(trigger__created_at__gt=now - cooldown).order_by("-trigger__created_at")
    last_at = newest.values_list("trigger__created_at", flat=True).first()
    if last_at is None:
        return None
    words = f"It posted unasked less than {pluralize(agent.proactive_cooldown, 'minute')} before."
    return PaceDenial(words, last_at + cooldown)


def unasked_runs(agent: Agent) -> QuerySet[Run]:
    """The agent's runs that nobody asked for, but those that answer one of them anew."""
    return Run.objects.filter(agent=agent, task__in=UNASKED_TASKS, regenerates=None)

"""Jobs of memory: ids in, one call each."""

from celery import shared_task
from django.utils import timezone

from memory.episodes.models import Episode
from memory.episodes.session_review import review_due_sessions
from memory.plugins.tasks import check_compaction_due, run_compaction, sweep_compactions
from memory.work.approvals import lapse_overdue_approvals

__all__ = [
    "check_compaction_due",
    "delete_expired_episodes",
    "lapse_approvals",
    "review_sessions",
    "run_compaction",
    "sweep_compactions",
]


@shared_task(name="memory.forget_episodes")
def delete_expired_episodes() -> dict[str, int]:
    """Episodes past their 90 days. Feedback has no such day: it stays until a person settles or deletes it."""
    return {"episodes deleted": Episode.objects.filter(expires_at__lte=timezone.now()).delete()[0]}


@shared_task(name="memory.review_sessions", ignore_result=True, expires=3_000)
def review_sessions() -> dict[str, int]:
    """Agents look back at new messages and propose what they would learn; a bounded number of threads each hour."""
    return {"threads reviewed": review_due_sessions()}


@shared_task(name="memory.lapse_approvals", ignore_result=True, expires=3_000)
def lapse_approvals() -> dict[str, int]:
    """Approvals that nobody decided in time are asked about no more."""
    return {"approvals lapsed": lapse_overdue_approvals()}

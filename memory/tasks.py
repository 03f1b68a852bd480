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
def delete_expired_episodes() -> None:
    """Episodes past their 90 days. Feedback has no such day: it stays until a person settles or deletes it."""
    Episode.objects.filter(expires_at__lte=timezone.now()).delete()


@shared_task(name="memory.review_sessions", ignore_result=True, expires=3_000)
def review_sessions() -> None:
    """Agents look back at new messages and propose what they would learn; a bounded number of threads each hour."""
    review_due_sessions()


@shared_task(name="memory.lapse_approvals", ignore_result=True, expires=3_000)
def lapse_approvals() -> None:
    """Approvals that nobody decided in time are asked about no more."""
    lapse_overdue_approvals()

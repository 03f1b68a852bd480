"""Jobs of memory."""

from celery import shared_task
from django.utils import timezone

from memory.models import Episode


@shared_task(name="memory.forget_episodes")
def forget_episodes() -> None:
    """Episodes past their 90 days. Feedback has no such day: it stays until a person settles or deletes it."""
    Episode.objects.filter(expires_at__lte=timezone.now()).delete()

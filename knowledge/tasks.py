"""Jobs of knowledge: one call each."""

from celery import shared_task

from knowledge import maintenance
from knowledge.contradictions.detect import detect_contradictions
from knowledge.search import embed_pending_entries

TURN_SECONDS = 8.0
"""The rest waits for the next turn, so that no worker is kept from answering people."""


@shared_task(name="knowledge.embed_entries", ignore_result=True, expires=30)
def embed_entries() -> dict[str, int]:
    return {"vectors made": embed_pending_entries(seconds=TURN_SECONDS)}


@shared_task(name="knowledge.expire_entries", ignore_result=True, expires=60)
def expire_entries() -> dict[str, int]:
    return {"entries expired": maintenance.expire_entries()}


@shared_task(name="knowledge.archive_unused", ignore_result=True, expires=3_600)
def archive_unused() -> dict[str, int]:
    return {"entries archived": maintenance.archive_unused()}


@shared_task(name="knowledge.find_contradictions", ignore_result=True, expires=60)
def find_contradictions() -> dict[str, int]:
    return {"entries compared": detect_contradictions(seconds=TURN_SECONDS)}

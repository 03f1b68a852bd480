"""Jobs of search: one call each."""

from celery import shared_task

from openvibe.engines.search.lexeme_backfill import backfill_lexemes
from openvibe.engines.search.space_lifecycle import advance_spaces


@shared_task(name="search.settle_spaces", ignore_result=True, expires=30)
def advance_spaces_task() -> dict[str, int]:
    return {"vector spaces put to use": advance_spaces()}


@shared_task(name="search.backfill_lexemes", ignore_result=True, expires=30)
def backfill_lexemes_task() -> dict[str, int]:
    return {"texts indexed": backfill_lexemes()}

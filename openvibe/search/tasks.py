"""Jobs of search: one call each."""

from celery import shared_task


@shared_task(name="search.settle_spaces", ignore_result=True, expires=30)
def advance_spaces_task() -> None:
    from openvibe.search.space_lifecycle import advance_spaces

    advance_spaces()

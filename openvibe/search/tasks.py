"""Jobs of search: one call each."""

from celery import shared_task


@shared_task(name="search.settle_spaces", ignore_result=True, expires=30)
def settle_spaces() -> None:
    from openvibe.search.settling import settle_spaces as settle

    settle()

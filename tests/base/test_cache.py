"""The shared cache keeps Django's promises, and a write costs one statement."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from openvibe.base.models import CacheEntry

pytestmark = pytest.mark.django_db


def test_entries_are_set_added_touched_and_expire() -> None:
    with CaptureQueriesContext(connection) as queries:
        cache.set("limit", [1, 2], 60)
    assert len(queries) == 1
    assert (cache.get("limit"), cache.add("limit", 3), cache.touch("limit", 90)) == ([1, 2], False, True)
    cache.set("limit", 4, 60)
    assert cache.get("limit") == 4
    CacheEntry.objects.update(expires=timezone.now() - timedelta(seconds=2))
    assert cache.get("limit") is None
    CacheEntry.objects.create(cache_key=":1:code", value="x", expires=timezone.now() - timedelta(seconds=2))
    assert (cache.add("code", 5, 60), cache.get("code"), cache.touch("nothing")) == (True, 5, False)
    cache.set("forever", 6, None)
    assert (cache.get("forever"), cache.delete("forever"), cache.get("forever")) == (6, True, None)
    cache.set("over", 7, 0)
    assert cache.get("over") is None

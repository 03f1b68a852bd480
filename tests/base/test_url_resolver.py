"""Paths are resolved once, and as Django resolves them."""

import tracemalloc

import pytest
from django.urls import Resolver404, URLResolver, get_resolver, resolve

from openvibe.base.url_resolver import MAX_CACHED_CHARACTERS

PATHS = [
    "/w/willow/knowledge/",
    "/w/willow/t/41/",
    "/api/v1/threads/7/messages/",
    "/accounts/login/",
    f"/w/{'w' * 300}/t/41/",
]


@pytest.mark.parametrize("path", PATHS)
def test_it_finds_what_django_finds_however_often(path: str) -> None:
    expected = URLResolver.resolve(get_resolver(), path)
    for _ in range(2):
        match = resolve(path)
        assert (match.func, match.args, match.kwargs) == (expected.func, expected.args, expected.kwargs)
        assert (match.view_name, match.route, match.namespaces) == (
            expected.view_name,
            expected.route,
            expected.namespaces,
        )


def test_the_patterns_are_walked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/w/walked-once/t/41/"
    resolve(path)
    monkeypatch.setattr(get_resolver(), "url_patterns", [])
    assert resolve(path).kwargs == {"slug": "walked-once", "thread_id": 41}
    with pytest.raises(Resolver404):
        resolve("/w/not-yet/t/41/")


def test_what_leads_nowhere_or_is_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    long_path = f"/w/{'l' * MAX_CACHED_CHARACTERS}/t/41/"
    resolve(long_path)
    with monkeypatch.context() as patch:
        patch.setattr(get_resolver(), "url_patterns", [])
        for path in (long_path, "/w/comes-later/t/41/"):
            with pytest.raises(Resolver404):
                resolve(path)
    assert resolve("/w/comes-later/t/41/").kwargs["slug"] == "comes-later"


def test_who_changes_what_was_found_changes_it_for_nobody_else() -> None:
    resolve("/w/willow/t/41/").kwargs["thread_id"] = 42
    assert resolve("/w/willow/t/41/").kwargs["thread_id"] == 41


def test_a_path_that_is_kept_takes_little_memory() -> None:
    """Of a page of a thread fifty patterns are tried before its own."""
    resolve("/w/willow/t/1/")
    tracemalloc.start()
    try:
        for number in range(200):
            resolve(f"/w/many-threads/t/{number}/")
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used_bytes < 200 * 3_000

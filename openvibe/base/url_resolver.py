"""The path of a request is resolved once in a process: else each request walks through a hundred patterns."""

from functools import lru_cache

from django.urls import ResolverMatch, get_resolver

MAX_CACHED_PATHS = 4_096
MAX_CACHED_CHARACTERS = 200
"""Characters of a path that is kept; longer ones are resolved each time."""


def cache_resolver() -> None:
    """From now on the resolver of ROOT_URLCONF keeps what it found for the latest paths. What leads nowhere is not
    kept: anybody may ask for it."""
    resolver = get_resolver()
    walk = resolver.resolve

    @lru_cache(maxsize=MAX_CACHED_PATHS)
    def find(path: str) -> ResolverMatch:
        match = walk(path)
        match.tried = None  # seven kilobytes of patterns that did not match, for the page of DEBUG alone
        return match

    def resolve(path: str) -> ResolverMatch:
        path = str(path)
        if len(path) > MAX_CACHED_CHARACTERS:
            return walk(path)
        found, match = find(path), ResolverMatch.__new__(ResolverMatch)  # which refuses `copy`
        vars(match).update(vars(found), kwargs=dict(found.kwargs))  # views and middleware may change theirs
        return match

    resolver.resolve = resolve  # type: ignore[method-assign]  # Django's handler takes no resolver of ours
